"""An interval for the calibration error, from bin counts, confidences and hits alone.

ECE is biased upwards, so resampling the rows adds the bias once more: a naive bootstrap is centred
about sqrt(2) times too high when the model is calibrated. Here the question is turned round: for
which accuracies of the bins would the ECE that was seen be usual? The hits of a bin are binomial,
so mean and variance of ``|hits / n - confidence|`` are known exactly; their sum over the bins is
taken as gamma distributed. The accuracies move on a line from the confidences (a calibrated model)
through the ones that were seen, and beyond.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import betainc
from scipy.stats import gamma

from domaincal._typing import Array, FloatArray

# Accuracies so many times as far from the confidences as those seen are all clipped to 0 or 1.
_FARTHEST = 1e6


class ErrorInterval(NamedTuple):
    """ECE, what is left of it without its bias, an interval, and a test of perfect calibration.

    Hits are taken as binomial in each bin, with accuracies that move away from the confidences
    until the ECE that was seen is usual (``corrected``), or as unusual as ``level`` allows
    (``low``, ``high``).

    Attributes
    ----------
    value : ECE as it is
    corrected : the calibration error whose mean ECE is the one seen; 0 at the floor and below
    low, high : interval for the calibration error; it has two sides, so ``low`` is above 0 where
        the p-value is below ``(1 - level) / 2``
    p_value : probability of an ECE at least as large if the model were calibrated
    """

    value: float
    corrected: float
    low: float
    high: float
    p_value: float


def error_interval(
    n: FloatArray, confidence: FloatArray, accuracy: FloatArray, level: float
) -> ErrorInterval:
    """Interval of the binned ECE; the arrays hold the bins that have rows.

    For the lower end and the corrected value, gaps are proportional to those seen; for the upper
    end they are the same in all bins, since an error that is spread out raises ECE least. The upper
    end divides by the probability under perfect calibration, so that a lucky ECE below the floor
    does not end in an empty interval.
    """
    gap = confidence - accuracy
    seen = float(n @ np.abs(gap) / n.sum())
    line = _Line(n, confidence, gap)
    even = _Line(n, confidence, np.where(gap >= 0.0, seen, -seen))
    tail = 0.5 * (1.0 - level)

    def above(step: float) -> float:
        return line.distribution(step).sf(seen)

    def below(step: float) -> float:
        return even.distribution(step).cdf(seen)

    corrected = _first_zero(lambda step: line.mean(step) - seen, 1.0)
    low = _first_zero(lambda step: above(step) - tail, 1.0)
    usual = below(0.0)
    end = 1.0
    while end < _FARTHEST and below(end) > tail * usual:
        end *= 2.0
    high = _first_zero(lambda step: tail * usual - below(step), end)
    return ErrorInterval(
        value=seen,
        corrected=line.error(corrected),
        low=line.error(low),
        high=max(even.error(high), line.error(corrected)),
        p_value=float(above(0.0)),
    )


class _Moments(NamedTuple):
    """A gamma distribution of given mean and variance; a point where there is no variance."""

    mean: float
    variance: float

    def cdf(self, x: float) -> float:
        if self.variance <= 0.0:
            return float(x >= self.mean)
        scale = self.variance / self.mean
        return float(gamma.cdf(x / scale, self.mean / scale))

    def sf(self, x: float) -> float:
        if self.variance <= 0.0:
            return float(x <= self.mean)
        scale = self.variance / self.mean
        return float(gamma.sf(x / scale, self.mean / scale))


class _Line:
    """Accuracies ``confidence - step * direction``, cut off at 0 and 1."""

    def __init__(self, n: FloatArray, confidence: FloatArray, direction: FloatArray) -> None:
        self._n, self._confidence, self._direction = n, confidence, direction

    def error(self, step: float) -> float:
        """Calibration error of these accuracies."""
        return float(self._n @ np.abs(self._confidence - self._accuracy(step)) / self._n.sum())

    def mean(self, step: float) -> float:
        """Mean ECE of rows drawn with these accuracies."""
        return self.distribution(step).mean

    def distribution(self, step: float) -> _Moments:
        """ECE of rows drawn with these accuracies."""
        mean, variance = _deviation(self._n, self._accuracy(step), self._n * self._confidence)
        total = self._n.sum()
        return _Moments(float(mean.sum() / total), float(variance.sum() / total**2))

    def _accuracy(self, step: float) -> FloatArray:
        return np.clip(self._confidence - step * self._direction, 0.0, 1.0)


def _deviation(n: FloatArray, q: FloatArray, a: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of ``|K - a|`` for K binomial(n, q).

    ``E|K - a| = a (2 F(a) - 1) + n q (1 - 2 F'(a - 1))`` with the distribution functions F of K and
    F' of binomial(n - 1, q), since ``E[K; K <= a] = n q F'(a - 1)``.
    """
    k = np.floor(a + 1e-9)  # a is n times a mean of confidences: k / n is meant to be found
    mean = a * (2.0 * _binomial_cdf(k, n, q) - 1.0) + n * q * (
        1.0 - 2.0 * _binomial_cdf(k - 1.0, n - 1.0, q)
    )
    return mean, np.maximum(n * q * (1.0 - q) + (n * q - a) ** 2 - mean**2, 0.0)


def _binomial_cdf(k: FloatArray, n: FloatArray, q: FloatArray) -> Array:
    inside = (k >= 0.0) & (k < n)
    cdf = betainc(np.where(inside, n - k, 1.0), np.where(inside, k + 1.0, 1.0), 1.0 - q)
    return np.where(inside, cdf, (k >= n).astype(np.float64))


def _first_zero(increasing: Callable[[float], float], end: float) -> float:
    """Zero of an increasing function between 0 and ``end``, or the end that is nearest to it."""
    if increasing(0.0) >= 0.0:
        return 0.0
    if increasing(end) <= 0.0:
        return end
    return float(brentq(increasing, 0.0, end, xtol=1e-12))
