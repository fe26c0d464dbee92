"""Interval of the calibration error, from the counts, confidences and hits of bins.

ECE is biased upwards, and a bootstrap adds the bias a second time: for a calibrated model it is
centred about sqrt(2) times too high. This module inverts a test instead: the interval holds the
calibration errors for which the observed ECE is not unusual. The hits of a bin are binomial, so
that the distribution of ``|hits / n - confidence|`` is known. Accuracies move on a line that starts
at the confidences (a calibrated model). No random numbers are drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammainc, gammaincc, gammaln, xlog1py, xlogy

from domaincal._typing import FloatArray, IntArray
from domaincal.statistics.binomial import binomial_cdf

# If the variance of the hits, the sum of n q (1 - q), is smaller, ECE is not near a smooth
# distribution: its exact distribution is computed on a grid of _GRID points.
_FEW_EVENTS = 40.0
_GRID = 1 << 12
_NEGLIGIBLE = 1e-13


class ErrorInterval(NamedTuple):
    """ECE with and without its bias, an interval, and a test of perfect calibration.

    Hits are binomial in each bin. Accuracies move away from the confidences until the mean ECE is
    the observed one (``corrected``), or the observed one is as unusual as ``level`` allows
    (``low``, ``high``).

    Attributes
    ----------
    value : observed ECE
    corrected : calibration error whose mean ECE is the observed one; 0 at the floor and below
    low, high : two-sided interval for the calibration error; ``low`` is above 0 if the p-value is
        below ``(1 - level) / 2``
    p_value : probability of an ECE at least as large for a calibrated model
    """

    value: float
    corrected: float
    low: float
    high: float
    p_value: float


def error_interval(
    n: FloatArray, confidence: FloatArray, accuracy: FloatArray, level: float
) -> ErrorInterval:
    """Interval of the binned ECE; the arrays hold the bins with rows.

    For the lower end and the corrected value, gaps are proportional to the observed ones. For the
    upper end they are equal in all bins, because an error that is spread out raises ECE least; of
    the observed signs, all positive and all negative, the signs that give the largest end are used.
    The probability of the upper end is relative to that under perfect calibration, so that an ECE
    below the floor does not give an empty interval.
    """
    gap = confidence - accuracy
    seen = float(n @ np.abs(gap) / n.sum())
    tail = 0.5 * (1.0 - level)
    line = _Line(n, confidence, gap)

    # At step 0, the accuracies are the confidences on every line.
    calibrated = line.distribution(0.0)
    usual, p_value = calibrated.at_most(seen), calibrated.at_least(seen)

    corrected = line.error(_first_zero(lambda step: line.mean(step) - seen))
    low = line.error(
        _first_zero(lambda step: line.distribution(step).at_least(seen) - tail, p_value - tail)
    )
    high = corrected
    observed = tuple(np.where(gap >= 0.0, 1.0, -1.0).tolist())
    for signs in {observed, (1.0,) * len(gap), (-1.0,) * len(gap)}:
        upper = _Line(n, confidence, np.array(signs)).upper_end(seen, tail * usual, usual)
        high = max(high, upper)
    return ErrorInterval(seen, corrected, min(low, corrected), high, p_value)


class _Distribution(Protocol):
    def at_least(self, x: float) -> float: ...
    def at_most(self, x: float) -> float: ...


class _Line:
    """Accuracies ``confidence - step * direction``, clipped to [0, 1]."""

    def __init__(self, n: FloatArray, confidence: FloatArray, direction: FloatArray) -> None:
        self._n, self._confidence, self._direction = n, confidence, direction

    def error(self, step: float) -> float:
        """Calibration error of these accuracies."""
        return float(self._n @ np.abs(self._confidence - self._accuracy(step)) / self._n.sum())

    def mean(self, step: float) -> float:
        """Mean ECE if hits are drawn with these accuracies."""
        mean, _ = deviation(self._n, self._accuracy(step), self._n * self._confidence)
        return float(mean.sum() / self._n.sum())

    def upper_end(self, seen: float, probability: float, usual: float) -> float:
        """Calibration error at which an ECE of at most ``seen`` has the given probability.

        ``usual`` is the probability at step 0.
        """
        step = _first_zero(
            lambda step: probability - self.distribution(step).at_most(seen), probability - usual
        )
        return self.error(step)

    def distribution(self, step: float) -> _Distribution:
        """Distribution of ECE if hits are drawn with these accuracies."""
        n, q, a = self._n, self._accuracy(step), self._n * self._confidence
        total = float(n.sum())
        if n @ (q * (1.0 - q)) < _FEW_EVENTS:
            return _exact(n, q, a)
        mean, variance = deviation(n, q, a)
        return _Gamma(float(mean.sum() / total), float(variance.sum() / total**2))

    def _accuracy(self, step: float) -> FloatArray:
        return np.clip(self._confidence - step * self._direction, 0.0, 1.0)


@dataclass(frozen=True)
class _Gamma:
    """Gamma distribution with given moments, for a sum of many non-negative terms."""

    mean: float
    variance: float

    def at_least(self, x: float) -> float:
        scale = self.variance / self.mean
        return float(gammaincc(self.mean / scale, x / scale))

    def at_most(self, x: float) -> float:
        scale = self.variance / self.mean
        return float(gammainc(self.mean / scale, x / scale))


@dataclass(frozen=True, eq=False)
class _OnGrid:
    """Probabilities of ``start + k * width``; both ends are included, as values are rounded."""

    start: float
    width: float
    probability: FloatArray

    def at_least(self, x: float) -> float:
        first = max(0, int(np.floor((x - self.start) / self.width)) - 1)
        return float(min(1.0, self.probability[first:].sum()))

    def at_most(self, x: float) -> float:
        last = int(np.ceil((x - self.start) / self.width)) + 2
        return float(min(1.0, self.probability[: max(last, 0)].sum()))


def _exact(n: FloatArray, q: FloatArray, a: FloatArray) -> _OnGrid:
    """Distribution of ``sum |K - a| / sum n``, convolved bin by bin on a grid."""
    place, value, probability = _outcomes(n, q, a)
    n_values = np.bincount(place)
    smallest = np.minimum.reduceat(value, np.cumsum(n_values) - n_values)
    low = sum(smallest.tolist())
    mean, variance = deviation(n, q, a)
    # Larger values have negligible probability; the periodic grid wraps them to the start.
    span = float(mean.sum()) - low + 12.0 * float(np.sqrt(variance.sum())) + 10.0
    width = span / (_GRID // 2)
    # A bin with one likely outcome adds a constant.
    varies = n_values > 1
    chosen = varies[place]
    row = (np.cumsum(varies) - 1)[place[chosen]]
    at = ((value - smallest[place]) / width)[chosen]
    index = at.astype(np.int64)
    part = at - index  # split between two points, which preserves the mean
    p, n_cells = probability[chosen], int(varies.sum()) * _GRID
    cells = np.bincount(row * _GRID + index % _GRID, p * (1.0 - part), minlength=n_cells)
    cells += np.bincount(row * _GRID + (index + 1) % _GRID, p * part, minlength=n_cells)
    wave = np.multiply.reduce(np.fft.rfft(cells.reshape(-1, _GRID)), axis=0)
    total = float(n.sum())
    return _OnGrid(low / total, width / total, np.maximum(np.fft.irfft(wave, _GRID), 0.0))


def _outcomes(
    n: FloatArray, q: FloatArray, a: FloatArray
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Bin, ``|K - a|`` and probability of the likely outcomes K of binomial(n, q) of all bins."""
    mean, reach = n * q, 10.0 * np.sqrt(n * q * (1.0 - q)) + 20.0
    first = np.maximum(0.0, np.floor(mean - reach))
    count = (np.minimum(n, np.ceil(mean + reach)) - first).astype(np.int64) + 1
    place = np.repeat(np.arange(len(n)), count)
    k = first[place] + (np.arange(len(place)) - (np.cumsum(count) - count)[place])
    n, q = n[place], q[place]
    log_choose = gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)
    probability = np.exp(log_choose + xlogy(k, q) + xlog1py(n - k, -q))
    likely = probability > _NEGLIGIBLE
    place = place[likely]
    return place, np.abs(k[likely] - a[place]), probability[likely]


