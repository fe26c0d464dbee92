"""Columns of a parquet file, read within a memory limit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pandas as pd

from domaincal._files import DAMAGED, decoding, open_file
from domaincal._memory import MemoryLimit
from domaincal._optional import require
from domaincal._typing import Array
from domaincal.errors import FileFormatError, InputError
from domaincal.io.parquet_pages import Chunk, read_footer, read_pages

_TEXTS = ("string", "large_string", "string_view")
# So many cells, and so many rows, are decoded at a time.
_CELLS_AT_A_TIME = 1 << 22
_BUFFER = 1 << 14
_ROWS_AT_A_TIME = 1 << 14
# Bytes that pyarrow and the copies after it take at most, measured with pyarrow 26 and rounded up:
# a cell of the result in float64, twice; a cell of a batch; a column; a value of other columns.
_PER_NUMBER = 16
_PER_DECODED_NUMBER = 32
_PER_COLUMN = 12_000
_PER_VALUE = 48


@contextmanager
def open_parquet(
    path: Path, limit: MemoryLimit | None = None, *, verify: bool = False, in_parts: bool = False
) -> Iterator[ParquetTable]:
    """Open a parquet file; errors inside the block name the file.

    With ``in_parts``, its rows are read by :meth:`ParquetTable.parts`.
    """
    limit = MemoryLimit.of(path) if limit is None else limit
    with open_file(path) as source, decoding(path, DAMAGED):
        yield ParquetTable(source, limit, verify=verify, in_parts=in_parts)


class ParquetTable:
    """An open parquet file. Call :meth:`require_memory` before reading columns.

    Attributes
    ----------
    names : list of str
        Names of the columns.
    metadata : mapping from bytes to bytes
        What the writer stored with the schema.
    n_rows : int
    """

    def __init__(
        self, source: BinaryIO, limit: MemoryLimit, *, verify: bool, in_parts: bool = False
    ) -> None:
        parquet = require("pyarrow.parquet", extra="parquet", purpose=".parquet")
        self._groups = read_footer(source, limit)
        first = parquet.ParquetFile(source, pre_buffer=False)
        # As dictionaries: a name that occurs in many rows takes memory once.
        texts = [field.name for field in first.schema_arrow if str(field.type) in _TEXTS]
        self._file = parquet.ParquetFile(
            source, metadata=first.metadata, page_checksum_verification=verify,
            read_dictionary=texts, pre_buffer=False,
            # Otherwise the columns of a whole row group are in memory at a time.
            buffer_size=_BUFFER if in_parts else 0,
        )  # fmt: skip
        self._source, self._limit = source, limit
        self._schema = self._file.schema_arrow
        self.names: list[str] = self._schema.names
        self.metadata: Mapping[bytes, bytes] = self._schema.metadata or {}
        self.n_rows: int = self._file.metadata.num_rows

    def require_memory(
        self,
        numbers: Sequence[str],
        values: Sequence[str],
        kept: Sequence[str] = (),
        *,
        cure: str = "",
    ) -> None:
        """Refuse columns that take more memory than allowed, or that are neither number nor text.

        ``numbers`` are read by :meth:`numbers`, ``values`` one by one by :meth:`values`, ``kept``
        by :meth:`kept`. ``cure`` is added to the error for a column that does not hold numbers.
        """
        for name in numbers:
            _number_dtype(self._schema.field(name), cure)
        for name in values:
            _require_value_type(self._schema.field(name))
        self._require_no_nested({*numbers, *values, *kept})
        batch = min(self.n_rows, _batch_rows(len(numbers)))
        needed = self.n_rows * len(numbers) * _PER_NUMBER + self.n_rows * len(values) * _PER_VALUE
        needed += len(numbers) * (batch * _PER_DECODED_NUMBER + _PER_COLUMN)
        needed += len(kept) * (self.n_rows * _PER_VALUE + _PER_COLUMN)
        self._limit.require(needed)
        self._require_memory_of_pages(needed, {*numbers}, {*values, *kept})

    def require_memory_of_parts(
        self, numbers: Sequence[str], values: Sequence[str], kept: Sequence[str] = ()
    ) -> None:
        """:meth:`require_memory` for rows that are read by :meth:`parts`."""
        for name in numbers:
            _number_dtype(self._schema.field(name))
        for name in values:
            _require_value_type(self._schema.field(name))
        self._require_no_nested({*numbers, *values, *kept})
        n_columns = len(numbers) + len(values) + len(kept)
        batch = min(self.n_rows, _batch_rows(n_columns))
        needed = n_columns * (batch * _PER_DECODED_NUMBER + _PER_COLUMN)
        self._limit.require(needed)
        self._require_memory_of_pages(needed, {*numbers, *values, *kept}, set())

    def dtypes(self, blocks: Mapping[str, Sequence[str]]) -> dict[str, np.dtype[Any]]:
        """Dtype of the array of each block of columns of numbers."""
        found = {}
        for array, names in blocks.items():
            dtype = np.result_type(*(_number_dtype(self._schema.field(name)) for name in names))
            found[array] = dtype if dtype.kind == "f" else np.dtype(np.float64)
        return found

    def parts(self, columns: Sequence[str], n_rows: int | None = None) -> Iterator[Any]:
        """Batches of consecutive rows of these columns, as record batches of arrow."""
        size = _batch_rows(len(columns)) if n_rows is None else n_rows
        found = 0
        for batch in self._file.iter_batches(batch_size=size, columns=list(columns)):
            found += batch.num_rows
            yield batch
        self._require_all_rows(found)

    def numbers(self, blocks: Mapping[str, Sequence[str]]) -> dict[str, Array]:
        """Two-dimensional arrays of columns of numbers, decoded in batches of rows."""
        arrays: dict[str, Array] = {}
        for array, dtype in self.dtypes(blocks).items():
            arrays[array] = np.empty((self.n_rows, len(blocks[array])), dtype)
        wanted = [name for names in blocks.values() for name in names]
        start = 0
        for batch in self.parts(wanted) if wanted else ():
            for array, names in blocks.items():
                fill_numbers(arrays[array][start : start + batch.num_rows], batch, names, start)
            start += batch.num_rows
        return arrays

    def values(self, column: str) -> Array | None:
        """A column of numbers, or of texts as objects; None if it has no value at all."""
        values = self._file.read(columns=[column]).column(column)
        self._require_all_rows(len(values))
        if values.null_count == len(values) > 0:
            return None
        parts = []
        known: dict[str, str] = {}
        start = 0
        for part in values.chunks:
            _require_no_nulls(part, column, start)
            is_coded = hasattr(part, "dictionary")
            parts.append(_texts(part, known) if is_coded else part.to_numpy(zero_copy_only=False))
            start += len(part)
        return np.concatenate(parts) if parts else np.empty(0, object)

    def holds_values(self, column: str) -> bool:
        """Whether a column holds numbers, times or texts, but not lists or bytes of any size."""
        return _has_value_type(self._schema.field(column))

    def kept(self, columns: Sequence[str]) -> pd.DataFrame:
        """Columns as they are: texts as objects, everything else in its type of arrow."""
        frame: dict[str, Any] = {}
        for name in columns:
            values = self._file.read(columns=[name]).column(name)
            self._require_all_rows(len(values))
            if hasattr(values.type, "value_type"):
                known: dict[str, str] = {}
                parts = [_texts(part, known) for part in values.chunks]
                frame[name] = np.concatenate(parts) if parts else np.empty(0, object)
            else:
                frame[name] = pd.arrays.ArrowExtensionArray(values)
        return pd.DataFrame(frame, index=pd.RangeIndex(self.n_rows))

    def _require_all_rows(self, n_rows: int) -> None:
        if n_rows != self.n_rows:
            raise FileFormatError(
                f"{self._limit.path} holds {n_rows} rows, but its metadata say {self.n_rows}; "
                "write it again."
            )

    def _require_no_nested(self, wanted: set[str]) -> None:
        """Refuse the column "a.b" next to a nested column "a": pyarrow reads both by that name."""
        pa = require("pyarrow", extra="parquet", purpose=".parquet")
        nested = tuple(f"{f.name}." for f in self._schema if pa.types.is_nested(f.type))
        wrong = next((name for name in wanted if "." in name and name.startswith(nested)), None)
        if wrong is not None:
            raise InputError(f"the column {wrong!r} is named like a nested one; rename it.")

    def _require_memory_of_pages(self, needed: int, numbers: set[str], values: set[str]) -> None:
        """Refuse pages that take too much memory besides the ``needed`` bytes.

        The pages of numbers are in memory for one row group at a time.
        """
        wanted = {*numbers, *values}
        schema = self._file.schema
        paths = [schema.column(j).path for j in range(len(schema))]
        leaves = [(j, path) for j, path in enumerate(paths) if path in wanted]
        texts = {name for name in values if hasattr(self._schema.field(name).type, "value_type")}
        for group in self._groups:
            one_group = 0
            # A group without rows has no pages, and no valid place for them.
            for j, path in leaves if group.n_rows else ():
                memory = self._chunk_memory(group.chunks[j], group.n_rows, path in texts)
                one_group += memory if path in numbers else 0
                needed += memory if path in values else 0
                self._limit.require(needed + one_group)

    def _chunk_memory(self, chunk: Chunk, n_rows: int, is_text: bool) -> int:
        """Bytes that a column takes in a row group, compressed and decompressed."""
        if chunk.n_values != n_rows:  # pyarrow reads so many values
            raise ValueError(f"a column has {chunk.n_values} values in {n_rows} rows")
        pages = read_pages(self._source, chunk)
        return chunk.length + sum(
            page.text_memory(n_rows) if is_text else page.n_bytes for page in pages
        )


def fill_numbers(out: Array, batch: Any, columns: Sequence[str], first_row: int) -> None:
    """Copy columns of numbers of a batch; ``first_row`` is the number of its first row."""
    for k, name in enumerate(columns):
        values = batch.column(name)
        _require_no_nulls(values, name, first_row)
        out[:, k] = values.to_numpy(zero_copy_only=False)


def _texts(values: Any, known: dict[str, str]) -> Array:
    """Texts of dictionary codes; equal texts are one object, also of several row groups."""
    found = values.dictionary.to_numpy(zero_copy_only=False).tolist()
    names = [known.setdefault(name, name) for name in found]
    indices = values.indices
    if indices.null_count:  # without a value, the code is one more than the last
        indices = indices.cast("int64").fill_null(len(names))
    codes = indices.to_numpy(zero_copy_only=False)
    return np.asarray(np.array([*names, None], object)[codes])


def _batch_rows(n_columns: int) -> int:
    """Number of rows to decode at a time."""
    return min(_ROWS_AT_A_TIME, max(_CELLS_AT_A_TIME // max(n_columns, 1), 1))


def _require_no_nulls(values: Any, column: str, start: int) -> None:
    """Refuse a missing value; ``start`` is the row of the first value."""
    if values.null_count:
        row = start + int(np.argmax(values.is_null().to_numpy(zero_copy_only=False)))
        raise InputError(
            f"the column {column!r} has no value in row {row}; fill it, or drop the row."
        )


def _number_dtype(field: Any, cure: str = "") -> np.dtype[Any]:
    """Dtype of a column of numbers."""
    try:
        dtype: np.dtype[Any] = np.dtype(field.type.to_pandas_dtype())
    except (NotImplementedError, TypeError):  # pyarrow's answers for types that numpy lacks
        dtype = np.dtype(object)
    if dtype.kind not in "fiub":
        is_text = str(field.type).startswith("dictionary")
        found = "text" if is_text else field.type
        raise InputError(
            f"the column {field.name!r} must hold numbers, not {found}{cure and ': ' + cure}."
        )
    return dtype


def _require_value_type(field: Any) -> None:
    """Refuse columns whose values can have any size, such as lists."""
    if not _has_value_type(field):
        raise InputError(f"the column {field.name!r} must hold numbers or texts, not {field.type}.")


def _has_value_type(field: Any) -> bool:
    types = require("pyarrow", extra="parquet", purpose=".parquet").types
    kind = field.type.value_type if types.is_dictionary(field.type) else field.type
    is_fixed = types.is_primitive(kind) or types.is_decimal(kind) or types.is_null(kind)
    return bool(is_fixed or str(kind) in _TEXTS)
