"""Calibration rows from which batches are resampled, and statistics of the batches of a prediction.

Rows are resampled on the host. Statistics of logits on a device are summed there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import add
from typing import Any

import numpy as np

from domaincal._tensors import as_codes, host_array, on_device
from domaincal._typing import Array, FloatArray, IntArray
from domaincal.calibrators.batch.batch_map import FeatureDirections
from domaincal.kernels.device_groups import RowGroups
from domaincal.kernels.numpy_kernels import row_statistics
from domaincal.kernels.row_groups import rows_of_codes
from domaincal.statistics.batch_sums import HISTOGRAM_EDGES, BatchSums, RowStatistics
from domaincal.statistics.blocks import row_blocks
from domaincal.statistics.principal_directions import principal_directions

# Bytes of the float64 values of a block of rows.
_BLOCK_BYTES = 1 << 25
# Most numbers in the sums of all batches on a device.
_DEVICE_SUMS = 1 << 27
#: Rows of one domain from which batches are resampled, and of all domains for the directions.
MOST_ROWS = 4096
_N_DIRECTIONS = 8


@dataclass(frozen=True, eq=False)
class DomainRows:
    """Rows of a domain in the order of their margins; a row of weight 2 counts as two rows.

    The order, and with it what is resampled, does not depend on the order of the data.
    """

    rows: IntArray
    weight: FloatArray

    def thinned(self, n: int) -> DomainRows:
        """At most n rows, at equal distances of the cumulated weight."""
        if len(self.rows) <= n:
            return self
        total = np.cumsum(self.weight)
        at = np.searchsorted(total, (np.arange(n) + 0.5) / n * total[-1])
        return DomainRows(self.rows[at], np.ones(n))


def domain_rows(
    logits: Array, codes: IntArray, domains: IntArray, weight: FloatArray | None
) -> list[DomainRows]:
    """At most 4,096 rows of each of these domains."""
    chosen = []
    of_domain = rows_of_codes(codes, int(codes.max()) + 1)
    for domain in domains:
        rows = of_domain[domain]
        w = np.ones(len(rows)) if weight is None else weight[rows]
        rows, w = rows[w > 0], w[w > 0]
        keys = np.concatenate(
            [row_statistics(host_array(logits[rows[block]]), 1.0)[0][:, 2:]
             for block in row_blocks(len(rows), logits.shape[1] * 8, _BLOCK_BYTES)]
        )  # fmt: skip
        order = np.lexsort(keys.T[::-1])
        chosen.append(DomainRows(rows[order], w[order]).thinned(MOST_ROWS))
    return chosen


def feature_directions(features: Array, chosen: list[DomainRows]) -> FeatureDirections:
    """First eight whitened principal directions of the features of these rows."""
    thinned = [one.thinned(max(1, MOST_ROWS // len(chosen))) for one in chosen]
    # A domain counts the same whether all or some of its rows are taken.
    weight = np.concatenate(
        [one.weight * (full.weight.sum() / one.weight.sum())
         for one, full in zip(thinned, chosen, strict=True)]
    )  # fmt: skip
    weight /= weight.sum()
    x = host_array(features[np.concatenate([one.rows for one in thinned])]).astype(np.float64)
    mean = weight @ x
    x -= mean
    scale = float(np.abs(x).max()) or 1.0
    x *= np.sqrt(weight)[:, None] / scale
    directions = np.zeros((x.shape[1], min(_N_DIRECTIONS, x.shape[1])))
    values, found = principal_directions(x, directions.shape[1])
    directions[:, : len(values)] = (found / np.sqrt(values))[:, ::-1]
    return FeatureDirections(mean, scale, directions)


def domain_values(
    logits: Array,
    features: Array | None,
    chosen: list[DomainRows],
    *,
    beta: float,
    directions: FeatureDirections | None,
) -> Iterator[tuple[RowStatistics, FloatArray]]:
    """Statistics and weights of the chosen rows, one domain at a time."""
    for one in chosen:
        yield row_values(logits, features, one.rows, beta=beta, directions=directions), one.weight


def domain_profile(values: RowStatistics, weight: FloatArray) -> FloatArray:
    """Statistics of all rows of a domain, shape (1, n_statistics): which domains are similar."""
    return np.asarray(values.sums(np.zeros(len(weight), np.int64), 1, weight=weight).statistics())


def batch_statistics(
    logits: Array,
    features: Array | None,
    codes: IntArray,
    n_batches: int,
    *,
    beta: float,
    directions: FeatureDirections | None,
) -> tuple[Any, FloatArray]:
    """Statistics of each batch, and its number of rows.

    Batches are read one after the other, so that the sums of few batches exist at a time. Without
    values of features, logits on a device are summed there, and the statistics are a tensor;
    ``codes`` may be there, too.
    """
    width = logits.shape[1] + len(HISTOGRAM_EDGES)
    if on_device(logits) and directions is None and n_batches * width <= _DEVICE_SUMS:
        of_rows = None if n_batches == 1 else as_codes(codes, logits.device)
        groups = RowGroups(len(logits), logits.device, of_rows, n_batches)
        n = np.diff(groups.starts).astype(np.float64)
        return BatchSums.on_device(logits, beta, groups).statistics(), n
    codes = host_array(codes)
    order = None if n_batches == 1 else np.argsort(codes, kind="stable")
    counts = np.bincount(codes, minlength=n_batches)
    starts = np.concatenate([[0], np.cumsum(counts)])
    width = logits.shape[1] + (0 if features is None else features.shape[1])
    size = row_blocks(len(codes), 8 * (width + 100), _BLOCK_BYTES)[0].stop

    def sums(block: slice, first: int, n: int) -> BatchSums:
        rows = block if order is None else order[block]
        statistics = row_values(logits, features, rows, beta=beta, directions=directions)
        return statistics.sums(codes[rows] - first, n)

    statistics = []
    first = 0
    while first < n_batches:
        last = max(first + 1, int(np.searchsorted(starts, starts[first] + size, "right")) - 1)
        cuts = [*range(starts[first], starts[last], size), starts[last]]
        parts = (sums(slice(a, b), first, last - first) for a, b in pairwise(cuts))
        statistics.append(reduce(add, parts).statistics())
        first = last
    return np.concatenate(statistics), counts.astype(np.float64)


def row_values(
    logits: Array,
    features: Array | None,
    rows: slice | IntArray,
    *,
    beta: float,
    directions: FeatureDirections | None,
) -> RowStatistics:
    """Statistics of these rows."""
    values = None
    if directions is not None and features is not None:
        values = directions(host_array(features[rows]))
    return RowStatistics.from_rows(host_array(logits[rows]), beta, values)
