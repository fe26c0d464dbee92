"""The sums from which a temperature is fitted, and the fit of rows in memory."""

from dataclasses import dataclass, fields

import numpy as np

from domaincal._typing import Array, FloatArray
from domaincal._validation import non_finite_logits
from domaincal.kernels import rows as kernels
from domaincal.statistics.blocks import row_blocks, sum_blocks
from domaincal.statistics.solver import TemperatureFit, solve_temperature

# Fractions of the rows (one in so many) that find the start of the next, larger fit.
_SAMPLES = (64, 8)
_SAMPLE_ROWS_PER_GROUP = 64
_SAMPLE_TOLERANCE = 1e-3


@dataclass(frozen=True)
class TemperatureSums:
    """Sums over the rows of each group at a given ``beta``: shape ``(n_groups,)`` each.

    Attributes
    ----------
    weight : total weight; the number of rows where there are no weights
    nll : negative log-likelihood ``log sum_j exp(beta z_j) - beta z_y``
    slope : derivative of the NLL in ``beta``, ``g = E_p z - z_y``
    curvature : second derivative, ``Var_p z``
    squared_slope : ``g ** 2``
    spread : standard deviation of a row's logits (does not depend on ``beta``)

    Examples
    --------
    >>> import numpy as np
    >>> sums = TemperatureSums.from_rows(np.array([[2.0, 0.0]]), np.array([0]), np.array([1.0]))
    >>> (sums + sums).weight.tolist()
    [2.0]
    """

    weight: FloatArray
    nll: FloatArray
    slope: FloatArray
    curvature: FloatArray
    squared_slope: FloatArray
    spread: FloatArray

    @classmethod
    def from_rows(
        cls,
        logits: Array,
        labels: Array,
        beta: FloatArray,
        *,
        group: Array | None = None,
        n_groups: int = 1,
        weight: Array | None = None,
        offset: int = 0,
        every: int = 1,
        compiled: bool = False,
    ) -> "TemperatureSums":
        """Sum over rows; ``beta`` holds one value for all rows or one for each row."""
        sums = kernels.temperature_sums(
            logits, labels, beta, weight=weight, group=group, n_groups=n_groups,
            offset=offset, every=every, compiled=compiled,
        )  # fmt: skip
        return cls(*sums.T)

    def __add__(self, other: "TemperatureSums") -> "TemperatureSums":
        return TemperatureSums(
            *(getattr(self, f.name) + getattr(other, f.name) for f in fields(self))
        )

    @property
    def scale(self) -> FloatArray:
        """Mean within-row standard deviation of the logits; NaN for a group without rows."""
        with np.errstate(invalid="ignore"):
            return self.spread / self.weight


def sum_temperature_rows(
    logits: Array,
    labels: Array,
    beta: FloatArray | None = None,
    *,
    row_beta: FloatArray | None = None,
    group: Array | None = None,
    n_groups: int = 1,
    weight: Array | None = None,
    every: int = 1,
) -> TemperatureSums:
    """:class:`TemperatureSums` of rows in memory, block by block on all threads.

    Either ``beta``, one value for each group, or ``row_beta``, one for each row.
    """
    compiled = kernels.use_compiled(logits.size)

    def block_beta(block: slice) -> FloatArray:
        if row_beta is not None:
            return row_beta[block]
        assert beta is not None
        return beta if group is None else beta[group[block]]

    def block_sums(block: slice) -> TemperatureSums:
        return TemperatureSums.from_rows(
            logits[block],
            labels[block],
            block_beta(block),
            group=None if group is None else group[block],
            n_groups=n_groups,
            weight=None if weight is None else weight[block],
            offset=block.start,
            every=every,
            compiled=compiled,
        )

    # A sample reads so little of a block that larger ones are worth a task.
    blocks = row_blocks(len(logits), logits.shape[1] * logits.itemsize // min(every, 8))
    sums = sum_blocks(block_sums, blocks)
    if not (np.isfinite(sums.slope).all() and np.isfinite(sums.spread).all()):
        raise non_finite_logits(logits)
    return sums


def fit_temperature(
    logits: Array,
    labels: Array,
    *,
    group: Array | None = None,
    n_groups: int = 1,
    weight: Array | None = None,
) -> TemperatureFit:
    """Temperature of each group of rows in memory.

    Large inputs first fit a sixty-fourth of the rows, then an eighth from there: the fit on all
    rows starts so close that two passes usually end it.
    """
    compiled = kernels.use_compiled(logits.size)

    def evaluate(beta: FloatArray, every: int = 1) -> TemperatureSums:
        return sum_temperature_rows(
            logits, labels, beta, group=group, n_groups=n_groups, weight=weight, every=every
        )

    start = None
    for every in _SAMPLES if compiled else ():
        if len(logits) < every * n_groups * _SAMPLE_ROWS_PER_GROUP:
            continue
        sample = solve_temperature(
            lambda beta, every=every: evaluate(beta, every),  # type: ignore[misc]
            n_groups=n_groups, start=start, tolerance=_SAMPLE_TOLERANCE,
        )  # fmt: skip
        unknown = sample.at_bound | ~np.isfinite(sample.temperature)
        start = np.where(unknown, np.where(sample.scale > 0, sample.scale, 1.0), sample.temperature)
    # Rounding in the lanes limits what further evaluations could improve.
    precision = kernels.lane_precision(logits.dtype) if compiled else np.finfo(np.float64).eps
    return solve_temperature(
        evaluate, n_groups=n_groups, start=start, tolerance=max(1e-12, 0.1 * precision)
    )
