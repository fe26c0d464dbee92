"""Bin sums of all domains at once, and their calibration errors as arrays over the domains."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from domaincal._typing import Array, FloatArray, IntArray
from domaincal.kernels import dispatch
from domaincal.statistics.bin_sums import BinSums, bin_edges, binomial_deviation, check_countable


@dataclass(frozen=True, eq=False)
class DomainBins:
    """Sums of rows, confidence and hits of each domain in the same bins.

    One pass over the rows gives the sums of all domains, where :class:`BinSums` would need a call
    for each. Arrays of the methods have one value for each domain.

    Attributes
    ----------
    edges : array, shape (n_bins + 1,)
    weight, confidence, hits : arrays, shape (n_domains, n_bins)
        As in :class:`BinSums`.

    Examples
    --------
    >>> import numpy as np
    >>> confidences, hits = np.array([0.9, 0.8, 0.6]), np.array([True, True, False])
    >>> bins = DomainBins.from_confidences(confidences, hits, np.array([0, 0, 1]), 2)
    >>> bins.n.tolist(), bins.calibration_error().round(6).tolist()
    ([2.0, 1.0], [0.15, 0.6])
    >>> round(bins.of_domain(1).calibration_error(), 6)
    0.6
    """

    edges: FloatArray
    weight: FloatArray
    confidence: FloatArray
    hits: FloatArray

    @classmethod
    def from_confidences(
        cls,
        confidences: FloatArray,
        hits: Array,
        codes: IntArray,
        n_domains: int,
        *,
        n_bins: int = 15,
        weight: FloatArray | None = None,
    ) -> DomainBins:
        """Bin checked confidences; ``codes`` holds the number of the domain of each row."""
        edges = bin_edges(confidences, n_bins, "uniform")
        compiled = dispatch.use_compiled(len(confidences))
        sums = dispatch.domain_bin_sums(
            confidences, hits, codes, n_domains, edges, weight=weight, compiled=compiled
        )
        return cls(edges, *np.ascontiguousarray(sums.transpose(2, 0, 1)))

    @classmethod
    def empty(cls, edges: FloatArray, n_domains: int) -> DomainBins:
        """Sums of no rows."""
        shape = n_domains, len(edges) - 1
        return cls(edges, np.zeros(shape), np.zeros(shape), np.zeros(shape))

    def add(self, other: DomainBins, domains: IntArray) -> None:
        """Add sums in the same bins, in place; ``domains`` are the numbers of their domains."""
        for name in ("weight", "confidence", "hits"):
            getattr(self, name)[domains] += getattr(other, name)

    def __add__(self, other: DomainBins) -> DomainBins:
        return DomainBins(
            self.edges, self.weight + other.weight, self.confidence + other.confidence,
            self.hits + other.hits,
        )  # fmt: skip

    def of_domain(self, k: int) -> BinSums:
        """Sums of one domain."""
        return BinSums(self.edges, self.weight[k], self.confidence[k], self.hits[k])

    @property
    def n(self) -> FloatArray:
        """Number of rows, or their total weight."""
        return np.asarray(self.weight.sum(axis=1))

    @property
    def mean_confidence(self) -> FloatArray:
        """Mean confidence; NaN without rows."""
        return self._mean(self.confidence)

    @property
    def accuracy(self) -> FloatArray:
        """Fraction of hits; NaN without rows."""
        return self._mean(self.hits)

    def _mean(self, sums: FloatArray) -> FloatArray:
        with np.errstate(invalid="ignore"):
            return np.asarray(sums.sum(axis=1) / self.n)

    def calibration_error(self) -> FloatArray:
        """ECE, see :meth:`BinSums.calibration_error`; NaN without rows."""
        return self._mean(np.abs(self.confidence - self.hits))

    def floor(self) -> FloatArray:
        """Mean ECE of a perfectly calibrated model, see :meth:`BinSums.floor`.

        The weights of all bins must be whole numbers of rows.
        """
        check_countable(float(self.n.max()), "the floor of ECE")
        full = self.weight > 0
        deviation = np.zeros(self.weight.shape)
        deviation[full] = binomial_deviation(self.weight[full], self.confidence[full])
        return self._mean(deviation)
