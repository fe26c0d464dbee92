"""Temperature that minimises the NLL, from sums over rows.

Newton's method finds the zero of the slope of the convex NLL in ``u = log beta``. The signs of the
slope give a bracket that every step stays in. The solver only calls ``evaluate(beta) ->
TemperatureSums`` and fits all domains at once, each at its own ``beta``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from domaincal._typing import FloatArray
from domaincal.errors import DomaincalError

#: Bounds of the temperature in units of the mean within-row standard deviation of the logits.
TEMPERATURE_BOUNDS = (0.01, 100.0)
#: Domains with fewer rows do not determine a temperature.
MINIMUM_ROWS = 10

_LONGEST_STEP = np.log(8.0)
# Number of steps in one direction before a longer step is taken.
_PATIENCE = 5
# Bisection alone needs 60; only inconsistent sums need more.
_MAX_ITER = 200


class _Sums(Protocol):
    @property
    def weight(self) -> FloatArray: ...
    @property
    def nll(self) -> FloatArray: ...
    @property
    def slope(self) -> FloatArray: ...
    @property
    def curvature(self) -> FloatArray: ...
    @property
    def squared_slope(self) -> FloatArray: ...
    @property
    def scale(self) -> FloatArray: ...


@dataclass(frozen=True, eq=False)
class TemperatureFit:
    """Temperature of each domain, and its precision.

    Attributes
    ----------
    temperature : array, shape (n_domains,)
    standard_error : array, shape (n_domains,)
        Standard error of log T by the sandwich formula ``sqrt(sum g_i**2) / (beta * sum Var_p
        z)``; NaN at a bound.
    at_bound : boolean array, shape (n_domains,)
        Whether the NLL decreases up to the bound: the data do not determine a temperature.
    nll : array, shape (n_domains,)
        Mean negative log-likelihood.
    scale : array, shape (n_domains,)
        Mean within-row standard deviation of the logits, the unit of the bounds.
    n_iter : int
        Number of evaluations of the sums.
    """

    temperature: FloatArray
    standard_error: FloatArray
    at_bound: np.ndarray
    nll: FloatArray
    scale: FloatArray
    n_iter: int


def solve_temperature(
    evaluate: Callable[[FloatArray], _Sums],
    *,
    n_domains: int = 1,
    start: FloatArray | None = None,
    bounds: tuple[float, float] = TEMPERATURE_BOUNDS,
    tolerance: float = 1e-12,
) -> TemperatureFit:
    """Find the temperature of each domain at which the slope of the NLL is zero.

    Parameters
    ----------
    evaluate : callable
        Function from ``beta = 1 / T``, shape (n_domains,), to :class:`TemperatureSums`. A domain
        with NaN has converged; its sums are not used.
    n_domains : int
    start : array of temperatures, shape (n_domains,), optional
        A good start saves evaluations. Without it, the first evaluation measures the scale.
    bounds : pair of floats
        Bounds of T in units of the mean within-row standard deviation of the logits, so that
        ``T(c z) = c T(z)`` also holds at a bound.
    tolerance : float
        Iterations end when the expected error of log T is smaller.

    Notes
    -----
    From the second evaluation on, the step comes from inverse cubic interpolation through the last
    two points and their derivatives, which converges with order four instead of two.
    """
    beta = np.ones(n_domains) if start is None else 1.0 / np.asarray(start, np.float64)
    sums = evaluate(beta)
    n_iter = 1
    search = _Search(sums, None if start is None else beta, bounds, tolerance)
    if start is None and search.active.any():
        sums = evaluate(search.beta())
        n_iter += 1
    while search.active.any():
        search.advance(sums)
        if search.active.any():
            if n_iter >= _MAX_ITER:
                raise DomaincalError(
                    f"no temperature found in {n_iter} evaluations; the sums of "
                    f"{int(search.active.sum())} domains are inconsistent."
                )
            sums = evaluate(search.beta())
            n_iter += 1
    return search.fit(n_iter)


class _Search:
    """State of the search for the zero of the slope in ``u = log beta``, for all domains."""

    def __init__(
        self, first: _Sums, beta: FloatArray | None, bounds: tuple[float, float], tolerance: float
    ) -> None:
        self._scale = first.scale
        # Without rows, or with constant logits, every temperature gives the same NLL.
        self._flat = ~(first.scale > 0.0)
        unit = np.where(self._flat, 1.0, first.scale)
        self._low, self._high = -np.log(bounds[1] * unit), -np.log(bounds[0] * unit)
        self._left, self._right = self._low, self._high
        self._u = -np.log(unit) if beta is None else np.log(beta)
        self.active = ~self._flat
        self._at_bound = self._flat
        self._error = np.full(len(unit), np.nan)
        with np.errstate(invalid="ignore"):
            self._nll = first.nll / first.weight
        self._tolerance = tolerance
        self._before: tuple[FloatArray, FloatArray, FloatArray] | None = None
        # Sign of the last step, and the number of steps since it changed.
        self._sign, self._n_same = np.zeros(len(unit)), np.zeros(len(unit), int)

    def beta(self) -> FloatArray:
        """Points to evaluate next; NaN for domains that have converged."""
        return np.where(self.active, np.exp(self._u), np.nan)

    def advance(self, sums: _Sums) -> None:
        """Take the sums at the current points, and move to the next points."""
        active, u = self.active, self._u
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = sums.slope / sums.weight
            rate = np.exp(u) * sums.curvature / sums.weight  # d slope / d u
            sandwich = np.sqrt(sums.squared_slope) / (rate * sums.weight)
            self._error = np.where(active, sandwich, self._error)
            self._nll = np.where(active, sums.nll / sums.weight, self._nll)
        self._left = np.where(active & (slope < 0), np.maximum(self._left, u), self._left)
        self._right = np.where(active & (slope > 0), np.minimum(self._right, u), self._right)
        self._stop_at_bounds(slope, rate)
        self._move(slope, rate)

    def _stop_at_bounds(self, slope: FloatArray, rate: FloatArray) -> None:
        u, low, high = self._u, self._low, self._high
        # Slope and curvature are both rounded to 0: all rows are correct with probability 1.
        saturated = (slope == 0) & (rate == 0)
        stuck = ((slope < 0) & (u >= high)) | ((slope > 0) & (u <= low)) | saturated
        stuck &= self.active
        self._at_bound = self._at_bound | stuck
        self._u = np.where(stuck, np.where(saturated, high, np.clip(u, low, high)), u)
        self.active = self.active & ~stuck

    def _move(self, slope: FloatArray, rate: FloatArray) -> None:
        u, left, right = self._u, self._left, self._right
        step, left_over = _step(u, slope, rate, self._before)
        self._n_same = np.where(np.sign(step) == self._sign, self._n_same + 1, 1)
        self._sign = np.sign(step)
        target = u + np.clip(step, -_LONGEST_STEP, _LONGEST_STEP)
        outside = ~((target > left) & (target < right))
        # A step beyond the bracket goes to its end if that is a bound, otherwise to its middle.
        end = np.where(slope < 0, right, left)
        is_bound = np.where(slope < 0, right >= self._high, left <= self._low)
        safe = np.where(is_bound, end, 0.5 * (left + right))
        found = self.active & ((slope == 0.0) | (~outside & (left_over < self._tolerance)))
        # Rounding of the slope can make the bracket empty.
        found |= self.active & (right - left < 1e-15)
        # If (nearly) all rows are correct, Newton steps are too short: take a longer one.
        slow = ~found & (self._n_same > _PATIENCE)
        self._n_same[slow] = 0
        target = np.where(outside | slow, safe, target)

        self._before = (u, slope, rate)
        self._u = np.where(self.active & (slope != 0.0), target, u)
        self.active = self.active & ~found

    def fit(self, n_iter: int) -> TemperatureFit:
        """Temperatures after the last step."""
        return TemperatureFit(
            temperature=np.where(self._flat, 1.0, np.exp(-self._u)),
            standard_error=np.where(self._at_bound, np.nan, self._error),
            at_bound=self._at_bound,
            nll=self._nll,
            scale=self._scale,
            n_iter=n_iter,
        )


def _step(
    u: FloatArray,
    slope: FloatArray,
    rate: FloatArray,
    before: tuple[FloatArray, FloatArray, FloatArray] | None,
) -> tuple[FloatArray, FloatArray]:
    """Step to the zero of the slope, and the expected error after it."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        newton = -slope / rate
        newton = np.where(np.isfinite(newton), newton, -np.sign(slope) * _LONGEST_STEP)
        left_over = newton**2
        if before is None:
            return newton, left_over
        u0, slope0, rate0 = before
        # Divided differences of u as a function of the slope, at (slope, slope, slope0, slope0).
        apart = slope0 - slope
        chord = (u0 - u) / apart
        second = (chord - 1.0 / rate) / apart
        third = ((1.0 / rate0 - chord) / apart - second) / apart
        bend = slope**2 * (second - slope0 * third)
        # Relative change of the rate per unit of u: the curvature of the slope.
        curved = np.maximum(1.0, np.abs(np.log(rate / rate0) / (u - u0)))
        usable = np.isfinite(bend) & (np.abs(bend) < 0.5 * np.abs(newton)) & np.isfinite(curved)
        left_over = np.where(np.isfinite(curved), curved * left_over, left_over)
        cubic_left_over = curved**3 * (u - u0) ** 2 * newton**2
        return (
            np.where(usable, newton + bend, newton),
            np.where(usable, np.minimum(left_over, cubic_left_over), left_over),
        )
