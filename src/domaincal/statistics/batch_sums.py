"""Sums over the rows of unlabelled batches, and the statistics that are computed from them.

Every statistic of a batch follows from sums, so that blocks of a stream or sums of several sites
can be added: means of values of each row, and quantiles of a histogram of the confidences.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import scipy.sparse

from domaincal._tensors import DeviceArray, is_tensor, namespace
from domaincal._typing import Array, FloatArray, IntArray
from domaincal.kernels import torch_batches
from domaincal.kernels.bins import bin_index
from domaincal.kernels.device_groups import RowGroups
from domaincal.kernels.numpy_kernels import row_statistics

#: Bins of the histogram of confidences.
HISTOGRAM_EDGES = np.linspace(0.0, 1.0, 101)
#: Quantiles of the confidence, read from the histogram.
QUANTILES = (0.1, 0.25, 0.5, 0.75)
#: Names of the statistics of the logits, in the order of :meth:`BatchSums.statistics`.
LOGIT_STATISTICS = (
    "mean_confidence", "sd_confidence", *(f"confidence_{q:g}" for q in QUANTILES),
    "mean_entropy", "entropy_of_mean", "mean_margin", "mean_top_logit", "mean_spread",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class RowStatistics:
    """Values of each row that are summed over a batch.

    Attributes
    ----------
    values : array of shape (n, 6 + n_feature_values)
        Columns of :func:`domaincal.kernels.numpy_kernels.row_statistics`, the square of the
        confidence, and values of the features.
    probabilities : array of shape (n, n_classes)
        Softmax at the pooled temperature.
    bins : array of int, shape (n,)
        Bin of the confidence.
    """

    values: FloatArray
    probabilities: FloatArray
    bins: IntArray

    @classmethod
    def from_rows(
        cls, logits: Array, beta: float, feature_values: FloatArray | None = None
    ) -> RowStatistics:
        """Statistics of rows at ``beta``, one over the pooled temperature."""
        values, probabilities = row_statistics(logits, beta)
        confidence = values[:, 0]
        columns = [values, confidence[:, None] ** 2]
        if feature_values is not None:
            columns.append(feature_values)
        return cls(np.hstack(columns), probabilities, bin_index(confidence, HISTOGRAM_EDGES))

    def sums(
        self,
        batch: IntArray,
        n_batches: int,
        *,
        rows: IntArray | None = None,
        weight: FloatArray | None = None,
    ) -> BatchSums:
        """Sums of each batch; ``batch`` is the number of the batch of each row.

        With ``rows``, ``batch`` and ``weight`` belong to these rows, which may occur repeatedly.
        """
        n, n_bins = len(self.bins), len(HISTOGRAM_EDGES) - 1
        rows = np.arange(n) if rows is None else rows
        weight = np.ones(len(rows)) if weight is None else weight
        indicator = scipy.sparse.csr_array((weight, (batch, rows)), shape=(n_batches, n))
        bins = batch * n_bins + self.bins[rows]
        histogram = np.bincount(bins, weight, minlength=n_batches * n_bins)
        return BatchSums(
            np.bincount(batch, weight, minlength=n_batches).astype(np.float64),
            np.asarray(indicator @ self.values),
            np.asarray(indicator @ self.probabilities),
            histogram.reshape(n_batches, n_bins).astype(np.float64),
        )


@dataclass(frozen=True, eq=False)
class BatchSums:
    """Sums over the rows of each batch; the sums of two parts of the same batches can be added.

    Sums over rows on a device are tensors on it.

    Attributes
    ----------
    n : array of shape (n_batches,)
        Number of rows.
    values : array of shape (n_batches, n_values)
        Sums of the values of :class:`RowStatistics`.
    probabilities : array of shape (n_batches, n_classes)
    histogram : array of shape (n_batches, 100)
        Number of rows in each bin of the confidence.
    """

    n: Any
    values: Any
    probabilities: Any
    histogram: Any

    @classmethod
    def on_device(cls, logits: DeviceArray, beta: float, groups: RowGroups) -> BatchSums:
        """Sums of logits on a device; ``groups`` holds the batch of each row."""
        edges = logits.send(HISTOGRAM_EDGES)
        return cls(groups.sums(), *torch_batches.batch_sums(logits.tensor, beta, groups, edges))

    def __add__(self, other: BatchSums) -> BatchSums:
        names = [f.name for f in fields(self)]
        return BatchSums(*(getattr(self, name) + getattr(other, name) for name in names))

    def zeros(self, n_batches: int) -> BatchSums:
        """Sums of no rows, for as many batches, of the same statistics."""
        arrays = (getattr(self, f.name) for f in fields(self))
        return BatchSums(*(np.zeros((n_batches, *a.shape[1:])) for a in arrays))

    def add(self, other: BatchSums, batches: IntArray) -> None:
        """Add sums in place; ``batches`` are the numbers of their batches."""
        for f in fields(self):
            getattr(self, f.name)[batches] += getattr(other, f.name)

    def statistics(self) -> Any:
        """Statistics of each batch: those of the logits, then means of the feature values.

        Shape (n_batches, 11 + n_feature_values); a tensor if the sums are tensors.
        """
        n, library = self.n[:, None], namespace(self.values)
        confidence, entropy, margin, top, spread, square, *features = (self.values / n).T
        p = self.probabilities / n
        entropy_of_mean = -(p * library.log(p.clip(min=np.finfo(np.float64).tiny))).sum(axis=1)
        sd = library.sqrt((square - confidence**2).clip(min=0.0))
        return library.column_stack(
            [confidence, sd, *histogram_quantiles(self.histogram, QUANTILES),
             entropy, entropy_of_mean, margin, top, spread, *features]
        )  # fmt: skip


def histogram_quantiles(histogram: Any, levels: tuple[float, ...]) -> list[Any]:
    """Quantiles of each histogram of equal bins on [0, 1], interpolated within a bin.

    Examples
    --------
    >>> import numpy as np
    >>> [q.tolist() for q in histogram_quantiles(np.array([[2.0, 2.0]]), (0.25, 0.5))]
    [[0.25], [0.5]]
    """
    library, n_bins = namespace(histogram), histogram.shape[1]
    cumulated = histogram.cumsum(axis=1)
    cumulated = cumulated / cumulated[:, -1:]
    below = library.hstack([library.zeros_like(cumulated[:, :1]), cumulated])
    quantiles = []
    for level in levels:
        # Rounding must not move a level that a bin reaches exactly into the next bin.
        k = (cumulated < level - 1e-9).sum(axis=1)
        start, end = (_of_columns(values, k) for values in (below, cumulated))
        quantiles.append((k + (level - start) / (end - start)) / n_bins)
    return quantiles


def _of_columns(values: Any, columns: Any) -> Any:
    """Value of each row in its column."""
    library = namespace(values)
    take = library.take_along_dim if is_tensor(values) else library.take_along_axis
    return take(values, columns[:, None], 1)[:, 0]
