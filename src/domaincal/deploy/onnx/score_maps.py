"""Nodes of methods that have no temperature: maps of scores, and vector scaling."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from domaincal._typing import FloatArray
from domaincal.calibrators.baselines.vector_scaling import LARGEST_LOGIT
from domaincal.calibrators.score_maps import LineMap, ScoreMap, StepMap
from domaincal.deploy.onnx.rows import (
    GraphOutputs,
    GraphRows,
    below_top,
    of_predicted,
    predicted_class,
)
from domaincal.deploy.onnx.search import SortedTables
from domaincal.deploy.onnx.tensors import Tensor


def map_scores(rows: GraphRows, maps: Sequence[ScoreMap]) -> GraphOutputs:
    """Softmax scores, mapped to probabilities in float64.

    There is one map for the confidence of the predicted class, or a map for each class.
    """
    graph, z = rows.graph, rows.logits
    exponentials = below_top(z.cast("float64")).exp()
    if len(maps) == 1:
        p = _shared(rows, exponentials, maps)
    else:
        p = _one_vs_rest(exponentials / exponentials.sum(), maps)
    p = graph.where(z.is_finite(), p.cast("float32"), np.float32(math.nan))
    return GraphOutputs(p, of_predicted(p, z), None)


def scale_vector(rows: GraphRows, coef: FloatArray, intercept: FloatArray) -> GraphOutputs:
    """``softmax(a * z + b)``; products are limited, so that they stay finite."""
    graph, z = rows.graph, rows.logits
    d = below_top(z.cast("float64"))
    scaled = ((d - d.mean()) * coef).clip(-LARGEST_LOGIT, LARGEST_LOGIT) + intercept
    p = graph.op("Softmax", scaled, axis=1).cast("float32")
    p = graph.where(z.is_finite(), p, np.float32(math.nan))
    return GraphOutputs(p, of_predicted(p, z), None)


def _shared(rows: GraphRows, exponentials: Tensor, maps: Sequence[ScoreMap]) -> Tensor:
    """Mapped confidence; the other classes share the rest in proportion to their softmax."""
    graph, z = rows.graph, rows.logits.cast("float64")
    score = 1.0 / exponentials.sum()
    confidence = _mapped(score, maps)
    is_predicted = predicted_class(z).equals(np.arange(rows.n_classes))
    # Not relative to the predicted class: the others may be far below it.
    others = below_top(graph.where(is_predicted, -math.inf, z)).exp()
    rest = others / others.sum() * (1.0 - confidence)
    return graph.where(is_predicted, confidence, rest)


def _one_vs_rest(softmax: Tensor, maps: Sequence[ScoreMap]) -> Tensor:
    """Mapped scores of all classes, divided by their sum."""
    p = _mapped(softmax, maps)
    total = p.sum()
    # If the maps give every class the probability 0, the row keeps its softmax.
    some = total > 0.0
    return softmax.graph.where(some, p / softmax.graph.where(some, total, 1.0), softmax)


def _mapped(scores: Tensor, maps: Sequence[ScoreMap]) -> Tensor:
    """Value of each column of scores in its map."""
    lines = [m for m in maps if isinstance(m, LineMap)]
    return (
        _lines(scores, lines)
        if lines
        else _steps(scores, [m for m in maps if isinstance(m, StepMap)])
    )


def _steps(scores: Tensor, maps: Sequence[StepMap]) -> Tensor:
    tables = SortedTables([m.edges for m in maps])
    # By the number of edges below a score: the first and the last bin go on outside the edges.
    values = [np.concatenate([m.values[:1], m.values, m.values[-1:]]) for m in maps]
    return scores.graph.constant(tables.aligned(values)).gather(tables.find(scores))


def _lines(scores: Tensor, maps: Sequence[LineMap]) -> Tensor:
    tables = SortedTables([m.points for m in maps], right=True)
    position = tables.find(scores)
    arrays = (tables.aligned(of_maps) for of_maps in zip(*map(_pieces, maps), strict=True))
    left, width, low, rise = (scores.graph.constant(a).gather(position) for a in arrays)
    share = ((scores - left) / width).clip(0.0, 1.0)
    return (low + share * rise).clip(0.0, 1.0)


def _pieces(line: LineMap) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Left end, width, value and rise, by the number of points that are not above a score.

    Before the first and after the last point, the value is constant.
    """
    x, y = line.points, line.values
    left = np.concatenate([x[:1], x])
    width = np.concatenate([[1.0], np.diff(x), [1.0]])
    rise = np.concatenate([[0.0], np.diff(y), [0.0]])
    # Two equal points are a step, at which the second counts.
    return left, np.where(width > 0, width, 1.0), np.concatenate([y[:1], y]), rise
