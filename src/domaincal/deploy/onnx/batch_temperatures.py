"""Nodes of batch temperature scaling.

The statistics are those of :mod:`domaincal.statistics.batch_sums`, and the map to log T is
:class:`BatchMap`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from domaincal.calibrators.batch.batch_map import FAR, LARGEST_VALUE, BatchMap, FeatureDirections
from domaincal.deploy.onnx.batches import Batches
from domaincal.deploy.onnx.rows import GraphRows, below_top
from domaincal.deploy.onnx.search import SortedTables
from domaincal.deploy.onnx.tensors import Tensor
from domaincal.statistics.batch_sums import HISTOGRAM_EDGES, QUANTILES

_N_BINS = len(HISTOGRAM_EDGES) - 1
_ROUNDING = 1e-9
_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class _Sums:
    """Sums over the rows of each batch, as in BatchSums."""

    n: Tensor
    values: Tensor
    probabilities: Tensor
    histogram: Tensor


def batch_temperatures(
    rows: GraphRows,
    pooled: float,
    batch_map: BatchMap,
    directions: FeatureDirections | None,
    *,
    single_rows: bool,
) -> Tensor:
    """Temperature of the batch of each row, shape (n, 1); with ``single_rows``, each is a batch."""
    graph = rows.graph
    values, probabilities, confidence = _row_values(rows, pooled)
    valid = rows.logits.is_finite()
    if directions is not None:
        features = rows.needed_features()
        values = graph.concat([values, _feature_values(directions, features)])
        valid = valid & features.is_finite()
    # The limits of values would hide what is not finite.
    values = graph.where(valid, values, math.nan)
    bins = _bins_of(confidence)
    if single_rows:
        bars = bins.equals(np.arange(_N_BINS)).cast("float64")
        one = graph.constant(np.ones((1, 1)))
        return _of_batches(_Sums(one, values, probabilities, bars), batch_map)
    batches = Batches.of_domains(rows)
    n = batches.counts.cast("float64").unsqueeze()
    histogram = batches.histogram(bins.squeeze(), _N_BINS)
    sums = _Sums(n, batches.sums(values), batches.sums(probabilities), histogram)
    return _of_batches(sums, batch_map).gather(batches.number)


def _row_values(rows: GraphRows, pooled: float) -> tuple[Tensor, Tensor, Tensor]:
    """Values of each row, probabilities and confidence."""
    graph = rows.graph
    d = below_top(rows.logits.cast("float64")) * (1.0 / pooled)
    d = d.max(-LARGEST_VALUE)  # the square of a masked logit must not overflow
    exponentials = d.exp()
    norm = exponentials.sum()
    p = exponentials / norm
    confidence = 1.0 / norm
    entropy = norm.log() - (p * d).sum()
    largest = graph.ops("TopK", d, np.array([2]), axis=1, dtypes=["float64", "int64"])[0]
    margin = -largest.columns(1, 2)
    values = [confidence, entropy, margin, -d.mean(), _spread(d), confidence * confidence]
    return graph.concat(values), p, confidence


def _feature_values(directions: FeatureDirections, features: Tensor) -> Tensor:
    """Norm, spread over the columns and coordinates of each centred row of features."""
    x = (features - directions.mean) / directions.scale
    x = x.clip(-LARGEST_VALUE, LARGEST_VALUE)
    norm = (x * x).sum().sqrt()
    values = x.graph.concat([norm, _spread(x), x @ directions.directions])
    return values.clip(-LARGEST_VALUE, LARGEST_VALUE)


def _bins_of(confidence: Tensor) -> Tensor:
    """Bin of the histogram of each confidence, shape (n, 1)."""
    tables = SortedTables([HISTOGRAM_EDGES])
    of_count = np.clip(np.arange(-1, _N_BINS + 1), 0, _N_BINS - 1)
    return confidence.graph.constant(tables.aligned([of_count])).gather(tables.find(confidence))


def _of_batches(sums: _Sums, learned: BatchMap) -> Tensor:
    """Temperature of each batch, shape (n_batches, 1)."""
    graph = sums.values.graph
    means, p = sums.values / sums.n, sums.probabilities / sums.n
    confidence, entropy, margin, top, spread, square = (means.columns(k, k + 1) for k in range(6))
    quantiles = _quantiles(sums.histogram / sums.n)
    entropy_of_mean = -(p * p.max(_TINY).log()).sum()
    statistics = [
        confidence, _root(square - confidence * confidence), *quantiles, entropy, entropy_of_mean,
        margin, top, spread,
    ]  # fmt: skip
    n_values = 6 + learned.mean.shape[1] - len(statistics)
    if n_values > 6:
        statistics.append(means.columns(6, n_values))
    found = _map(graph.concat(statistics), sums.n, learned)
    return graph.where(means.is_finite(), found, math.nan)


def _map(statistics: Tensor, n: Tensor, learned: BatchMap) -> Tensor:
    """:meth:`BatchMap.predict`, to temperatures."""
    x = (statistics.unsqueeze() - learned.mean) / learned.scale  # (batches, sizes, statistics)
    distance = (x * x).sum(2).sqrt().squeeze(2) / learned.reach
    near = FAR / distance.max(FAR)
    near = near * near
    linear = (x * learned.coef[:, :-1]).sum(2).squeeze(2) + learned.coef[:, -1]
    log_t = _between(linear * (near * near), n.log(), learned) + learned.log_pooled
    return log_t.clip(learned.low, learned.high).exp()


def _between(values: Tensor, log_n: Tensor, learned: BatchMap) -> Tensor:
    """Values of batches of n rows, between those of two sizes, shape (n_batches, 1)."""
    sizes = len(learned.sizes)
    first = values.columns(0, 1)
    if sizes == 1:
        return first
    log_sizes = np.log(learned.sizes)
    share = ((log_n - log_sizes[:-1]) / np.diff(log_sizes)).clip(0.0, 1.0)
    rises = values.columns(1, sizes) - values.columns(0, sizes - 1)
    return first + (rises * share).sum()


def _quantiles(share: Tensor) -> list[Tensor]:
    """Quantiles of each histogram, whose bins sum to 1, interpolated within a bin."""
    graph = share.graph
    cumulated = share.cumsum(1)
    below = graph.concat([cumulated.columns(0, 1) * 0.0, cumulated])
    quantiles = []
    for level in QUANTILES:
        # Rounding must not move a level that a bin reaches exactly into the next bin.
        before = (cumulated < level - _ROUNDING).cast("int64")
        k = before.sum().min(_N_BINS - 1)
        start, end = below.gather_columns(k), cumulated.gather_columns(k)
        quantiles.append((k.cast("float64") + (level - start) / (end - start)) / float(_N_BINS))
    return quantiles


def _spread(values: Tensor) -> Tensor:
    """Standard deviation of each row."""
    centred = values - values.mean()
    return (centred * centred).mean().sqrt()


def _root(values: Tensor) -> Tensor:
    return values.max(0.0).sqrt()
