"""Sums over rows at several temperatures, from which the temperature of all sites is found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import numpy as np
from scipy.interpolate import KroghInterpolator
from scipy.optimize import brentq

from domaincal._row_arrays import row_range, sum_over_parts
from domaincal._typing import Array, FloatArray, IntArray
from domaincal._validation import non_finite_logits_error
from domaincal._warnings import warn_caller
from domaincal.errors import BoundaryWarning, InputError
from domaincal.kernels import dispatch
from domaincal.statistics import LabelledRows, TemperatureFit, TemperatureSums
from domaincal.statistics.blocks import Workers, row_blocks
from domaincal.statistics.temperature_solver import TEMPERATURE_BOUNDS

#: Columns of the sums at each temperature; see :class:`TemperatureSums`.
COLUMNS = ("nll", "slope", "curvature", "squared_slope")
NLL, SLOPE, CURVATURE, SQUARED_SLOPE = range(len(COLUMNS))
# Number of the first of them in the sums of a kernel.
_FIRST = [field.name for field in fields(TemperatureSums)].index(COLUMNS[0])
# Blocks that are read have at most BLOCK_BYTES / _SMALLEST_ROW rows.
_SMALLEST_ROW = 16

# The temperatures of the first round are multiples of this step in log(1 / T), so that those of
# several sites are the same. At the root, the interpolated slope of eight points is exact to 1e-9.
_STEP = 0.25
_N_POINTS = 8
# The points of a site reach these factors above and below the temperatures of its domains. At high
# temperatures all rows count alike. At low ones the sums are those of the rows that are wrong, or
# nearly so: no more of them than the temperature of all sites needs.
_REACH_ABOVE = float(np.log(16.0))
_REACH_BELOW = float(np.log(4.0))
# Domains at a bound tell nothing: the points then cover the usual temperatures, in units of the
# spread of the logits.
_USUAL_ABOVE = float(np.log(32.0))
_USUAL_BELOW = float(np.log(8.0))
# Temperatures of one classifier differ less.
_LARGEST_RATIO = 256.0
# Points of the second round around the estimate of the first.
_NEAR = 0.01


@dataclass(frozen=True, eq=False)
class SlopeCurve:
    """NLL of the rows and its derivatives at several temperatures; curves can be added.

    Attributes
    ----------
    log_beta : array, shape (n_points,)
        ``log(1 / T)`` of the points, in ascending order.
    sums : array, shape (..., n_points, 4)
        Sums over rows of the NLL, of its first two derivatives in ``1 / T``, and of the square of
        the first.

    Examples
    --------
    >>> import numpy as np
    >>> rows = LabelledRows(np.array([[2.0, 0.0], [1.0, 0.0]]), np.array([0, 1]))
    >>> curve = SlopeCurve.from_rows(rows, np.linspace(-3, 3, 25)).total()
    >>> abs((curve + curve).root() - curve.root()) < 1e-12
    True
    """

    log_beta: FloatArray
    sums: FloatArray

    @classmethod
    def from_rows(cls, rows: LabelledRows, log_beta: FloatArray) -> SlopeCurve:
        """Sums of each domain at all points, in one pass over the rows."""
        out = sum_over_parts(_sums_at, rows, np.exp(log_beta))
        if not np.isfinite(out).all():
            raise non_finite_logits_error(rows.logits)
        return cls(log_beta, out)

    def total(self, domains: Array | None = None) -> SlopeCurve:
        """Curve of some domains together, by default of all."""
        sums = self.sums if domains is None else self.sums[domains]
        return SlopeCurve(self.log_beta, sums.sum(axis=0))

    def __add__(self, other: SlopeCurve) -> SlopeCurve:
        """Curve of the rows of both, at the points that both have."""
        common, own, others = np.intersect1d(self.log_beta, other.log_beta, return_indices=True)
        return SlopeCurve(common, self.sums[own] + other.sums[others])

    def root(self) -> float | None:
        """``log(1 / T)`` at which the slope of the NLL is 0; None if it is not between the points.

        The slope is interpolated by a polynomial through the values and derivatives at the nearest
        points. It is analytic up to a distance of pi / 2 from the real axis.
        """
        slope = self.sums[:, SLOPE]
        above = np.flatnonzero(slope >= 0)
        if not len(above) or (above[0] == 0 and slope[0] > 0):
            return None
        right = int(above[0])
        if slope[right] == 0:
            return float(self.log_beta[right])
        interpolant = self._interpolant(right)
        low, high = float(self.log_beta[right - 1]), float(self.log_beta[right])
        # Rounding can change the sign of a value next to 0.
        if interpolant(low) >= 0 or interpolant(high) <= 0:
            return low if abs(slope[right - 1]) < abs(slope[right]) else high
        return float(brentq(interpolant, low, high, xtol=1e-15, rtol=1e-15))

    def _interpolant(self, right: int) -> Callable[[float], float]:
        """Polynomial of the slope near the interval that ends at the point number ``right``."""
        n = min(_N_POINTS, len(self.log_beta))
        first = int(np.clip(right - n // 2, 0, len(self.log_beta) - n))
        near = slice(first, first + n)
        u, slope = self.log_beta[near], self.sums[near, SLOPE]
        rate = np.exp(u) * self.sums[near, CURVATURE]  # d slope / d u
        polynomial = KroghInterpolator(np.repeat(u, 2), np.column_stack([slope, rate]).ravel())
        return lambda at: float(polynomial(at))

    def column_at(self, column: int, u: float) -> float:
        """Sum of one column at a point between others, for standard errors and mean NLLs."""
        near = np.argsort(np.abs(self.log_beta - u), kind="stable")[:_N_POINTS]
        values = self.sums[near, column]
        return float(KroghInterpolator(self.log_beta[near], values)(u))


def _sums_at(rows: LabelledRows, betas: FloatArray) -> FloatArray:
    """Sums of each domain over the rows that this process reads; they may be NaN or infinite."""
    domain = np.zeros(len(rows.labels), np.int64) if rows.domain is None else rows.domain
    out = np.zeros((rows.n_domains, len(betas), len(COLUMNS)))

    def block_sums(block: slice) -> tuple[IntArray, FloatArray]:
        z, y = rows.logits[block], rows.labels[block]
        present, codes = np.unique(domain[block], return_inverse=True)
        sums = [
            dispatch.temperature_sums(
                z, y, beta, domain=codes, n_domains=len(present), compiled=rows.compiled
            )[:, _FIRST : _FIRST + len(COLUMNS)]
            for beta in betas[:, None]
        ]
        return present, np.stack(sums, axis=1)

    row_bytes = max(rows.logits.shape[1] * rows.logits.itemsize, _SMALLEST_ROW)
    with Workers() as workers, np.errstate(over="ignore", invalid="ignore"):
        blocks = row_blocks(row_range(rows.logits), row_bytes)
        for present, found in workers.map(block_sums, blocks):
            out[present] += found
    return out


def add_curves(curves: Sequence[SlopeCurve]) -> SlopeCurve:
    """Sum of the curves of several sites."""
    total = curves[0]
    for curve in curves[1:]:
        total = total + curve
    return total


def site_points(fit: TemperatureFit, used: Array) -> FloatArray:
    """Points of the first round for a site with these temperatures."""
    if used.any():
        u = -np.log(fit.temperature[used])
        low, high = u.min() - _REACH_ABOVE, u.max() + _REACH_BELOW
    else:
        known = fit.scale[fit.scale > 0]
        u = -np.log(known) if len(known) else np.zeros(1)
        low, high = u.min() - _USUAL_ABOVE, u.max() + _USUAL_BELOW
    return np.arange(np.floor(low / _STEP), np.ceil(high / _STEP) + 1) * _STEP


def points_near(u: float, curve: SlopeCurve) -> FloatArray:
    """Points of the second round, around the root that the first round has found.

    A temperature at a bound is outside of the points of the first round, which sites do not leave.
    """
    low, high = curve.log_beta[[0, -1]] if len(curve.log_beta) else (u, u)
    return float(np.clip(u, low, high)) + _NEAR * np.array([-1.0, 0.0, 1.0])


def are_near(log_beta: FloatArray) -> bool:
    """Whether these are points of a second round."""
    steps = np.diff(log_beta)
    return len(log_beta) == 3 and bool(np.allclose(steps, _NEAR, rtol=1e-6))


def within_points(log_beta: FloatArray | float, fit: TemperatureFit, used: Array) -> bool:
    """Whether a site with these temperatures had its points in the first round around them."""
    points, u = site_points(fit, used), np.asarray(log_beta)
    return bool((u >= points[0] - 2 * _NEAR).all() and (u <= points[-1] + 2 * _NEAR).all())


def fit_from_curve(
    curve: SlopeCurve, n_rows: float, scale: float, each: TemperatureFit
) -> TemperatureFit:
    """Temperature of all rows of a curve.

    ``scale`` is the mean within-row standard deviation of their logits, and ``each`` holds the
    temperatures of the domains. If all of these are at the same bound, so is the result.
    """
    found = _found_in_curve(curve, n_rows, scale, each)
    if found is None:
        raise InputError(
            f"no temperature of all rows was found: {_different(each)}; check that all sites use "
            "the same classifier and the same scale of the logits."
        )
    return found


def fit_or_unknown(
    curve: SlopeCurve,
    n_rows: float,
    scale: float,
    each: TemperatureFit,
    *,
    used: Array,
    warn: bool,
) -> TemperatureFit:
    """Temperature of all rows for methods that do not need it: NaN if it is not found.

    ``each`` holds the temperatures of all domains, and ``used`` tells which of them are used. Where
    these are very different, the classifier or its scale is not the same: an error.
    """
    t = each.temperature[used]
    if t.max() > _LARGEST_RATIO * t.min():
        return fit_from_curve(curve, n_rows, scale, each)
    found = _found_in_curve(curve, n_rows, scale, each)
    if found is None:
        if warn:
            warn_caller(
                f"the pooled temperature is unknown (NaN): {_different(each)} for the sums of one "
                "round. The predictions do not depend on it.",
                BoundaryWarning,
            )
        found = _one_fit(np.nan, np.nan, np.nan, scale)
    return found


def _different(each: TemperatureFit) -> str:
    low, high = each.temperature.min(), each.temperature.max()
    return f"the temperatures of the sites, from {low:.3g} to {high:.3g}, are too different"


def _found_in_curve(
    curve: SlopeCurve, n_rows: float, scale: float, each: TemperatureFit
) -> TemperatureFit | None:
    """Temperature of all rows of a curve; None if it is not between the points."""
    u = curve.root() if len(curve.log_beta) else None
    if u is not None:
        rate = np.exp(u) * max(curve.column_at(CURVATURE, u), 0.0)
        square = max(curve.column_at(SQUARED_SLOPE, u), 0.0)
        error = np.sqrt(square) / rate if rate > 0 else np.nan
        return _one_fit(np.exp(-u), error, curve.column_at(NLL, u) / n_rows, scale)
    if not scale > 0:
        return _one_fit(1.0, np.nan, np.nan, scale)
    low, high = TEMPERATURE_BOUNDS
    if each.at_bound.all() and (each.temperature <= each.scale).all():
        return _one_fit(low * scale, np.nan, np.nan, scale)
    if each.at_bound.all() and (each.temperature >= each.scale).all():
        return _one_fit(high * scale, np.nan, np.nan, scale)
    return None


def _one_fit(temperature: float, error: float, nll: float, scale: float) -> TemperatureFit:
    return TemperatureFit(
        temperature=np.array([float(temperature)]), standard_error=np.array([float(error)]),
        at_bound=np.array([bool(np.isnan(error))]), nll=np.array([float(nll)]),
        scale=np.array([scale]), n_iter=0,
    )  # fmt: skip
