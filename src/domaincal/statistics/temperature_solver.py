"""The temperature that minimises the NLL, from sums alone.

Newton's method on the slope of the convex NLL, in ``u = log beta``, inside the bracket that the
signs of the slope have drawn so far. The solver sees only ``evaluate(beta) -> TemperatureSums``
and works on all groups (domains) at once: one call evaluates each group at its own ``beta``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from domaincal._typing import FloatArray
from domaincal.errors import DomaincalError

#: Bounds of the temperature in units of the mean within-row standard deviation of the logits.
TEMPERATURE_BOUNDS = (0.01, 100.0)

_LONGEST_STEP = np.log(8.0)
# Steps in one direction before a longer one is taken.
_PATIENCE = 5
# Bisection alone would need 60; sums of one convex function never get here.
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
    """Temperature of each group, and how well the data determine it.

    Attributes
    ----------
    temperature : array, shape (n_groups,)
    standard_error : array, shape (n_groups,)
        Of log T: the sandwich ``sqrt(sum g_i**2) / (beta * sum Var_p z)``. NaN at a bound.
    at_bound : boolean array, shape (n_groups,)
        The NLL falls up to the bound: the data do not determine a temperature.
    nll : array, shape (n_groups,)
        Mean negative log-likelihood.
    scale : array, shape (n_groups,)
        Mean within-row standard deviation of the logits, the unit of the bounds.
    n_iter : int
        Evaluations of the sums.
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
    n_groups: int = 1,
    start: FloatArray | None = None,
    bounds: tuple[float, float] = TEMPERATURE_BOUNDS,
    tolerance: float = 1e-12,
) -> TemperatureFit:
    """Find the temperature at which each group's NLL slope is zero.

    Parameters
    ----------
    evaluate : callable
        From ``beta = 1 / T``, shape (n_groups,), to the :class:`TemperatureSums` of all groups. A
        group with NaN has converged and may be left out of the pass.
    n_groups : int
    start : array of temperatures, shape (n_groups,), optional
        A good guess saves evaluations. Without one, the first evaluation measures the scale.
    bounds : pair of floats
        Of T, in units of the mean within-row standard deviation of the logits, so that
        ``T(c z) = c T(z)`` holds at the bounds too.
    tolerance : float
        Largest error of log T to be expected from stopping.

    Notes
    -----
    From the second evaluation on, the step is the zero of the inverse cubic through the last two
    points and their derivatives, whose error is of fourth order; Newton's is of second.
    """
    beta = np.ones(n_groups) if start is None else 1.0 / np.asarray(start, np.float64)
    sums = evaluate(beta)
    n_iter = 1
    scale = sums.scale
    # A group without spread (or without rows) has no temperature: any fits as well as another.
    flat = ~(scale > 0.0)
    unit = np.where(flat, 1.0, scale)
    low, high = -np.log(bounds[1] * unit), -np.log(bounds[0] * unit)
    active = ~flat
    u = -np.log(unit) if start is None else np.log(beta)
    with np.errstate(invalid="ignore"):
        nll = sums.nll / sums.weight
    if start is None and active.any():
        sums = evaluate(np.where(active, np.exp(u), np.nan))
        n_iter += 1
    left, right = low.copy(), high.copy()
    at_bound = flat.copy()
    error = np.full(n_groups, np.nan)
    before: tuple[FloatArray, FloatArray, FloatArray] | None = None
    way, one_way = np.zeros(n_groups), np.zeros(n_groups, int)

    while active.any():
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = sums.slope / sums.weight
            rate = np.exp(u) * sums.curvature / sums.weight  # d slope / d u
            sandwich = np.sqrt(sums.squared_slope) / (rate * sums.weight)
            error = np.where(active, sandwich, error)
            nll = np.where(active, sums.nll / sums.weight, nll)
        left = np.where(active & (slope < 0), np.maximum(left, u), left)
        right = np.where(active & (slope > 0), np.minimum(right, u), right)

        # A slope of 0 without curvature is no minimum: all rows are right beyond rounding.
        saturated = (slope == 0) & (rate == 0)
        stuck = ((slope < 0) & (u >= high)) | ((slope > 0) & (u <= low)) | saturated
        stuck &= active
        at_bound |= stuck
        u = np.where(stuck, np.where(saturated, high, np.clip(u, low, high)), u)
        active &= ~stuck

        step, left_over = _step(u, slope, rate, before)
        one_way = np.where(np.sign(step) == way, one_way + 1, 1)
        way = np.sign(step)
        target = u + np.clip(step, -_LONGEST_STEP, _LONGEST_STEP)
        outside = ~((target > left) & (target < right))
        # Towards an end that is still a bound: look there. Towards an evaluated end: bisect.
        inward = np.where(slope < 0, right, left)
        is_bound = np.where(slope < 0, right >= high, left <= low)
        safe = np.where(is_bound, inward, 0.5 * (left + right))
        found = active & ((slope == 0.0) | (~outside & (left_over < tolerance)))
        # The slope's rounding may leave no room between the ends.
        found |= active & (right - left < 1e-15)
        # Rows that are (nearly) all right let Newton creep: it is sent ahead after a while.
        creeps = ~found & (one_way > _PATIENCE)
        one_way[creeps] = 0
        target = np.where(outside | creeps, safe, target)

        before = (u, slope, rate)
        u = np.where(active, np.where(slope == 0.0, u, target), u)
        active &= ~found
        if not active.any():
            break
        if n_iter >= _MAX_ITER:
            raise DomaincalError(
                f"no temperature found in {n_iter} evaluations; the sums of "
                f"{int(active.sum())} groups are inconsistent."
            )
        sums = evaluate(np.where(active, np.exp(u), np.nan))
        n_iter += 1

    return TemperatureFit(
        temperature=np.where(flat, 1.0, np.exp(-u)),
        standard_error=np.where(at_bound, np.nan, error),
        at_bound=at_bound,
        nll=nll,
        scale=scale,
        n_iter=n_iter,
    )


def _step(
    u: FloatArray,
    slope: FloatArray,
    rate: FloatArray,
    before: tuple[FloatArray, FloatArray, FloatArray] | None,
) -> tuple[FloatArray, FloatArray]:
    """Step to the zero of the slope, and the error to be expected after it."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        newton = -slope / rate
        newton = np.where(np.isfinite(newton), newton, -np.sign(slope) * _LONGEST_STEP)
        left_over = newton**2
        if before is None:
            return newton, left_over
        u0, slope0, rate0 = before
        # Divided differences of u as a function of the slope at (slope, slope, slope0, slope0).
        apart = slope0 - slope
        chord = (u0 - u) / apart
        second = (chord - 1.0 / rate) / apart
        third = ((1.0 / rate0 - chord) / apart - second) / apart
        bend = slope**2 * (second - slope0 * third)
        # Relative change of the rate for one unit of u: how curved the slope is here.
        curved = np.maximum(1.0, np.abs(np.log(rate / rate0) / (u - u0)))
        usable = np.isfinite(bend) & (np.abs(bend) < 0.5 * np.abs(newton)) & np.isfinite(curved)
        left_over = np.where(np.isfinite(curved), curved * left_over, left_over)
        cubic_left_over = curved**3 * (u - u0) ** 2 * newton**2
        return (
            np.where(usable, newton + bend, newton),
            np.where(usable, np.minimum(left_over, cubic_left_over), left_over),
        )
