"""``.parquet``: the columns of a csv file, with dtypes, checksums and metadata."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from domaincal._files import atomic_file
from domaincal._memory import MemoryLimit
from domaincal._optional import require
from domaincal.data import BlockedRows, CalibrationData
from domaincal.data.column_choice import ColumnChoice
from domaincal.data.column_layout import ColumnLayout, layout_of
from domaincal.errors import FileFormatError, InputError
from domaincal.io.columns import frame_of, frames_of
from domaincal.io.kept_columns import Keep, kept_names
from domaincal.io.parquet_table import ParquetTable, open_parquet
from domaincal.io.raw_data import RawData

_KEY = b"domaincal"
_NAMES = ("class_names", "feature_names")
# Of a row group: a reader holds pages of all of its columns in memory.
_GROUP_BYTES = 1 << 26


def read_parquet(
    path: Path,
    limit: MemoryLimit | None = None,
    choice: ColumnChoice | None = None,
    *,
    verify: bool = False,
    keep: Keep = "none",
) -> RawData:
    """Arrays of a parquet file.

    With ``verify``, the checksums of its pages and of its names are compared, if it has them.
    """
    with open_parquet(path, limit, verify=verify) as table:
        layout, provenance = described_layout(table, path, choice, verify=verify)
        numbers = [name for names in layout.blocks.values() for name in names]
        kept = [name for name in kept_names(table.names, layout, keep) if table.holds_values(name)]
        table.require_memory(numbers, tuple(layout.single.values()), kept)
        arrays = table.numbers(layout.blocks)
        for array, column in layout.single.items():
            values = table.values(column)
            if values is not None:
                arrays[array] = values
            elif array == "ids":
                arrays[array] = np.full(table.n_rows, None, object)
            elif array != "labels":  # rows without labels are allowed
                raise InputError(f"the column {column!r} has no value in any row; remove it.")
        return RawData(
            ".parquet", arrays, class_names=layout.class_names, ignored=layout.ignored,
            feature_names=layout.feature_names, provenance=provenance,
            sources=layout.taken, kept=None if keep == "none" else table.kept(kept),
        )  # fmt: skip


def described_layout(
    table: ParquetTable, path: Path, choice: ColumnChoice | None, *, verify: bool
) -> tuple[ColumnLayout, dict[str, Any]]:
    """Columns of the arrays of an open file, and its provenance."""
    description = _description(table.metadata, path)
    if verify:
        _verify_description(description, table.names, table.n_rows, path)
    class_names, feature_names = (description.get(key) for key in _NAMES)
    layout = layout_of(
        table.names,
        choice,
        None if class_names is None else tuple(class_names),
        None if feature_names is None else tuple(feature_names),
    )
    return layout, description.get("provenance", {})


def write_parquet(data: CalibrationData | BlockedRows, path: Path) -> None:
    """Write all rows, with names and provenance in the metadata of the file."""
    names = {"class_names": data.class_names, "feature_names": data.feature_names}
    frames = [frame_of(data)] if isinstance(data, CalibrationData) else frames_of(data)
    description = {**names, "provenance": dict(data.provenance)}
    save_parquet_parts(path, frames, len(data), description)


def save_parquet(path: Path, frame: pd.DataFrame, description: Mapping[str, Any]) -> None:
    """Write a table and its description, atomically."""
    save_parquet_parts(path, [frame], len(frame), description)


def save_parquet_parts(
    path: Path, parts: Iterable[pd.DataFrame], n_rows: int, description: Mapping[str, Any]
) -> None:
    """:func:`save_parquet` for a table of ``n_rows`` rows that comes in parts."""
    parquet = require_pyarrow()
    pa = require("pyarrow", extra="parquet", purpose=".parquet")
    with atomic_file(path) as file, ExitStack() as stack:
        writer = schema = None
        for table in _row_groups(pa, parts):
            if writer is None:
                checksum = _checksum(description, table.column_names, n_rows)
                content = json.dumps({**description, "sha256": checksum})
                schema = table.schema.with_metadata({_KEY: content.encode()})
                # Outputs of networks hardly compress.
                writer = stack.enter_context(parquet.ParquetWriter(
                    file, schema, compression="none", use_dictionary=False,
                    write_page_checksum=True,
                ))  # fmt: skip
            row_bytes = max(1, table.nbytes // max(table.num_rows, 1))
            writer.write_table(table.cast(schema), max(1, _GROUP_BYTES // row_bytes))


def _row_groups(pa: Any, parts: Iterable[pd.DataFrame]) -> Iterator[Any]:
    """Tables of arrow of about the size of a row group, or larger."""
    waiting: list[Any] = []
    schema = None
    for frame in parts:
        table = pa.Table.from_pandas(frame, schema, preserve_index=False)
        if schema is None:
            schema = _with_values(pa, table.schema).remove_metadata()
        waiting.append(table.cast(schema))
        if sum(one.nbytes for one in waiting) >= _GROUP_BYTES:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


def _with_values(pa: Any, schema: Any) -> Any:
    """Schema in which a column without any value in the first part is one of texts."""
    return pa.schema([f.with_type(pa.string()) if pa.types.is_null(f.type) else f for f in schema])


def require_pyarrow() -> Any:
    """Import pyarrow.parquet, or raise the error that says how to install it."""
    return require("pyarrow.parquet", extra="parquet", purpose=".parquet")


def _checksum(description: Mapping[str, Any], columns: Sequence[str], n_rows: int) -> str:
    """Sha256 of what the checksums of the pages do not cover."""
    covered = json.dumps([dict(description), list(columns), n_rows], sort_keys=True)
    return hashlib.sha256(covered.encode()).hexdigest()


def _verify_description(
    description: Mapping[str, Any], columns: Sequence[str], n_rows: int, path: Path
) -> None:
    """Raise an error if names, provenance, columns or the number of rows have changed."""
    rest = dict(description)
    stored = rest.pop("sha256", None)  # other programs, and earlier versions, write none
    if stored is not None and stored != _checksum(rest, columns, n_rows):
        raise FileFormatError(
            f"the names or columns of {path} have changed since it was written: their checksum "
            "differs; restore it, or write it again."
        )


def _description(metadata: Mapping[bytes, bytes], path: Path) -> dict[str, Any]:
    """Names and provenance that :func:`write_parquet` stored; empty for other files."""
    try:
        found: dict[str, Any] = json.loads(metadata.get(_KEY, b"{}"))
        if not isinstance(found, dict):
            raise ValueError("they must be an object")
        for key in _NAMES:
            names = found.get(key, [])
            if names is not None and not (
                isinstance(names, list) and all(isinstance(name, str) for name in names)
            ):
                raise ValueError(f"{key} must be a list of strings")
        if not isinstance(found.get("provenance", {}), dict):
            raise ValueError("provenance must be an object")
    except (ValueError, TypeError, RecursionError) as error:
        raise FileFormatError(f"{path} has damaged metadata ({error}); write it again.") from error
    return found
