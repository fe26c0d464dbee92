"""Nodes of methods that predict a temperature for each row, shape (n, 1), in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from domaincal._typing import Array, FloatArray, IntArray
from domaincal.calibrators.mixture.domain_posterior import DomainPosterior
from domaincal.calibrators.temperature_target import TemperatureTarget
from domaincal.deploy.onnx.heads import head_values, nearest_rows, reference
from domaincal.deploy.onnx.rows import GraphRows
from domaincal.deploy.onnx.search import SortedTables
from domaincal.deploy.onnx.tensors import Tensor


def table_temperatures(
    rows: GraphRows, codes: IntArray, temperatures: FloatArray, pooled: float
) -> Tensor:
    """Temperatures of known domains, whose codes are sorted; other codes get the pooled one."""
    graph, domains = rows.graph, rows.needed_domains().unsqueeze()
    tables = SortedTables([codes])
    place = tables.find(domains)
    ends = np.append(codes, codes[-1]), np.append(temperatures, pooled)
    known, of_domain = (graph.constant(tables.aligned([a])).gather(place) for a in ends)
    return graph.where(known.equals(domains), of_domain, pooled)


def head_temperatures(
    rows: GraphRows, head: Any, target: TemperatureTarget, *, of_logits: bool
) -> Tensor:
    """Temperatures from a head, limited as :class:`TemperatureTarget` limits them."""
    graph = rows.graph
    values = head_values(head, sorted_logits(rows) if of_logits else rows.needed_features())
    low, high = np.sort(target.from_temperature(np.array([target.low, target.high])))
    inside = values.clip(float(low), float(high))
    if target.target == "log":
        inside = inside.exp()
    elif target.target == "inverse":
        inside = 1.0 / inside
    return graph.where(values.is_finite(), inside, math.nan)


def sorted_logits(rows: GraphRows) -> Tensor:
    """Logits of each row in descending order, minus their mean, in float64."""
    z, k = rows.logits.cast("float64"), np.array([rows.n_classes])
    ordered = z.graph.ops("TopK", z, k, axis=1, dtypes=["float64", "int64"])[0]
    return ordered - ordered.mean()


def mixture_temperatures(
    rows: GraphRows, posterior: DomainPosterior, temperatures: FloatArray
) -> Tensor:
    """Geometric mean of domain temperatures, weighted by a domain classifier."""
    log_t = domain_probabilities(rows, posterior) @ np.log(temperatures)[:, None]
    # Rounding could leave the range of the temperatures.
    inside = log_t.exp().clip(float(temperatures.min()), float(temperatures.max()))
    return rows.graph.where(log_t.is_finite(), inside, math.nan)


def domain_probabilities(rows: GraphRows, posterior: DomainPosterior) -> Tensor:
    """Probabilities of the known domains, shape (n, n_domains)."""
    values = rows.needed_features() @ posterior.coef + posterior.intercept
    return rows.graph.op("Softmax", values, axis=1)


def density_temperatures(
    rows: GraphRows, stored: Array, *, n_neighbors: int, coef: float, intercept: float
) -> Tensor:
    """``intercept + coef * d(x)`` with the distance d to the k-th nearest of the stored rows.

    These are L2-normalised.
    """
    graph, features = rows.graph, rows.needed_features()
    x = _normalised(features)
    last = nearest_rows(x, stored, n_neighbors).columns(n_neighbors - 1, n_neighbors).squeeze()
    # Cancellation would leave half of the digits of a small distance.
    difference = x - reference(graph, stored).gather(last)
    distance = (difference * difference).sum().sqrt().min(2.0)
    return graph.where(features.is_finite(), distance * coef + intercept, math.nan)


def _normalised(x: Tensor) -> Tensor:
    """Rows of length 1; rows of zeros stay zeros."""
    # Squares of very large and very small features would overflow or be rounded to 0.
    x = x / _not_zero(x.abs().top())
    return (x / _not_zero((x * x).sum().sqrt())).clip(-1.0, 1.0)


def _not_zero(values: Tensor) -> Tensor:
    return values.graph.where(values > 0.0, values, 1.0)
