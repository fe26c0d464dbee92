"""``.parquet``: the columns of a csv file, with types, checksums and a description."""

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


def read_parquet(path: Path, *, verify: bool = False) -> RawData:
    """Columns of a parquet file; ``verify`` compares the checksums of its pages."""
    parquet = require_pyarrow()
    with open(path, "rb") as source, decoding(path, DAMAGED):
        schema = parquet.ParquetFile(source).schema_arrow
        # A name that is there often is read once, however long it is.
        names = [name for name in SINGLE.values() if schema.names.count(name) == 1]
        texts = [name for name in names if str(schema.field(name).type) in _TEXTS]
        file = parquet.ParquetFile(source, page_checksum_verification=verify, read_dictionary=texts)
        return _contents(path, file)


def write_parquet(data: CalibrationData, path: Path) -> None:
    """Write all rows, with class names and provenance in the file's metadata."""
    description = {"class_names": data.class_names, "provenance": dict(data.provenance)}
    save_parquet(path, frame_of(data), description)


def save_parquet(path: Path, frame: pd.DataFrame, description: Mapping[str, Any]) -> None:
    """Write a table, atomically."""
    parquet = require_pyarrow()
    pa = require("pyarrow", extra="parquet", purpose=".parquet")
    table = pa.Table.from_pandas(frame, preserve_index=False)
    table = table.replace_schema_metadata({_KEY: json.dumps(dict(description)).encode()})
    with atomic_file(path) as file:
        # Floats of networks do not compress; checksums find what went wrong on the way.
        parquet.write_table(
            table, file, compression="none", use_dictionary=False, write_page_checksum=True
        )


def require_pyarrow() -> Any:
    """The package behind the format, or the error that says how to install it."""
    return require("pyarrow.parquet", extra="parquet", purpose=".parquet")


def _contents(path: Path, file: Any) -> RawData:
    description = _description(file.schema_arrow.metadata, path)
    names = description.get("class_names")
    layout = layout_of(file.schema_arrow.names, None if names is None else tuple(names))
    n_rows = file.metadata.num_rows
    wanted = [name for names in layout.blocks.values() for name in names]
    size = n_rows * (len(wanted) + len(layout.single)) * 8
    require_plausible_size(path, size, path.stat().st_size)
    arrays: dict[str, Array] = {
        array: np.empty((n_rows, len(names)), _common_type(file.schema_arrow, names))
        for array, names in layout.blocks.items()
    }
    start = 0
    for batch in file.iter_batches(batch_size=_ROWS_AT_A_TIME, columns=wanted):
        rows = slice(start, start + batch.num_rows)
        for array, columns in layout.blocks.items():
            for k, column in enumerate(columns):
                arrays[array][rows, k] = _values(batch.column(column), column, start)
        start = rows.stop
    if start != n_rows and wanted:
        raise FileFormatError(f"{path} says it has {n_rows} rows, but holds {start}.")
    for array, column in layout.single.items():
        values = file.read(columns=[column]).column(0)
        if array == "labels" and values.null_count == n_rows:
            continue  # a column for labels that nobody knows yet
        arrays[array] = _values(values.combine_chunks(), column, 0)
    return RawData(
        ".parquet", arrays, class_names=layout.class_names, feature_names=layout.feature_names,
        provenance=description.get("provenance", {}), ignored=layout.ignored,
    )  # fmt: skip


def _values(values: Any, column: str, start: int) -> Array:
    if values.null_count:
        row = start + int(np.argmax(values.is_null().to_numpy(zero_copy_only=False)))
        raise InputError(
            f"the column {column!r} has no value in row {row}; fill it, or drop the row."
        )
    if hasattr(values, "dictionary"):
        names = np.asarray(values.dictionary.to_numpy(zero_copy_only=False))
        return np.asarray(names[values.indices.to_numpy(zero_copy_only=False)])
    return np.asarray(values.to_numpy(zero_copy_only=False))


def _common_type(schema: Any, columns: tuple[str, ...]) -> "np.dtype[Any]":
    kinds = []
    for column in columns:
        try:
            kinds.append(np.dtype(schema.field(column).type.to_pandas_dtype()))
        except (NotImplementedError, TypeError) as error:
            raise InputError(f"the column {column!r} does not hold numbers.") from error
        if kinds[-1].kind not in "fiu":
            raise InputError(
                f"the column {column!r} must hold numbers, not {schema.field(column).type}."
            )
    kind = np.result_type(*kinds)
    return kind if kind.kind == "f" else np.dtype(np.float64)


def _description(metadata: Mapping[bytes, bytes] | None, path: Path) -> dict[str, Any]:
    try:
        described = dict(json.loads((metadata or {}).get(_KEY, b"{}")))
        names = described.get("class_names")
        if names is not None and not all(isinstance(name, str) for name in names):
            raise ValueError("class_names are no strings")
    except (ValueError, TypeError) as error:
        raise FileFormatError(f"{path} has a damaged description ({error}).") from error
    return described
