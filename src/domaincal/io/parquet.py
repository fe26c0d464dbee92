"""``.parquet``: the columns of a csv file, with dtypes, checksums and metadata."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from domaincal._files import DAMAGED, atomic_file, decoding
from domaincal._optional import require
from domaincal._typing import Array
from domaincal.data import CalibrationData
from domaincal.errors import FileFormatError, InputError
from domaincal.io.columns import SINGLE, frame_of, layout_of
from domaincal.io.raw_data import RawData, require_plausible_size

_KEY = b"domaincal"
_ROWS_AT_A_TIME = 1 << 14
_TEXTS = ("string", "large_string")
_NAMES = ("class_names", "feature_names")


def read_parquet(path: Path, *, verify: bool = False) -> RawData:
    """Arrays of a parquet file; with ``verify``, the checksums of its pages are compared."""
    parquet = require_pyarrow()
    with open(path, "rb") as source, decoding(path, DAMAGED):
        schema = parquet.ParquetFile(source).schema_arrow
        # As dictionaries: a long name that occurs in many rows takes memory once.
        names = [name for name in SINGLE.values() if schema.names.count(name) == 1]
        texts = [name for name in names if str(schema.field(name).type) in _TEXTS]
        file = parquet.ParquetFile(source, page_checksum_verification=verify, read_dictionary=texts)
        return _read(path, file)


def write_parquet(data: CalibrationData, path: Path) -> None:
    """Write all rows, with names and provenance in the metadata of the file."""
    names = {"class_names": data.class_names, "feature_names": data.feature_names}
    save_parquet(path, frame_of(data), {**names, "provenance": dict(data.provenance)})


def save_parquet(path: Path, frame: pd.DataFrame, description: Mapping[str, Any]) -> None:
    """Write a table and its description, atomically."""
    parquet = require_pyarrow()
    pa = require("pyarrow", extra="parquet", purpose=".parquet")
    table = pa.Table.from_pandas(frame, preserve_index=False)
    table = table.replace_schema_metadata({_KEY: json.dumps(dict(description)).encode()})
    with atomic_file(path) as file:
        # Outputs of networks hardly compress.
        parquet.write_table(
            table, file, compression="none", use_dictionary=False, write_page_checksum=True
        )


def require_pyarrow() -> Any:
    """Import pyarrow.parquet, or raise the error that says how to install it."""
    return require("pyarrow.parquet", extra="parquet", purpose=".parquet")


def _read(path: Path, file: Any) -> RawData:
    """Arrays of an open file."""
    description = _description(file.schema_arrow.metadata, path)
    class_names, feature_names = (description.get(key) for key in _NAMES)
    layout = layout_of(
        file.schema_arrow.names,
        None if class_names is None else tuple(class_names),
        None if feature_names is None else tuple(feature_names),
    )
    n_rows = file.metadata.num_rows
    n_columns = sum(map(len, layout.blocks.values())) + len(layout.single)
    require_plausible_size(path, n_rows * n_columns * 8, path.stat().st_size)
    arrays = _read_blocks(path, file, layout.blocks)
    for array, column in layout.single.items():
        values = file.read(columns=[column]).column(0)
        if array == "labels" and values.null_count == n_rows:
            continue  # the rows are not labelled yet
        arrays[array] = _values(values.combine_chunks(), column, 0)
    return RawData(
        ".parquet", arrays, class_names=layout.class_names, feature_names=layout.feature_names,
        provenance=description.get("provenance", {}), ignored=layout.ignored,
    )  # fmt: skip


def _read_blocks(path: Path, file: Any, blocks: Mapping[str, tuple[str, ...]]) -> dict[str, Array]:
    """Two-dimensional arrays, from batches of rows."""
    n_rows = file.metadata.num_rows
    arrays: dict[str, Array] = {
        array: np.empty((n_rows, len(names)), _common_dtype(file.schema_arrow, names))
        for array, names in blocks.items()
    }
    wanted = [name for names in blocks.values() for name in names]
    start = 0
    for batch in file.iter_batches(batch_size=_ROWS_AT_A_TIME, columns=wanted):
        rows = slice(start, start + batch.num_rows)
        for array, columns in blocks.items():
            for k, column in enumerate(columns):
                arrays[array][rows, k] = _values(batch.column(column), column, start)
        start = rows.stop
    if start != n_rows and wanted:
        raise FileFormatError(
            f"{path} holds {start} rows, but its metadata say {n_rows}; write it again."
        )
    return arrays


def _values(values: Any, column: str, start: int) -> Array:
    """Values of a column; ``start`` is the row of the first, for the error."""
    if values.null_count:
        row = start + int(np.argmax(values.is_null().to_numpy(zero_copy_only=False)))
        raise InputError(
            f"the column {column!r} has no value in row {row}; fill it, or drop the row."
        )
    if hasattr(values, "dictionary"):
        names = np.asarray(values.dictionary.to_numpy(zero_copy_only=False))
        return np.asarray(names[values.indices.to_numpy(zero_copy_only=False)])
    return np.asarray(values.to_numpy(zero_copy_only=False))


def _common_dtype(schema: Any, columns: tuple[str, ...]) -> np.dtype[Any]:
    """Floating dtype that holds all columns."""
    dtypes = []
    for column in columns:
        found = schema.field(column).type
        try:
            dtype = np.dtype(found.to_pandas_dtype())
        except (NotImplementedError, TypeError):
            dtype = np.dtype(object)
        if dtype.kind not in "fiu":
            raise InputError(f"the column {column!r} must hold numbers, not {found}.")
        dtypes.append(dtype)
    common = np.result_type(*dtypes)
    return common if common.kind == "f" else np.dtype(np.float64)


def _description(metadata: Mapping[bytes, bytes] | None, path: Path) -> dict[str, Any]:
    """Names and provenance that :func:`write_parquet` stored; empty for other files."""
    try:
        found = dict(json.loads((metadata or {}).get(_KEY, b"{}")))
        for key in _NAMES:
            names = found.get(key)
            if names is not None and not all(isinstance(name, str) for name in names):
                raise ValueError(f"{key} must be strings")
    except (ValueError, TypeError) as error:
        raise FileFormatError(f"{path} has damaged metadata ({error}); write it again.") from error
    return found
