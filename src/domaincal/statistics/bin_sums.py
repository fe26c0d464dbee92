"""Bin sums of confidences and hits, from which calibration errors are computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import gammaln, xlog1py, xlogy

from domaincal._typing import Array, ArrayLike, FloatArray
from domaincal._validation import (
    check_confidences,
    check_hits,
    check_n_bins,
    check_number,
    check_option,
    check_sample_weight,
)
from domaincal.errors import InputError
from domaincal.kernels import dispatch
from domaincal.statistics.blocks import Workers, row_blocks
from domaincal.statistics.error_interval import ErrorInterval, error_interval
from domaincal.statistics.smooth_error import smooth_error

Norm = Literal["l1", "l2", "max"]
Strategy = Literal["uniform", "quantile"]
STRATEGIES = ("uniform", "quantile")

#: Number of bins for the smooth error, and the smallest number that it accepts.
SMOOTH_BINS = 1 << 14
_FEWEST_SMOOTH_BINS = 1000
#: Largest number of rows for which differences of logarithms of factorials are exact enough.
MOST_ROWS = 1e12


@dataclass(frozen=True, eq=False)
class BinSums:
    """Sums of rows, confidence and hits in bins ``(a, b]``; the first bin includes its left edge.

    Sums with the same edges can be added, for example those of blocks, files or sites.

    Attributes
    ----------
    edges : array, shape (n_bins + 1,)
    weight : array, shape (n_bins,)
        Number of rows in each bin, or their total weight; a weight counts as repetitions.
    confidence, hits : arrays, shape (n_bins,)

    Examples
    --------
    >>> sums = BinSums.from_confidences([0.9, 0.8, 0.6], [True, True, False], n_bins=2)
    >>> sums.weight.tolist()
    [0.0, 3.0]
    >>> round(sums.calibration_error(), 6)
    0.1
    >>> (sums + sums).weight.tolist()
    [0.0, 6.0]
    """

    edges: FloatArray
    weight: FloatArray
    confidence: FloatArray
    hits: FloatArray

    @classmethod
    def from_confidences(
        cls,
        confidences: ArrayLike,
        hits: ArrayLike,
        *,
        n_bins: int = 15,
        strategy: Strategy = "uniform",
        sample_weight: ArrayLike | None = None,
    ) -> BinSums:
        """Bin confidences in [0, 1]; ``hits`` says which predictions are correct."""
        c = check_confidences(confidences)
        h = check_hits(hits, n_rows=len(c))
        w = check_sample_weight(sample_weight, n_rows=len(c))
        edges = bin_edges(c, n_bins, strategy, w)
        compiled = dispatch.use_compiled(len(c))

        def block_sums(block: slice) -> FloatArray:
            weight = None if w is None else w[block]
            return dispatch.bin_sums(c[block], h[block], edges, weight=weight, compiled=compiled)

        with Workers() as workers:
            sums = workers.sum(block_sums, row_blocks(len(c), c.itemsize))
        return cls(edges, *sums.T)

    def __add__(self, other: BinSums) -> BinSums:
        if not isinstance(other, BinSums):
            return NotImplemented
        if not np.array_equal(self.edges, other.edges):
            raise InputError(
                f"only bins with the same edges can be added, got {len(self.weight)} and "
                f"{len(other.weight)} bins; use strategy='uniform' and the same n_bins."
            )
        return BinSums(
            self.edges,
            self.weight + other.weight,
            self.confidence + other.confidence,
            self.hits + other.hits,
        )

    def __radd__(self, other: object) -> BinSums:
        if other == 0:  # the start of sum()
            return self
        return NotImplemented

    @property
    def n(self) -> float:
        """Number of rows, or their total weight."""
        return float(self.weight.sum())

    @property
    def mean_confidence(self) -> float:
        """Mean confidence of all rows."""
        return float(self.confidence.sum() / self.n) if self.n else float("nan")

    @property
    def accuracy(self) -> float:
        """Fraction of hits."""
        return float(self.hits.sum() / self.n) if self.n else float("nan")

    def calibration_error(self, norm: Norm = "l1") -> float:
        """Difference of confidence and accuracy over the bins.

        ``"l1"``: the weighted mean of the absolute gaps (ECE); ``"l2"``: the root of the weighted
        mean of their squares; ``"max"``: the largest gap of a bin with rows.
        """
        check_option(norm, "norm", ("l1", "l2", "max"))
        full = self.weight > 0
        if not full.any():
            return float("nan")
        gap = np.abs(self.confidence[full] - self.hits[full]) / self.weight[full]
        share = self.weight[full] / self.n
        if norm == "max":
            return float(gap.max())
        if norm == "l2":
            return float(np.sqrt(share @ gap**2))
        return float(share @ gap)

    def floor(self) -> float:
        """Mean ECE of a perfectly calibrated model with these counts and confidences.

        With hits drawn as Bernoulli(confidence), a bin of n rows and mean confidence p contributes
        the mean absolute deviation of a binomial, :func:`binomial_deviation`.
        """
        full = self.weight > 0
        n = self._whole_rows("the floor of ECE")[full]
        if len(n) == 0:
            return float("nan")
        return float(binomial_deviation(n, self.confidence[full]).sum() / self.n)

    def excess_error(self) -> float:
        """ECE minus its floor: near 0 for a calibrated model, for any n and bins."""
        return self.calibration_error() - self.floor()

    def debiased_squared_error(self) -> float:
        """Squared calibration error without its bias; it can be negative by chance.

        ``sum_b n_b / n * ((c_b - a_b)**2 - a_b (1 - a_b) / (n_b - 1))`` (Kumar et al. 2019) with
        confidence c_b and accuracy a_b, over bins of at least two rows; NaN if there are none.
        """
        full = self.weight >= 2.0
        n = self._whole_rows("the debiased error")[full]
        if len(n) == 0:
            return float("nan")
        accuracy = self.hits[full] / n
        squares = (self.confidence[full] / n - accuracy) ** 2
        return float(n @ (squares - accuracy * (1.0 - accuracy) / (n - 1.0)) / n.sum())

    def smooth_error(self) -> float:
        """Smooth ECE, which needs many uniform bins: ``n_bins=16384``.

        The width of the smoothing is the error itself. Confidences are exact to half a bin.
        """
        even = np.arange(len(self.edges)) / (len(self.edges) - 1)
        if len(self.weight) < _FEWEST_SMOOTH_BINS or not np.array_equal(self.edges, even):
            raise InputError(
                f"smooth_error needs at least {_FEWEST_SMOOTH_BINS} uniform bins, got "
                f"{len(self.weight)}; use n_bins={SMOOTH_BINS} and strategy='uniform'."
            )
        return smooth_error((self.hits - self.confidence) / self.n) if self.n else float("nan")

    def interval(self, level: float = 0.95) -> ErrorInterval:
        """ECE with and without its bias, an interval, and a test of perfect calibration."""
        check_number(level, "level", low=0.0, high=1.0)
        full = self.weight > 0
        n = self._whole_rows("the interval")[full]
        if len(n) == 0:
            return ErrorInterval(*[float("nan")] * 5)
        confidence = np.clip(self.confidence[full] / n, 0.0, 1.0)
        return error_interval(n, confidence, self.hits[full] / n, level)

    def _whole_rows(self, needed_by: str) -> FloatArray:
        """Rows of each bin; an error for fractional weights, which do not determine the chance."""
        fraction = self.weight != np.round(self.weight)
        if fraction.any():
            raise InputError(
                f"{needed_by} needs whole numbers of rows, but sample_weight gives a bin "
                f"{self.weight[fraction][0]:.4g}; use integer weights (repetitions), or ECE only."
            )
        check_countable(self.n, needed_by)
        return self.weight


def binomial_deviation(n: FloatArray, confidence: FloatArray) -> FloatArray:
    """Mean absolute deviation of the hits of bins with n rows and this sum of confidences.

    With the mean confidence p: ``2 v C(n, v) p**v (1-p)**(n-v+1)`` with ``v = floor(n p) + 1``
    (De Moivre).
    """
    p = np.clip(confidence / n, 0.0, 1.0)
    v = np.minimum(np.floor(n * p) + 1.0, n)
    log_choose = gammaln(n + 1) - gammaln(v + 1) - gammaln(n - v + 1)
    return np.asarray(2 * v * np.exp(log_choose + xlogy(v, p) + xlog1py(n - v + 1, -p)))


def check_countable(n_rows: float, needed_by: str) -> None:
    """Raise InputError if a total weight cannot be a number of rows."""
    # Weights that are normalised to a sum of 1 may round below it.
    if 0.0 < n_rows < 1.0 - 1e-9 or n_rows > MOST_ROWS:
        raise InputError(
            f"{needed_by} counts a weight of 2 as two rows, but sample_weight sums to "
            f"{n_rows:.3g}, which is not between 1 and {MOST_ROWS:g}; scale the weights so that "
            "they sum to the number of rows."
        )


def bin_edges(
    confidences: FloatArray, n_bins: int, strategy: str, weight: Array | None = None
) -> FloatArray:
    """Edges m / n_bins, or 0, the quantiles of the confidences, and 1."""
    n_bins = check_n_bins(n_bins)
    check_option(strategy, "strategy", STRATEGIES)
    edges = np.arange(n_bins + 1) / n_bins
    if strategy == "quantile":
        inner = edges[1:-1]
        edges[1:-1] = _quantiles(confidences, inner, weight)
    return edges


def _quantiles(
    values: FloatArray, levels: Sequence[float] | FloatArray, weight: Array | None
) -> Array:
    """Smallest values with at least the given shares of the weight at or below them."""
    return np.asarray(np.quantile(values, levels, method="inverted_cdf", weights=weight))
