"""Binomial distribution and exact limits of an accuracy."""

from __future__ import annotations

import numpy as np
from scipy.special import betainc, betaincinv

from domaincal._typing import Array, FloatArray


def binomial_cdf(k: Array, n: Array, q: float | Array) -> FloatArray:
    """Probability of at most k hits in n rows of accuracy q."""
    inside = (k >= 0.0) & (k < n)
    cdf = betainc(np.where(inside, n - k, 1.0), np.where(inside, k + 1.0, 1.0), 1.0 - q)
    return np.where(inside, cdf, (k >= n).astype(np.float64))


def accuracy_limits(hits: Array, n: Array, level: float) -> tuple[FloatArray, FloatArray]:
    """Exact two-sided limits of the accuracy (Clopper and Pearson 1934); NaN without rows.

    Examples
    --------
    >>> import numpy as np
    >>> [end.round(4).tolist() for end in accuracy_limits(np.array([10]), np.array([10]), 0.95)]
    [[0.6915], [1.0]]
    """
    tail = 0.5 * (1.0 - level)
    some, misses = n > 0, n - hits
    low = np.where(hits > 0, betaincinv(np.maximum(hits, 1), misses + 1, tail), 0.0)
    high = np.where(misses > 0, betaincinv(hits + 1, np.maximum(misses, 1), 1.0 - tail), 1.0)
    return np.where(some, low, np.nan), np.where(some, high, np.nan)
