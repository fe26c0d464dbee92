"""Functions of rows evaluated on the workers of a Dask cluster, where the rows are.

A part is a range of rows on one worker. Calls travel to the workers and results come back; rows
come back only if they are asked for. Dask computes a part, or a result, again if its worker dies.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeVar

import numpy as np

from domaincal._row_arrays import RowArray, RowParts, SelectedRows, replace_rows
from domaincal._typing import Array, IntArray
from domaincal.distributed.cluster_waiting import gather, require_running, thread_counts
from domaincal.statistics.blas_threads import one_blas_thread

Result = TypeVar("Result")

# Results that are added by one task: sums are never gathered in one place in large numbers.
_ADDED_AT_ONCE = 8
# Blocks for each thread of the cluster that are predicted before the caller takes the results.
_BLOCKS_AHEAD = 3
# Sums are added before new ones are computed, so that few exist at a time.
_FIRST = 10


class PartRows(RowArray):
    """The rows of a part on a worker, under their numbers in all rows.

    Parameters
    ----------
    rows : RowArray or array
        Rows from the number ``first`` on.
    first : int
    numbers : range
        Numbers of the rows of the part.
    shape : tuple of int
        Of the array of all rows.
    """

    def __init__(
        self, rows: RowArray | Array, first: int, numbers: range, shape: tuple[int, ...]
    ) -> None:
        super().__init__(shape, rows.dtype)
        self._rows = rows
        self._first = first
        self._numbers = numbers

    @property
    def row_range(self) -> range:
        """Numbers of the rows of the part."""
        return self._numbers

    def read(self, start: int, stop: int) -> Array:
        """Rows of the part."""
        return self._rows[start - self._first : stop - self._first]

    def chosen(self, mask: Array, first: int, n_rows: int) -> PartRows:
        """Rows of a mask over the part; the first gets the number ``first`` of ``n_rows``."""
        n, columns = len(self._numbers), self.shape[1:]
        own = PartRows(self, -self._numbers.start, range(n), (n, *columns))
        rows = SelectedRows(own, mask)
        return PartRows(rows, first, range(first, first + len(rows)), (n_rows, *columns))


@dataclass(frozen=True, eq=False)
class Part:
    """Arrays of a part, by name."""

    arrays: Mapping[str, PartRows]

    def own(self, rows: RowArray) -> RowArray:
        """The rows of this part, in place of those of the cluster."""
        return self.arrays[rows.name] if isinstance(rows, ClusterRows) else rows


def part_of(
    arrays: Mapping[str, RowArray | Array], first: int, numbers: range, n_rows: int
) -> Part:
    """Part of the rows with these numbers; the arrays start with the number ``first``."""
    return Part(
        {
            name: PartRows(rows, first, numbers, (n_rows, *rows.shape[1:]))
            for name, rows in arrays.items()
        }
    )


class ClusterRows(RowArray):
    """An array whose rows are on the workers of a cluster.

    Parameters
    ----------
    name : str
        Name of the array in each :class:`Part`.
    shape : tuple of int
    dtype : numpy dtype
    parts : ClusterParts
    """

    def __init__(self, name: str, shape: tuple[int, ...], dtype: Any, parts: ClusterParts) -> None:
        super().__init__(shape, dtype)
        self.name = name
        self._parts: ClusterParts | None = parts

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_parts": None}  # workers have their own part

    @property
    def row_parts(self) -> RowParts | None:
        """The parts."""
        return self._parts

    def where(self, mask: Array) -> RowArray:
        """Rows of a mask, which stay on their workers."""
        if self._parts is None:
            return super().where(mask)
        parts = self._parts.where(mask)
        return ClusterRows(self.name, (len(parts), *self.shape[1:]), self.dtype, parts)

    def read(self, start: int, stop: int) -> Array:
        """Rows from ``start`` to ``stop``, from their workers."""
        return self._select(np.arange(start, stop))

    def _select(self, rows: IntArray) -> Array:
        if self._parts is None:
            raise RuntimeError(f"the array {self.name} of a cluster is read outside a part")
        return self._parts.select(self, rows)


@dataclass(frozen=True, eq=False)
class _Call:
    """A function and its arguments, which travel to each worker once."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]

    def __call__(self, part: Part, *more: Any) -> Any:
        own = (replace_rows(one, part.own) for one in self.arguments)
        with one_blas_thread():
            return self.function(*own, *more)


