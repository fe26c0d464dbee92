"""The sums from which a temperature is fitted, and the fit of rows in memory."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, fields
from functools import cached_property, partial
from typing import Any

import numpy as np

from domaincal._tensors import on_device
from domaincal._typing import Array, FloatArray
from domaincal._validation import non_finite_logits
from domaincal.kernels import dispatch, torch_kernels
from domaincal.statistics.blocks import Workers, row_blocks
from domaincal.statistics.temperature_solver import TemperatureFit, solve_temperature

# Samples (one in so many rows) that find the start of the next, larger fit; how many rows of a
# group make one worth while, and with how many there is no need for a larger one.
_SAMPLES = (512, 64, 8)
_WORTH_WHILE = 64
_ENOUGH = 4096
_SAMPLE_TOLERANCE = 1e-3


@dataclass(frozen=True, eq=False)
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
        sums = dispatch.temperature_sums(
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


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Rows in memory: logits and labels, their groups and weights where they have any.

    Logits on a device are summed there.
    """

    logits: Array
    labels: Array
    group: Array | None = None
    n_groups: int = 1
    weight: Array | None = None

    @property
    def compiled(self) -> bool:
        """Whether these rows are worth the compiled kernels."""
        return dispatch.use_compiled(self.logits.size) and not on_device(self.logits)

    def sums(
        self,
        beta: FloatArray,
        *,
        one_each: bool = False,
        every: int = 1,
        workers: Workers | None = None,
    ) -> TemperatureSums:
        """Sum block by block on all threads.

        ``beta`` holds one value for each group, or, with ``one_each``, one for each row. ``every``
        takes a sample of rows on the host.
        """
        if on_device(self.logits):
            return self._checked(self._sums_on_device(beta, one_each=one_each))

        def block_sums(block: slice) -> TemperatureSums:
            group = None if self.group is None else self.group[block]
            of_group = beta if group is None or one_each else beta[group]
            return TemperatureSums.from_rows(
                self.logits[block],
                self.labels[block],
                beta[block] if one_each else of_group,
                group=group,
                n_groups=self.n_groups,
                weight=None if self.weight is None else self.weight[block],
                offset=block.start,
                every=every,
                compiled=self.compiled,
            )

        # Where rows are read in place, a sample takes little of a block: blocks may be larger.
        reach = max(1, every // 4) if dispatch.reads_in_place(self.logits) else 1
        row_bytes = self.logits.shape[1] * self.logits.itemsize
        blocks = row_blocks(len(self.logits), row_bytes // reach)
        with nullcontext(workers) if workers else Workers() as threads:
            sums = threads.sum(block_sums, blocks)
        return self._checked(sums)

    def _checked(self, sums: TemperatureSums) -> TemperatureSums:
        if not (np.isfinite(sums.slope).all() and np.isfinite(sums.spread).all()):
            raise non_finite_logits(self.logits)
        return sums

    def evaluation(
        self, workers: Workers, *, every: int = 1
    ) -> Callable[[FloatArray], TemperatureSums]:
        """The sums as a solver asks for them, of one in ``every`` rows."""
        if not on_device(self.logits):
            return partial(self.sums, every=every, workers=workers)
        some = self if every == 1 else self._select(slice(None, None, every))
        return lambda beta: self._checked(some._sums_on_device(beta))

    def _select(self, rows: Any) -> "LabelledRows":
        group, weight = (None if a is None else a[rows] for a in (self.group, self.weight))
        return LabelledRows(self.logits[rows], self.labels[rows], group, self.n_groups, weight)

    @cached_property
    def _sent(self) -> dict[str, Any]:
        """Labels, groups and weights on the device of the logits, for all passes."""
        assert on_device(self.logits)
        send = self.logits.send
        return {
            "labels": send(self.labels.astype(np.int64)),
            "group": None if self.group is None else send(self.group.astype(np.int64)),
            "weight": None if self.weight is None else send(self.weight.astype(np.float64)),
        }

    def _sums_on_device(self, beta: FloatArray, *, one_each: bool = False) -> TemperatureSums:
        assert on_device(self.logits)
        if one_each:
            asked = np.flatnonzero(~np.isnan(beta))
            # A few rows are picked out; a pass over all would skip most of them.
            if 0 < len(asked) < 0.5 * len(beta):
                return self._select(asked)._sums_on_device(beta[asked], one_each=True)
        given = self._sent
        b = self.logits.send(np.asarray(beta, np.float64))
        if given["group"] is not None and not one_each:
            b = b[given["group"]]
        sums = torch_kernels.temperature_sums(
            self.logits.tensor, **given, beta=b, n_groups=self.n_groups
        )
        return TemperatureSums(*sums.T)


def fit_temperature(rows: LabelledRows) -> TemperatureFit:
    """Temperature of each group of rows in memory.

    Large inputs first fit samples of the rows, each from where the last one ended: the fit on all
    rows starts so close that two passes usually end it.
    """
    n, n_groups = len(rows.logits), rows.n_groups
    start = None
    with Workers() as workers:
        device = on_device(rows.logits)
        for every in _SAMPLES if rows.compiled or device else ():
            rows_per_group = n / (every * n_groups)
            if rows_per_group < _WORTH_WHILE:
                continue
            sample = solve_temperature(
                rows.evaluation(workers, every=every),
                n_groups=n_groups, start=start, tolerance=_SAMPLE_TOLERANCE,
            )  # fmt: skip
            # Groups that the sample has missed start where the others are.
            known = sample.scale > 0
            usual = np.median(sample.scale[known]) if known.any() else 1.0
            scale = np.where(known, sample.scale, usual)
            start = np.where(sample.at_bound, scale, sample.temperature)
            if rows_per_group >= _ENOUGH:
                break
        # Rounding in the lanes limits what further evaluations could improve.
        lanes = rows.compiled or device
        precision = dispatch.lane_precision(rows.logits.dtype) if lanes else 0.0
        return solve_temperature(
            rows.evaluation(workers),
            n_groups=n_groups, start=start, tolerance=max(1e-12, 0.1 * precision),
        )  # fmt: skip
