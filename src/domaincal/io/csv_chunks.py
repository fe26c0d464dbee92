"""A csv file in chunks of rows."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import pandas as pd

from domaincal._files import decoding
from domaincal._memory import MemoryLimit
from domaincal._typing import Array
from domaincal.data.column_choice import ColumnChoice
from domaincal.data.column_layout import ColumnLayout, layout_of
from domaincal.errors import FileFormatError
from domaincal.io.csv import integers_or_texts, labels_of_texts
from domaincal.io.csv_columns import (
    Header,
    Wanted,
    measured_csv,
    naming_cells,
    opened_csv,
    parser_options,
)
from domaincal.io.csv_size import PER_BYTE, CsvSize
from domaincal.io.kept_columns import Keep, kept_names
from domaincal.io.raw_data import RawData
from domaincal.io.row_chunks import Cells, Chunk, RowChunks

# So many bytes of the file, and so many cells, are parsed at a time.
_BYTES_AT_A_TIME = 1 << 22
_CELLS_AT_A_TIME = 1 << 19
_OBJECT = np.dtype(object)


def csv_chunks(path: Path, limit: MemoryLimit, choice: ColumnChoice, keep: Keep) -> RowChunks:
    """Chunks of a csv file, which is read once to its end before."""
    state = _state(path)
    with measured_csv(path, limit) as (header, size):
        layout = layout_of(header.columns, choice)
    reader = _CsvReader(path, limit, header, size, layout, state)
    raw = RawData(
        ".csv", {}, class_names=layout.class_names, feature_names=layout.feature_names,
        ignored=layout.ignored if layout.blocks else tuple(header.columns), sources=layout.taken,
    )  # fmt: skip
    kept = kept_names(header.columns, layout, keep)
    return RowChunks(
        path, raw, n_rows=size.n_lines, row_bytes=8 * sum(map(len, layout.blocks.values())),
        chunks=reader.chunks, decode=reader.decode, no_value="is empty",
        kept=None if not kept else lambda n_rows: reader.texts(kept, n_rows),
    )  # fmt: skip


class _CsvReader:
    """Parses the rows of a csv file, from the first on, any number of times."""

    def __init__(
        self,
        path: Path,
        limit: MemoryLimit,
        header: Header,
        size: CsvSize,
        layout: ColumnLayout,
        state: tuple[int, int],
    ) -> None:
        self._path = path
        self._limit = limit
        self._header = header
        self._layout = layout
        self._state = state
        line = max(1, size.n_bytes // max(size.n_lines, 1))
        of_cells = _CELLS_AT_A_TIME // max(len(header.columns), 1)
        self._rows_at_a_time = max(1, min(_BYTES_AT_A_TIME // line, of_cells))

    def chunks(self) -> Iterator[Chunk]:
        """Numbers and texts of all rows."""
        layout = self._layout
        numbers = [name for names in layout.blocks.values() for name in names]
        for frame in self._parts(Wanted(numbers, ()), self._rows_at_a_time):
            yield Chunk(
                {a: frame[list(names)].to_numpy(np.float64) for a, names in layout.blocks.items()},
                {array: _cells(frame[column]) for array, column in layout.single.items()},
            )

    def texts(self, columns: Sequence[str], n_rows: int) -> Iterator[pd.DataFrame]:
        """Columns as they are, ``n_rows`` rows at a time."""
        for frame in self._parts(Wanted((), columns), n_rows):
            yield frame[list(columns)].reset_index(drop=True)

    def decode(self, array: str, values: Array) -> Array:
        """Values of the texts of a column, as for a file that is read into memory."""
        if not len(values):
            return values
        texts = pd.Series(values, dtype=object)
        if array == "labels":
            column = self._layout.single["labels"]
            return labels_of_texts(texts, column, self._layout.class_names)
        return integers_or_texts(texts)

    def _parts(self, wanted: Wanted, n_rows: int) -> Iterator[pd.DataFrame]:
        names, options = parser_options(self._header, wanted.numbers)
        dtypes: dict[str, Any] = dict.fromkeys(names, _OBJECT)
        dtypes |= dict.fromkeys(wanted.numbers, np.float64)
        if not wanted.numbers:
            options["usecols"] = list(wanted.texts)
        with (
            decoding(self._path, "it needs a header and UTF-8"),
            opened_csv(self._path, None) as file,
            naming_cells(self._path, file, self._header, wanted.numbers, ""),
        ):
            self._require_unchanged()
            metered = _Metered(file, self._limit)
            content = cast(IO[bytes], io.BufferedReader(metered, 1 << 18))
            with pd.read_csv(content, dtype=dtypes, iterator=True, **options) as reader:
                while True:
                    metered.n_bytes = 0
                    try:
                        frame = reader.get_chunk(n_rows)
                    except StopIteration:
                        break
                    yield frame
            self._require_unchanged()

    def _require_unchanged(self) -> None:
        if _state(self._path) != self._state:
            raise FileFormatError(f"{self._path} was changed while it was read; run it again.")


class _Metered(io.RawIOBase):
    """A file of which a limited number of bytes is read for each chunk.

    A quote that is never closed makes the rest of a file one cell.
    """

    def __init__(self, file: IO[bytes], limit: MemoryLimit) -> None:
        self._file = file
        self._limit = limit
        self.n_bytes = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Read at most as many bytes as there is room for."""
        content = self._file.read(len(buffer))
        self.n_bytes += len(content)
        self._limit.require(
            PER_BYTE * self.n_bytes,
            "a row, or a cell in quotes, is very long; check its quotes, or allow more with "
            "max_memory=... (--max-memory)",
        )
        buffer[: len(content)] = content
        return len(content)


def _cells(column: pd.Series[Any]) -> Cells:
    """Texts of a column; empty cells, and those that a short row does not have, are missing."""
    values = column.to_numpy(object)
    missing = (column.isna() | (column == "")).to_numpy(bool)
    return Cells(values[~missing] if missing.any() else values, missing)


def _state(path: Path) -> tuple[int, int]:
    stat = os.stat(path)
    return stat.st_size, stat.st_mtime_ns