class ClusterParts:
    """The parts of rows on a Dask cluster: a :class:`domaincal._row_arrays.RowParts`.

    Parameters
    ----------
    client : distributed.Client
    parts : list of futures of Part
    starts : list of int
        Number of the first row of each part, and the number of all rows.
    """

    def __init__(self, client: Any, parts: Sequence[Any], starts: Sequence[int]) -> None:
        self._client = client
        self._parts = list(parts)
        self._starts = np.asarray(starts, np.int64)
        self._selected: tuple[Array, ClusterParts] | None = None

    def __len__(self) -> int:
        return int(self._starts[-1])

    def where(self, mask: Array) -> ClusterParts:
        """Parts of the rows of a mask; the arrays of the same rows share them."""
        require_running(self._client)
        if self._selected is None or self._selected[0] is not mask:
            masks = np.split(mask, self._starts[1:-1])
            counts = np.array([one.sum() for one in masks])
            stops = np.cumsum(counts)
            kept = np.flatnonzero(counts)
            more = [
                (np.packbits(masks[k]), len(masks[k]), int(stops[k] - counts[k]), int(stops[-1]))
                for k in kept
            ]
            futures = self._client.map(
                _chosen, [self._parts[k] for k in kept], more, key="select", pure=False
            )
            self._selected = mask, ClusterParts(self._client, futures, [0, *stops[kept].tolist()])
        return self._selected[1]

    def map(
        self,
        function: Callable[..., Result],
        *arguments: Any,
        each: Sequence[Any] | None = None,
    ) -> list[Result]:
        """Results of the function in all parts, in their order."""
        more = [()] * len(self._parts) if each is None else [(one,) for one in each]
        return self._gather(self._submit(function, arguments, self._parts, more))

    def sum(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """Sum of the results in all parts, added on the workers in the order of the parts."""
        level = self._submit(function, arguments, self._parts, [()] * len(self._parts))
        while len(level) > 1:
            groups = [level[k : k + _ADDED_AT_ONCE] for k in range(0, len(level), _ADDED_AT_ONCE)]
            # No other reference keeps the results of the level below: they are freed when added.
            level = self._client.map(_add_all, groups, key="add", pure=False, priority=_FIRST)
        found: Result = self._gather(level)[0]
        return found

    def map_blocks(
        self, function: Callable[..., Result], *arguments: Any, n_rows: int
    ) -> Iterator[Result]:
        """Results for blocks of rows, in their order; few are computed ahead of the caller."""
        call = self._send(function, arguments)
        ahead = _BLOCKS_AHEAD * max(1, sum(thread_counts(self._client).values()))
        waiting: deque[Any] = deque()
        for part, first, last in zip(self._parts, self._starts, self._starts[1:], strict=False):
            for start in range(int(first), int(last), n_rows):
                stop = min(start + n_rows, int(last))
                waiting.append(
                    self._client.submit(_run, part, (start, stop), call, key=_key(function))
                )
                if len(waiting) > ahead:
                    yield self._gather([waiting.popleft()])[0]
        while waiting:
            yield self._gather([waiting.popleft()])[0]

    def select(self, rows: ClusterRows, numbers: IntArray) -> Array:
        """Rows of these numbers, in their order."""
        out = np.empty((len(numbers), *rows.shape[1:]), rows.dtype)
        if not len(numbers):
            return out
        owner = np.searchsorted(self._starts, numbers, side="right") - 1
        order = np.argsort(owner, kind="stable")
        owners, first = np.unique(owner[order], return_index=True)
        places = np.split(order, first[1:])
        found = self._gather(
            self._submit(
                _select, (rows,), [self._parts[k] for k in owners],
                [(numbers[place],) for place in places],
            )
        )  # fmt: skip
        for place, values in zip(places, found, strict=True):
            out[place] = values
        return out

    def _send(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Future of a call. It is a task, and is sent again if its worker dies."""
        require_running(self._client)
        call = _Call(function, arguments)
        return self._client.submit(_identity, call, key=_key(_identity), priority=_FIRST)

    def _submit(
        self,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        parts: Sequence[Any],
        more: Sequence[tuple[Any, ...]],
    ) -> list[Any]:
        call = self._send(function, arguments)
        key = getattr(function, "__name__", "call")
        futures: list[Any] = self._client.map(_run, parts, more, call=call, key=key, pure=False)
        return futures

    def _gather(self, futures: list[Any]) -> list[Any]:
        return gather(self._client, futures)


def _key(function: Callable[..., Any]) -> str:
    """A new name of a task."""
    return f"{getattr(function, '__name__', 'call')}-{np.random.default_rng().bytes(16).hex()}"


def _run(part: Part, more: tuple[Any, ...], call: _Call) -> Any:
    """Task: the call for the rows of a part."""
    return call(part, *more)


def _chosen(part: Part, more: tuple[Array, int, int, int]) -> Part:
    """Task: the rows of a mask over a part."""
    packed, n, first, n_rows = more
    mask = np.unpackbits(packed, count=n).astype(bool)
    return Part({name: rows.chosen(mask, first, n_rows) for name, rows in part.arrays.items()})


def _identity(call: _Call) -> _Call:
    return call


def _select(rows: RowArray, numbers: IntArray) -> Array:
    return rows[numbers]


def _add_all(results: list[Any]) -> Any:
    """Task: the sum of the results, in their order."""
    return reduce(_add, results)


def _add(one: Any, other: Any) -> Any:
    """The sum; lists are added element by element."""
    if isinstance(one, list):
        return [_add(a, b) for a, b in zip(one, other, strict=True)]
    return one + other
