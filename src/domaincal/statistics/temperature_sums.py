"""Sums from which a temperature is fitted, and the fit of rows in memory."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import Any, cast

import numpy as np

from domaincal._row_arrays import RowParts, is_row_array, parts_of, row_range, sum_over_parts
from domaincal._tensors import DeviceArray, as_codes, on_device
from domaincal._typing import Array, FloatArray, IntArray
from domaincal._validation import non_finite_logits_error
from domaincal.kernels import dispatch, torch_kernels
from domaincal.kernels.device_groups import RowGroups
from domaincal.statistics.blocks import Workers, row_blocks
from domaincal.statistics.domain_counts import present_domains
from domaincal.statistics.temperature_solver import TemperatureFit, solve_temperature

# A fit on a sample (one in 512, 64 or 8 rows) gives the start of the next. A sample is used from
# _WORTH_WHILE rows per domain on; from _ENOUGH rows on, the next fit takes all rows.
_SAMPLES = (512, 64, 8)
# On a device, a small sample takes as long as one that is 16 times as small: the time of its calls.
_DEVICE_SAMPLES = (16,)
_WORTH_WHILE = 64
_ENOUGH = 4096
_SAMPLE_TOLERANCE = 1e-3
# Largest size of the logits of a sample that is kept in memory.
_SAMPLE_BYTES = 1 << 26
# Blocks that are read have at most BLOCK_BYTES / _SMALLEST_ROW rows.
_SMALLEST_ROW = 16


@dataclass(frozen=True, eq=False)
class TemperatureSums:
    """Sums over the rows of each domain at a given ``beta``, each of shape ``(n_domains,)``.

    Attributes
    ----------
    weight : total weight, or the number of rows without weights
    nll : negative log-likelihood ``log sum_j exp(beta z_j) - beta z_y``
    slope : derivative of the NLL in ``beta``, ``g = E_p z - z_y``
    curvature : second derivative of the NLL, ``Var_p z``
    squared_slope : ``g ** 2``
    spread : standard deviation of the logits of a row, which does not depend on ``beta``

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
        domain: Array | None = None,
        n_domains: int = 1,
        weight: Array | None = None,
        offset: int = 0,
        every: int = 1,
        compiled: bool = False,
    ) -> TemperatureSums:
        """Sum over rows; ``beta`` has one value for all rows, or one for each row."""
        sums = dispatch.temperature_sums(
            logits, labels, beta, weight=weight, domain=domain, n_domains=n_domains,
            offset=offset, every=every, compiled=compiled,
        )  # fmt: skip
        return cls(*sums.T)

    def __add__(self, other: TemperatureSums) -> TemperatureSums:
        return TemperatureSums(
            *(getattr(self, f.name) + getattr(other, f.name) for f in fields(self))
        )

    @property
    def scale(self) -> FloatArray:
        """Mean within-row standard deviation of the logits; NaN for a domain without rows."""
        with np.errstate(invalid="ignore"):
            return self.spread / self.weight


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Logits, labels, domains and weights of rows.

    Logits on a device are summed there. Arrays that are not in memory are read block by block, by
    the threads that sum them.
    """

    logits: Array
    labels: Array
    domain: Array | None = None
    n_domains: int = 1
    weight: Array | None = None
    # Number of logits by which the kernels are chosen; by default that of these rows.
    n_logits: int | None = None

    @property
    def row_parts(self) -> RowParts | None:
        """Places where the rows are, if this process does not read them."""
        return parts_of(self.logits)

    @property
    def compiled(self) -> bool:
        """Whether the compiled kernels are used."""
        n_logits = self.logits.size if self.n_logits is None else self.n_logits
        return dispatch.use_compiled(n_logits) and not on_device(self.logits)

    def sums(
        self,
        beta: FloatArray,
        *,
        per_row: bool = False,
        every: int = 1,
        workers: Workers | None = None,
    ) -> TemperatureSums:
        """Sum block by block on all threads.

        ``beta`` has one value for each domain, or, with ``per_row``, one for each row. With
        ``every > 1``, rows on the host are sampled.
        """
        if on_device(self.logits):
            return self._checked(self._sums_on_device(beta, per_row=per_row))
        if self.row_parts is not None:
            workers = None  # threads of this process
        return self._checked(
            sum_over_parts(LabelledRows._sum_blocks, self, beta, per_row, every, workers)
        )

    def _sum_blocks(
        self, beta: FloatArray, per_row: bool, every: int, workers: Workers | None
    ) -> TemperatureSums:
        """Sums over the rows that this process reads; they may be NaN or infinite."""
        stored = is_row_array(self.logits)

        def block_sums(block: slice) -> tuple[Any, FloatArray]:
            if stored and every > 1:
                return self._sampled_sums(block, beta, every)
            domain = None if self.domain is None else self.domain[block]
            of_domain = beta if domain is None or per_row else beta[domain]
            present, codes, n_domains = self._present_domains(domain)
            return present, dispatch.temperature_sums(
                self.logits[block],
                self.labels[block],
                beta[block] if per_row else of_domain,
                domain=codes,
                n_domains=n_domains,
                weight=None if self.weight is None else self.weight[block],
                offset=block.start,
                every=every,
                compiled=self.compiled,
            )

        # A sample of rows that are read in place reads little of a block: use larger blocks.
        reach = max(1, every // 4) if stored or dispatch.reads_in_place(self.logits) else 1
        row_bytes = self.logits.shape[1] * self.logits.itemsize
        smallest = _SMALLEST_ROW if stored else 1  # rows whose labels and codes are read, too
        blocks = row_blocks(row_range(self.logits), max(row_bytes // reach, smallest))
        with (
            nullcontext(workers) if workers else Workers() as threads,
            np.errstate(over="ignore", invalid="ignore"),  # reported below
        ):
            sums = np.zeros((self.n_domains, 6))
            for present, found in threads.map(block_sums, blocks):
                sums[present] += found
        return TemperatureSums(*sums.T)

    def _sampled_sums(self, block: slice, beta: FloatArray, every: int) -> tuple[Any, FloatArray]:
        """Sums of a sample of the rows of a block, of which nothing else is read."""
        rows = dispatch.sampled_rows(
            block.start, block.stop, n_classes=self.logits.shape[1], every=every
        )
        if not len(rows):
            return slice(0, 0), np.zeros((0, len(fields(TemperatureSums))))
        domain = None if self.domain is None else self.domain[rows]
        present, codes, n_domains = self._present_domains(domain)
        return present, dispatch.temperature_sums(
            self.logits[rows],
            self.labels[rows],
            beta if domain is None else beta[domain],
            domain=codes,
            n_domains=n_domains,
            weight=None if self.weight is None else self.weight[rows],
            compiled=self.compiled,
        )

    def _present_domains(self, domain: Array | None) -> tuple[Any, Array | None, int]:
        """:func:`present_domains` of a block; all rows are one domain if there are none."""
        if domain is None:
            return slice(None), None, self.n_domains
        return present_domains(domain, self.n_domains)

    def _checked(self, sums: TemperatureSums) -> TemperatureSums:
        if not np.isfinite([getattr(sums, f.name) for f in fields(sums)]).all():
            raise non_finite_logits_error(self.logits)
        return sums

    def evaluation(
        self, workers: Workers, *, every: int = 1
    ) -> Callable[[FloatArray], TemperatureSums]:
        """Function ``evaluate`` of :func:`solve_temperature`, for one in ``every`` rows."""
        few = self.sample(every) if every > 1 else None
        if few is not None:
            # Errors name rows of these rows, not of the sample.
            return lambda beta: self._checked(few._sum_blocks(beta, False, 1, workers))
        if not on_device(self.logits):
            return partial(self.sums, every=every, workers=workers)
        return lambda beta: self._checked(self._sums_on_device(beta, step=every))

    def sample(self, every: int) -> LabelledRows | None:
        """One in ``every`` rows in memory, if they are few rows of a file; otherwise None.

        Every step of a fit would read them again, in many small parts.
        """
        if not is_row_array(self.logits) or self.row_parts is not None:
            return None
        n, row_bytes = len(self.logits), self.logits.shape[1] * self.logits.itemsize
        if n // every * row_bytes > _SAMPLE_BYTES:
            return None
        numbers = [
            dispatch.sampled_rows(
                block.start, block.stop, n_classes=self.logits.shape[1], every=every
            )
            for block in row_blocks(n, 8)
        ]
        # The kernels of all rows: those of few rows would round in another way.
        return replace(self.select(np.concatenate(numbers)), n_logits=self.logits.size)

    def select(self, rows: Any) -> LabelledRows:
        """Some of the rows, in memory."""
        domain, weight = (None if a is None else a[rows] for a in (self.domain, self.weight))
        return LabelledRows(self.logits[rows], self.labels[rows], domain, self.n_domains, weight)

    def without_domains(self) -> LabelledRows:
        """The same rows as one domain."""
        labels, weight = self.labels, self.weight
        if on_device(self.logits):
            labels = cast(Array, DeviceArray(self._sent["labels"]))  # sent once for both
        return LabelledRows(self.logits, labels, weight=weight, n_logits=self.n_logits)

    @property
    def groups(self) -> RowGroups:
        """The rows of each domain, on the device of the logits."""
        groups: RowGroups = self._sent["groups"]
        return groups

    @cached_property
    def _sent(self) -> dict[str, Any]:
        """Labels, groups and weights on the device of the logits."""
        assert on_device(self.logits)
        tensor = self.logits.tensor
        codes = None if self.domain is None else as_codes(self.domain, tensor.device)
        weight = None if self.weight is None else self.logits.send(self.weight.astype(np.float64))
        return {
            "labels": as_codes(self.labels, tensor.device),
            "groups": RowGroups(len(tensor), tensor.device, codes, self.n_domains),
            "weight": weight,
        }

    def _sums_on_device(
        self, beta: FloatArray, *, per_row: bool = False, step: int = 1
    ) -> TemperatureSums:
        assert on_device(self.logits)
        if per_row:
            asked = np.flatnonzero(~np.isnan(beta))
            # Few rows are asked for: select them instead of passing over all.
            if 0 < len(asked) < 0.5 * len(beta):
                return self.select(asked)._sums_on_device(beta[asked], per_row=True)
        b = self.logits.send(np.asarray(beta, np.float64))
        sums = torch_kernels.temperature_sums(
            self.logits.tensor, beta=b, per_row=per_row, step=step, **self._sent
        )
        return TemperatureSums(*sums.T)


def fit_temperature(rows: LabelledRows) -> TemperatureFit:
    """Temperature of each domain.

    Large inputs are fitted on samples of increasing size first. The fit on all rows then starts so
    close to the solution that it usually needs two passes.
    """
    n, n_domains = len(rows.logits), rows.n_domains
    start = None
    with Workers() as workers:
        device = on_device(rows.logits)
        for every in _DEVICE_SAMPLES if device else _SAMPLES if rows.compiled else ():
            rows_per_domain = n / (every * n_domains)
            if rows_per_domain < _WORTH_WHILE:
                continue
            sample = solve_temperature(
                rows.evaluation(workers, every=every),
                n_domains=n_domains, start=start, tolerance=_SAMPLE_TOLERANCE,
            )  # fmt: skip
            # Domains without rows in the sample start at a typical scale.
            known = sample.scale > 0
            usual = np.median(sample.scale[known]) if known.any() else 1.0
            scale = np.where(known, sample.scale, usual)
            start = np.where(sample.at_bound, scale, sample.temperature)
            if rows_per_domain >= _ENOUGH:
                break
        # Rounding in the lanes limits the precision of the sums.
        lanes = rows.compiled or device
        precision = dispatch.lane_precision(rows.logits.dtype) if lanes else 0.0
        return solve_temperature(
            rows.evaluation(workers),
            n_domains=n_domains, start=start, tolerance=max(1e-12, 0.1 * precision),
        )  # fmt: skip


def fit_without_parts(
    rows: LabelledRows, part: IntArray, n_parts: int, *, start: FloatArray
) -> TemperatureFit:
    """One temperature for each part, fitted to the rows of all domains in other parts.

    ``part`` holds the part of each domain; domains with part -1 are left out of all fits. All
    parts are fitted in the same passes over the rows. ``start`` is a temperature to start from.
    """

    def evaluate(beta: FloatArray) -> TemperatureSums:
        return TemperatureSums(*sum_over_parts(_sums_without_parts, rows, part, n_parts, beta).T)

    precision = dispatch.lane_precision(rows.logits.dtype) if rows.compiled else 0.0
    return solve_temperature(
        evaluate, n_domains=n_parts, start=np.full(n_parts, start),
        tolerance=max(1e-12, 0.1 * precision),
    )  # fmt: skip


def _sums_without_parts(
    rows: LabelledRows, part: IntArray, n_parts: int, beta: FloatArray
) -> FloatArray:
    """Sums over the domains outside each part at its ``beta``, shape (n_parts, 6)."""
    domain = rows.domain
    assert domain is not None

    def block_sums(block: slice) -> FloatArray:
        group = part[domain[block]] + 1
        z, y = rows.logits[block], rows.labels[block]
        out = np.full((n_parts, len(fields(TemperatureSums))), np.nan)
        for k in np.flatnonzero(~np.isnan(beta)):
            sums = dispatch.temperature_sums(
                z, y, beta[k : k + 1], domain=group, n_domains=n_parts + 1, compiled=rows.compiled
            )
            out[k] = sums[1:].sum(axis=0) - sums[k + 1]
        return out

    row_bytes = max(rows.logits.shape[1] * rows.logits.itemsize, _SMALLEST_ROW)
    with Workers() as workers:
        return workers.sum(block_sums, row_blocks(row_range(rows.logits), row_bytes))