def deviation(n: FloatArray, q: FloatArray, a: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of ``|K - a|`` for K binomial(n, q).

    ``E|K - a| = a (2 F(a) - 1) + n q (1 - 2 F'(a - 1))`` with the distribution functions F of K and
    F' of binomial(n - 1, q), since ``E[K; K <= a] = n q F'(a - 1)``.
    """
    k = np.floor(a + 1e-9)  # tolerance: a is n times a mean, which may be k up to rounding
    mean = a * (2.0 * binomial_cdf(k, n, q) - 1.0) + n * q * (
        1.0 - 2.0 * binomial_cdf(k - 1.0, n - 1.0, q)
    )
    return mean, np.maximum(n * q * (1.0 - q) + (n * q - a) ** 2 - mean**2, 0.0)


def _first_zero(increasing: Callable[[float], float], at_0: float | None = None) -> float:
    """Zero of an increasing function on [0, 1], or the nearest end of the interval.

    ``at_0`` is its value at 0, if it is known.
    """
    ends = {0.0: increasing(0.0) if at_0 is None else at_0}
    if ends[0.0] >= 0.0:
        return 0.0
    ends[1.0] = increasing(1.0)
    if ends[1.0] <= 0.0:
        return 1.0
    # brentq begins with both ends.
    return float(
        brentq(lambda step: ends[step] if step in ends else increasing(step), 0.0, 1.0, xtol=1e-6)
    )
