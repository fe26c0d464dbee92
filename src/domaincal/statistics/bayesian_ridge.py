"""Bayesian ridge regression from sums over rows.

The prior of the coefficients is normal with mean 0 and precision ``lambda``; the noise is normal
with precision ``alpha``. Both are chosen by the evidence (MacKay 1992), as in scikit-learn's
``BayesianRidge(fit_intercept=False)``. A constant column of the rows is an intercept, whose prior
mean is 0 too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np

from domaincal._typing import FloatArray, IntArray

# Weak gamma priors of both precisions, as in scikit-learn: they keep precisions finite.
_PRIOR = 1e-6
_MAX_ITERATIONS = 500
_TOLERANCE = 1e-6
_LARGEST_RATIO = 1e8


@dataclass(frozen=True, eq=False)
class RidgeSums:
    """Weighted sums of rows ``x`` and targets ``t``.

    Attributes
    ----------
    gram : array of shape (p, p)
        ``sum w x x'``.
    moments : array of shape (p,)
        ``sum w t x``.
    square : float
        ``sum w t**2``.
    weight : float
        ``sum w``.
    """

    gram: FloatArray
    moments: FloatArray
    square: float
    weight: float

    @classmethod
    def from_rows(cls, x: FloatArray, targets: FloatArray, weight: FloatArray) -> RidgeSums:
        """Sums over rows of shape (n, p)."""
        weighted = x * weight[:, None]
        return cls(
            weighted.T @ x,
            weighted.T @ targets,
            float(weight @ targets**2),
            float(weight.sum()),
        )

    def __add__(self, other: RidgeSums) -> RidgeSums:
        return RidgeSums(
            self.gram + other.gram,
            self.moments + other.moments,
            self.square + other.square,
            self.weight + other.weight,
        )

    def times(self, factor: float) -> RidgeSums:
        """Sums of the same rows with weights that are multiplied by a number."""
        return RidgeSums(
            factor * self.gram, factor * self.moments, factor * self.square, factor * self.weight
        )

    def select(self, columns: IntArray) -> RidgeSums:
        """Sums of some of the columns of the rows."""
        gram = self.gram[columns[:, None], columns]
        return RidgeSums(gram, self.moments[columns], self.square, self.weight)


def sums_of_others(parts: Sequence[RidgeSums]) -> Iterator[RidgeSums]:
    """Sum of all parts except each, in the order of the parts; at least two.

    The sums outside of a half of the parts are shared by the parts inside of it: ``n log n``
    additions, and no differences of sums, which would lose digits.

    Examples
    --------
    >>> import numpy as np
    >>> parts = [RidgeSums(np.eye(1), np.ones(1), 1.0, float(w)) for w in (1, 2, 4)]
    >>> [others.weight for others in sums_of_others(parts)]
    [6.0, 5.0, 3.0]
    """
    waiting: list[tuple[int, int, RidgeSums | None]] = [(0, len(parts), None)]
    while waiting:
        start, stop, outside = waiting.pop()
        if stop - start == 1:
            assert outside is not None
            yield outside
            continue
        middle = (start + stop) // 2
        left, right = (reduce(add, parts[a:b]) for a, b in ((start, middle), (middle, stop)))
        waiting.append((middle, stop, left if outside is None else outside + left))
        waiting.append((start, middle, right if outside is None else outside + right))


@dataclass(frozen=True, eq=False)
class RidgeFit:
    """Posterior of the coefficients.

    Attributes
    ----------
    coef : array of shape (p,)
        Posterior mean.
    covariance : array of shape (p, p)
        Posterior covariance.
    noise : float
        Variance of the noise, ``1 / alpha``.
    """

    coef: FloatArray
    covariance: FloatArray
    noise: float


def fit_bayesian_ridge(sums: RidgeSums) -> RidgeFit:
    """Coefficients at the precisions that maximise the evidence.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([[1.0, 1.0], [1.0, 2.0], [1.0, 3.0]])
    >>> sums = RidgeSums.from_rows(x, np.array([1.0, 2.0, 3.0]), np.ones(3))
    >>> fit_bayesian_ridge(sums).coef.round(3).tolist()
    [0.0, 1.0]
    """
    eigenvalues, vectors = np.linalg.eigh(sums.gram)
    eigenvalues = np.maximum(eigenvalues, 0.0)
    moments = vectors.T @ sums.moments
    variance = sums.square / max(sums.weight, np.finfo(np.float64).tiny)
    alpha, ridge = 1.0 / (variance + np.finfo(np.float64).eps), 1.0
    ratio = ridge / alpha
    for _ in range(_MAX_ITERATIONS):
        coef = moments / (ratio + eigenvalues)
        determined = float((eigenvalues / (ratio + eigenvalues)).sum())
        error = max(sums.square - 2.0 * coef @ moments + eigenvalues @ coef**2, 0.0)
        ridge = (determined + 2.0 * _PRIOR) / (coef @ coef + 2.0 * _PRIOR)
        alpha = (max(sums.weight - determined, 0.0) + 2.0 * _PRIOR) / (error + 2.0 * _PRIOR)
        previous, ratio = ratio, ridge / alpha
        # Far above the eigenvalues, the coefficients are 0 whatever the ratio.
        if abs(np.log(ratio / previous)) < _TOLERANCE or ratio > _LARGEST_RATIO * eigenvalues[-1]:
            break
    coef = moments / (ratio + eigenvalues)
    covariance = (vectors / (ridge + alpha * eigenvalues)) @ vectors.T
    return RidgeFit(vectors @ coef, covariance, float(1.0 / alpha))
