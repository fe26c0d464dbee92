"""Rows of a file as raw arrays, chunk by chunk, for files that fit no memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from domaincal._row_arrays import CodedRows, RowArray
from domaincal._typing import Array, IntArray
from domaincal.data.blocked_rows import BLOCK_BYTES
from domaincal.io.raw_data import RawData

#: Arrays of numbers.
NUMBERS = ("logits", "probabilities", "features")


class Cells(NamedTuple):
    """A column of a chunk: the values of the rows that have one, and which rows have none."""

    present: Array
    missing: Array

    @classmethod
    def of(cls, values: Array) -> Cells:
        """Values of which none is missing."""
        return cls(values, np.zeros(len(values), bool))


class Chunk(NamedTuple):
    """Consecutive rows: numbers (``logits`` or ``probabilities``, ``features``), and the others."""

    numbers: Mapping[str, Array]
    cells: Mapping[str, Cells]


@dataclass(frozen=True)
class RowChunks:
    """A file whose rows come in chunks.

    Attributes
    ----------
    path : Path
        Name of the file in errors.
    raw : RawData
        Everything but the arrays: format, names, sources, ignored columns.
    n_rows : int
        Number of rows, at most.
    row_bytes : int
        Bytes of the numbers of a row.
    chunks : callable
        Returns an iterator over the chunks, from the first row on, any number of times.
    decode : callable, optional
        Maps the name of an array and its different values, as the file has them, to values.
    kept : callable, optional
        Takes a number of rows; returns an iterator over the columns that predictions repeat.
    no_value : str
        Words for a missing cell.
    """

    path: Path
    raw: RawData
    n_rows: int
    row_bytes: int
    chunks: Callable[[], Iterator[Chunk]]
    decode: Callable[[str, Array], Array] = lambda array, values: values
    kept: Callable[[int], Iterator[pd.DataFrame]] | None = None
    no_value: str = "has no value"


def renamed_chunks(
    path: Path, by_name: Mapping[str, RowArray | CodedRows], names: Mapping[str, str], raw: RawData
) -> RowChunks:
    """Chunks of a file whose arrays are read as others, such as its logits as probabilities.

    ``names`` has the array of the file for each array that is read.
    """
    found = by_name.values()
    width = sum(values.row_bytes for values in found if not isinstance(values, CodedRows))
    n_rows = min(map(len, found), default=0)

    def values(name: str, start: int, stop: int) -> Array:
        found = by_name[name]
        if isinstance(found, CodedRows):
            return np.asarray(found.names[found.codes.read(start, stop)])
        rows = found.read(start, stop)
        # numpy pads its strings.
        return rows.astype(object) if rows.dtype.kind in "UT" else rows

    def chunks() -> Iterator[Chunk]:
        size = max(1, BLOCK_BYTES // max(width, 16))
        for start in range(0, n_rows, size):
            stop = min(start + size, n_rows)
            arrays = {array: values(name, start, stop) for array, name in names.items()}
            numbers = {array: arrays.pop(array) for array in NUMBERS if array in arrays}
            yield Chunk(numbers, {array: Cells.of(found) for array, found in arrays.items()})

    def ids(size: int) -> Iterator[pd.DataFrame]:
        for start in range(0, n_rows, size):
            found = values(names["ids"], start, min(start + size, n_rows))
            yield pd.DataFrame({names["ids"]: found})

    return RowChunks(path, raw, n_rows, width, chunks, kept=ids if "ids" in names else None)


@dataclass
class Distinct:
    """Different values of a column, in the order of the rows that have them first."""

    n_rows: int = 0
    first_missing: int | None = None
    n_missing: int = 0
    _numbers: dict[Any, int] = field(default_factory=dict)
    _parts: list[Array] = field(default_factory=list)

    def add(self, cells: Cells) -> IntArray:
        """Number of the value of each row, -1 for a missing one."""
        codes = np.full(len(cells.missing), -1, np.int64)
        if cells.missing.any():
            if self.first_missing is None:
                self.first_missing = self.n_rows + int(np.argmax(cells.missing))
            self.n_missing += int(np.count_nonzero(cells.missing))
        self.n_rows += len(codes)
        of_chunk, found = pd.factorize(cells.present, use_na_sentinel=False)
        known, is_new = self._numbers, []
        numbers = np.empty(len(found), np.int64)
        for place, value in enumerate(np.asarray(found).tolist()):
            number = known.get(value)
            is_new.append(number is None)
            if number is None:
                number = known[value] = len(known)
            numbers[place] = number
        if any(is_new):
            self._parts.append(np.asarray(found)[is_new])
        codes[~cells.missing] = numbers[of_chunk]
        return codes

    def __len__(self) -> int:
        return len(self._numbers)

    def values(self) -> Array:
        """The different values."""
        return np.concatenate(self._parts) if self._parts else np.empty(0, object)
