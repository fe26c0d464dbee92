"""Arrays whose rows are read or computed when they are needed.

A :class:`RowArray` has the part of numpy's interface that sums over blocks of rows use: a shape, a
dtype, and rows by slices or row numbers. Code that works block by block therefore serves arrays in
memory and files that fit no memory alike.

Rows can also be spread over several places, such as the workers of a cluster. A function that sums
over rows is then evaluated in each of them, on an array of the same shape of which only the rows of
that place can be read: :func:`sum_over_parts`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Protocol, TypeGuard, TypeVar

import numpy as np

from domaincal._typing import Array, IntArray
from domaincal.errors import InputError

# Selected rows that are at most this far apart are read together, with the rows between them.
_GAP_BYTES = 1 << 16
# Rows of a mask that are counted together.
_RUN = 1 << 12
# Largest part of a selection that is read at a time.
_PART_BYTES = 1 << 24

Result = TypeVar("Result")


class RowParts(Protocol):
    """Parts of rows, each in one place, where functions of their rows are evaluated.

    In the arguments of a function, arrays of all rows are replaced by those of the part: they have
    the same shape and row numbers, but only the rows of the part can be read. See
    :func:`row_range`.
    """

    def map(
        self,
        function: Callable[..., Result],
        *arguments: Any,
        each: Sequence[Any] | None = None,
    ) -> list[Result]:
        """Results of the function in all parts, in their order.

        ``each`` holds one more argument, the last, for each part.
        """

    def map_blocks(
        self, function: Callable[..., Result], *arguments: Any, n_rows: int
    ) -> Iterator[Result]:
        """Results of ``function(*arguments, start, stop)`` for blocks of rows, in their order."""

    def sum(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """Sum of the results in all parts, added in their order; lists element by element."""


class RowArray(ABC):
    """Array whose rows are read when they are asked for; slices and selections are numpy arrays.

    Subclasses implement :meth:`read`. They can be pickled, and several threads may read at a time.

    Parameters
    ----------
    shape : tuple of int
    dtype : numpy dtype

    Examples
    --------
    >>> import numpy as np
    >>> rows = ComputedRows((6,), np.float64, lambda start, stop: np.arange(start, stop) / 2)
    >>> rows[2:4].tolist(), rows[np.array([5, 0])].tolist()
    ([1.0, 1.5], [2.5, 0.0])
    """

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.shape = shape
        self.dtype: np.dtype[Any] = np.dtype(dtype)

    @abstractmethod
    def read(self, start: int, stop: int) -> Array:
        """Rows from ``start`` to ``stop``, which lie within the array."""

    @property
    def row_parts(self) -> RowParts | None:
        """Places where the rows are; None if they are read by this process."""
        return None

    @property
    def row_range(self) -> range:
        """Numbers of the rows that can be read: all, or those of a part."""
        return range(len(self))

    def replaced(self, replacement: Callable[[RowArray], RowArray]) -> RowArray:
        """The array with its sources replaced; see :func:`replace_rows`."""
        return replacement(self)

    def where(self, mask: Array) -> RowArray:
        """Rows of a mask, which are read when they are needed."""
        return SelectedRows(self, mask)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return self.itemsize * int(np.prod(self.shape[1:], dtype=np.int64))

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={self.shape}, dtype={self.dtype})"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        # Without this method, numpy would wrap the object, or read it row by row.
        raise TypeError(f"{self!r} is read in blocks; it is not an array in memory.")

    def __getitem__(self, index: slice | Array) -> Array:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step == 1:
                return self.read(start, max(start, stop))
            index = np.arange(start, stop, step)
        if index.dtype.kind == "b":
            index = np.flatnonzero(index)
        rows = np.asarray(index, np.int64)
        if rows.size and not 0 <= rows.min() <= rows.max() < len(self):
            wrong = rows.min() if rows.min() < 0 else rows.max()
            raise InputError(f"there is no row {wrong}; use numbers from 0 to {len(self) - 1}.")
        return self._select(rows)

    def _select(self, rows: IntArray) -> Array:
        """Rows of the given numbers; neighbours are read together."""
        out = np.empty((len(rows), *self.shape[1:]), self.dtype)
        order = np.argsort(rows, kind="stable")
        ordered = rows[order]
        width = max(1, self.row_bytes)
        ends = np.append(np.flatnonzero(np.diff(ordered) > _GAP_BYTES // width) + 1, len(rows))
        first = 0
        for end in ends.tolist():
            while first < end:
                start = int(ordered[first])
                last = int(np.searchsorted(ordered[first:end], start + _PART_BYTES // width + 1))
                part = slice(first, first + last)
                block = self.read(start, int(ordered[part.stop - 1]) + 1)
                out[order[part]] = block[ordered[part] - start]
                first = part.stop
        return out


class ComputedRows(RowArray):
    """Rows that a function computes.

    Parameters
    ----------
    shape : tuple of int
    dtype : numpy dtype
    function : callable
        Takes the first row and the row after the last; returns a numpy array.
    """

    def __init__(
        self, shape: tuple[int, ...], dtype: Any, function: Callable[[int, int], Array]
    ) -> None:
        super().__init__(shape, dtype)
        self._function = function

    def read(self, start: int, stop: int) -> Array:
        """Computed rows."""
        return self._function(start, stop)


class MappedRows(RowArray):
    """Rows that a function computes from the same rows of other arrays.

    Parameters
    ----------
    shape : tuple of int
    dtype : numpy dtype
    function : callable
        Takes a block of each source; returns a numpy array.
    *sources : RowArray, or a feature matrix that computes rows of one

    Examples
    --------
    >>> import numpy as np
    >>> codes = ComputedRows((6,), np.int64, np.arange)
    >>> MappedRows((6,), np.float64, np.sqrt, codes)[4:5].tolist()
    [2.0]
    """

    def __init__(
        self, shape: tuple[int, ...], dtype: Any, function: Callable[..., Array], *sources: Any
    ) -> None:
        super().__init__(shape, dtype)
        self._function = function
        self._sources = sources

    def read(self, start: int, stop: int) -> Array:
        """Computed rows."""
        return self._function(*(source[start:stop] for source in self._sources))

    def _select(self, rows: IntArray) -> Array:
        return self._function(*(source[rows] for source in self._sources))

    @property
    def row_parts(self) -> RowParts | None:
        """Places where the rows of the sources are."""
        return parts_of(self._sources[0])

    @property
    def row_range(self) -> range:
        """Numbers of the rows of the sources that can be read."""
        return row_range(self._sources[0])

    def where(self, mask: Array) -> RowArray:
        """The same function of rows of a mask."""
        shape = (int(mask.sum()), *self.shape[1:])
        sources = [source.where(mask) for source in self._sources]
        return MappedRows(shape, self.dtype, self._function, *sources)

    def replaced(self, replacement: Callable[[RowArray], RowArray]) -> RowArray:
        """The same function of replaced sources."""
        sources = [replace_rows(source, replacement) for source in self._sources]
        return MappedRows(self.shape, self.dtype, self._function, *sources)


class SelectedRows(RowArray):
    """Some rows of another array, which are read when they are needed.

    Parameters
    ----------
    rows : RowArray
    mask : array of bool, shape (n,)
        Rows to keep.

    Examples
    --------
    >>> import numpy as np
    >>> rows = ComputedRows((6,), np.int64, lambda start, stop: np.arange(start, stop))
    >>> some = SelectedRows(rows, np.array([True, False, True, True, False, True]))
    >>> len(some), some.read(1, 3).tolist()
    (4, [2, 3])
    """

    def __init__(self, rows: RowArray, mask: Array) -> None:
        self._rows, self._chosen = rows, mask
        # Selected rows before each run of _RUN rows.
        starts = np.arange(0, len(mask), _RUN)
        counts = np.add.reduceat(mask, starts, dtype=np.int64) if len(mask) else np.empty(0, int)
        self._before = np.concatenate([[0], np.cumsum(counts)])
        super().__init__((int(self._before[-1]), *rows.shape[1:]), rows.dtype)

    def read(self, start: int, stop: int) -> Array:
        """Selected rows from ``start`` to ``stop``, and those between them, of which few remain."""
        if stop <= start:
            return self._rows.read(0, 0)
        first = int(np.searchsorted(self._before, start, "right")) - 1
        last = int(np.searchsorted(self._before, stop, "left"))
        low, high = first * _RUN, min(last * _RUN, len(self._chosen))
        kept = low + np.flatnonzero(self._chosen[low:high])
        kept = kept[start - self._before[first] : stop - self._before[first]]
        low = int(kept[0])
        return self._rows.read(low, int(kept[-1]) + 1)[kept - low]


class WatchedRows(RowArray):
    """Rows of another array; a function gets the number of bytes of each read.

    Several threads may call the function at a time.
    """

    def __init__(self, rows: RowArray, report: Callable[[int], object]) -> None:
        super().__init__(rows.shape, rows.dtype)
        self._rows, self._report = rows, report

    def read(self, start: int, stop: int) -> Array:
        """Rows from ``start`` to ``stop``."""
        found = self._rows.read(start, stop)
        self._report(found.nbytes)
        return found


@dataclass(frozen=True, eq=False)
class CodedRows:
    """Domain of each row, as the number of its name.

    Attributes
    ----------
    codes : RowArray of integers, shape (n,)
    names : array
        Sorted names.
    """

    codes: RowArray
    names: Array

    def __len__(self) -> int:
        return len(self.codes)

    def where(self, mask: Array) -> CodedRows:
        """Rows of a mask, with the names that occur in them."""
        some = self.codes.where(mask)
        present = sum_over_parts(_counts, some, len(self.names)) > 0
        number = np.cumsum(present) - 1
        codes = MappedRows(some.shape, np.int64, number.__getitem__, some)
        return CodedRows(codes, self.names[present])


def _counts(codes: RowArray, n_names: int) -> IntArray:
    """Number of rows of each code."""
    total = np.zeros(n_names, np.int64)
    rows, size = row_range(codes), max(1, _PART_BYTES // codes.row_bytes)
    for start in rows[::size]:
        total += np.bincount(codes[start : min(start + size, rows.stop)], minlength=n_names)
    return total


def is_row_array(values: object) -> TypeGuard[RowArray]:
    """Whether the rows are read when they are needed."""
    return isinstance(values, RowArray)


def parts_of(rows: object) -> RowParts | None:
    """Places where the rows are; None for rows that this process reads."""
    found: RowParts | None = getattr(rows, "row_parts", None)
    return found


def row_range(rows: Any) -> range:
    """Numbers of the rows that can be read here.

    Examples
    --------
    >>> row_range([0.5, 1.5])
    range(0, 2)
    """
    found: range | None = getattr(rows, "row_range", None)
    return range(len(rows)) if found is None else found


def replace_rows(value: Any, replacement: Callable[[RowArray], RowArray]) -> Any:
    """A row array, or a dataclass with row arrays, with each array replaced.

    Examples
    --------
    >>> import numpy as np
    >>> zeros = ComputedRows((2,), np.int64, lambda start, stop: np.zeros(stop - start))
    >>> ones = ComputedRows((2,), np.int64, lambda start, stop: np.ones(stop - start))
    >>> replace_rows(CodedRows(zeros, np.array(["a"])), lambda rows: ones).codes[:].tolist()
    [1.0, 1.0]
    """
    if isinstance(value, RowArray):
        return value.replaced(replacement)
    if not is_dataclass(value) or isinstance(value, type):
        return value
    changed = {}
    for field in fields(value):
        if field.init:
            old = getattr(value, field.name)
            new = replace_rows(old, replacement)
            if new is not old:
                changed[field.name] = new
    return replace(value, **changed) if changed else value


def sum_over_parts(function: Callable[..., Result], *arguments: Any) -> Result:
    """``function(*arguments)``; if the rows are in several places, the sum over these.

    Examples
    --------
    >>> sum_over_parts(len, [0.5, 1.5])
    2
    """
    parts = next((p for one in arguments if (p := parts_of(one)) is not None), None)
    return function(*arguments) if parts is None else parts.sum(function, *arguments)
