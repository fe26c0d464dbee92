"""A parquet file in chunks of rows."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from domaincal._memory import MemoryLimit
from domaincal._optional import require
from domaincal._typing import Array
from domaincal.data.column_choice import ColumnChoice
from domaincal.data.column_layout import ColumnLayout
from domaincal.errors import FileFormatError
from domaincal.io.kept_columns import Keep, kept_names
from domaincal.io.parquet import described_layout
from domaincal.io.parquet_table import fill_numbers, open_parquet
from domaincal.io.raw_data import RawData
from domaincal.io.row_chunks import Cells, Chunk, RowChunks


def parquet_chunks(
    path: Path, limit: MemoryLimit, choice: ColumnChoice, keep: Keep, *, verify: bool
) -> RowChunks:
    """Chunks of a parquet file; with ``verify``, the checksums of its pages are compared."""
    with open_parquet(path, limit, verify=verify, in_parts=True) as table:
        layout, provenance = described_layout(table, path, choice, verify=verify)
        numbers = [name for names in layout.blocks.values() for name in names]
        kept = [name for name in kept_names(table.names, layout, keep) if table.holds_values(name)]
        table.require_memory_of_parts(numbers, tuple(layout.single.values()), kept)
        dtypes = table.dtypes(layout.blocks)
        n_rows = table.n_rows
    reader = _ParquetReader(path, limit, layout, verify, _state(path))
    raw = RawData(
        ".parquet", {}, class_names=layout.class_names, feature_names=layout.feature_names,
        provenance=provenance, ignored=layout.ignored, sources=layout.taken,
    )  # fmt: skip
    row_bytes = sum(dtypes[array].itemsize * len(names) for array, names in layout.blocks.items())
    return RowChunks(
        path, raw, n_rows, row_bytes, chunks=reader.chunks,
        kept=None if not kept else lambda n_rows: reader.columns(kept, n_rows),
    )  # fmt: skip


@dataclass(frozen=True)
class _ParquetReader:
    """Reads the rows of a parquet file, from the first on, any number of times."""

    path: Path
    limit: MemoryLimit
    layout: ColumnLayout
    verify: bool
    state: tuple[int, int]

    def chunks(self) -> Iterator[Chunk]:
        """Numbers and the other columns of all rows."""
        blocks, single = self.layout.blocks, self.layout.single
        columns = [name for names in blocks.values() for name in names] + list(single.values())
        with open_parquet(self.path, self.limit, verify=self.verify, in_parts=True) as table:
            self._require_unchanged()
            dtypes = table.dtypes(blocks)
            start = 0
            for batch in table.parts(columns):
                numbers = {}
                for array, names in blocks.items():
                    numbers[array] = np.empty((batch.num_rows, len(names)), dtypes[array])
                    fill_numbers(numbers[array], batch, names, start)
                cells = {array: _cells(batch.column(name)) for array, name in single.items()}
                yield Chunk(numbers, cells)
                start += batch.num_rows
            self._require_unchanged()

    def columns(self, names: Sequence[str], n_rows: int) -> Iterator[pd.DataFrame]:
        """Columns as they are, ``n_rows`` rows at a time."""
        with open_parquet(self.path, self.limit, in_parts=True) as table:
            self._require_unchanged()
            waiting = pd.DataFrame()
            # The batches end with the row groups.
            for batch in table.parts(names, n_rows):
                found = _frame(batch, names)
                waiting = pd.concat([waiting, found], ignore_index=True) if len(waiting) else found
                while len(waiting) >= n_rows:
                    yield waiting.iloc[:n_rows]
                    waiting = waiting.iloc[n_rows:].reset_index(drop=True)
            if len(waiting):
                yield waiting

    def _require_unchanged(self) -> None:
        if _state(self.path) != self.state:
            raise FileFormatError(f"{self.path} was changed while it was read; run it again.")


def _cells(values: Any) -> Cells:
    """Values of a column of a batch."""
    missing = values.is_null().to_numpy(zero_copy_only=False)
    return Cells(_values(values.drop_null() if missing.any() else values), missing)


def _frame(batch: Any, names: Sequence[str]) -> pd.DataFrame:
    """Columns as they are: texts as objects, everything else in its type of arrow."""
    columns: dict[str, Any] = {}
    for name in names:
        values = batch.column(name)
        is_text = hasattr(values, "dictionary")
        columns[name] = _values(values) if is_text else pd.arrays.ArrowExtensionArray(values)
    return pd.DataFrame(columns, index=pd.RangeIndex(batch.num_rows))


def _values(values: Any) -> Array:
    """Values of a column of a batch; a text that occurs in many rows takes memory once."""
    if not hasattr(values, "dictionary"):
        return np.asarray(values.to_numpy(zero_copy_only=False))
    indices = values.indices
    if indices.null_count:
        indices = indices.cast("int64").fill_null(-1)
    used, places = np.unique(indices.to_numpy(zero_copy_only=False), return_inverse=True)
    has_null = len(used) and used[0] < 0
    # Only those of this batch: a dictionary serves all rows of a row group.
    texts = values.dictionary.take(_array(used[1:] if has_null else used))
    names = texts.to_numpy(zero_copy_only=False).tolist()
    return np.asarray(np.array([None, *names] if has_null else [*names, None], object)[places])


def _array(values: Array) -> Any:
    return require("pyarrow", extra="parquet", purpose=".parquet").array(values)


def _state(path: Path) -> tuple[int, int]:
    stat = os.stat(path)
    return stat.st_size, stat.st_mtime_ns
