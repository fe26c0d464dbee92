"""Writer of tables of predictions."""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

import pandas as pd

from domaincal._typing import Array
from domaincal.data.column_layout import PREFIXES, SINGLE
from domaincal.errors import InputError
from domaincal.io.columns import require_names_that_csv_can_hold
from domaincal.io.csv_writer import save_csv_parts
from domaincal.io.formats import suffix_of
from domaincal.io.npz import save_npz, text_array
from domaincal.io.parquet import require_pyarrow, save_parquet_parts
from domaincal.io.standard_input import STDIN

_FORMATS = (".parquet", ".csv", ".csv.gz", ".npz")
_PREFIX = PREFIXES["probabilities"]
# Columns that hold the names of classes.
_CLASSES = ("label", "predicted")


def write_table(table: pd.DataFrame, path: str | os.PathLike[str]) -> None:
    """Write a table of predictions; :func:`read` reads the file as rows.

    Parameters
    ----------
    table : DataFrame
        From :func:`prediction_table`.
    path : path
        ``.parquet``, ``.csv``, ``.csv.gz`` or ``.npz``. An earlier file of that name is
        replaced. In ``.npz``, classes are indices of ``class_names``, and a column ``x`` of other
        texts holds indices of the array ``x_names``.

    Examples
    --------
    >>> import tempfile, domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=2, random_state=0)
    >>> table = dc.prediction_table(dc.MaxSoftmax().fit(data), data)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     dc.write_table(table, folder + "/probabilities.csv")
    ...     dc.read(folder + "/probabilities.csv")
    CalibrationData(1000 rows, 10 classes, 2 domains)
    """
    path = Path(path)
    require_table_format(path)
    if not isinstance(table, pd.DataFrame):
        raise InputError(
            f"table must be a DataFrame, got {type(table).__name__}; make it with "
            "domaincal.prediction_table(fitted, data)."
        )
    if suffix_of(path) == ".npz":
        save_npz(path, _arrays(table, _columns(table), _class_names(table)))
    else:
        write_table_parts([table], path, len(table))


def write_table_parts(parts: Iterable[pd.DataFrame], path: Path, n_rows: int) -> None:
    """:func:`write_table` for a table of ``n_rows`` rows that comes in parts, but not ``.npz``."""
    parts = iter(parts)
    first = next(parts)
    class_names = _class_names(first)
    if suffix_of(path) == ".parquet":
        save_parquet_parts(path, chain([first], parts), n_rows, {"class_names": class_names})
        return
    require_names_that_csv_can_hold(class_names, "class_names")
    save_csv_parts(path, chain([first], parts))


def _columns(table: pd.DataFrame) -> list[str]:
    """Columns of probabilities."""
    return [str(name) for name in table if str(name).startswith(_PREFIX)]


def _class_names(table: pd.DataFrame) -> tuple[str, ...] | None:
    """Names of the classes, or None if the columns are numbered."""
    names = tuple(name.removeprefix(_PREFIX) for name in _columns(table))
    return None if names == tuple(map(str, range(len(names)))) else names


def _arrays(
    table: pd.DataFrame, columns: list[str], class_names: tuple[str, ...] | None
) -> dict[str, Array]:
    """The table as named arrays: ``columns`` become one array of probabilities."""
    arrays: dict[str, Array] = {"probabilities": table[columns].to_numpy()}
    plural = {column: array for array, column in SINGLE.items()}
    for name in table.columns.difference(columns, sort=False):
        values = table[name].to_numpy()
        array = plural.get(name, name)
        if {array, f"{name}_names"} & arrays.keys() or "/" in array or "\\" in array:
            raise InputError(
                f"the column {name!r} cannot be an array of an .npz file beside the others; rename "
                "it, or write .parquet or .csv instead."
            )
        if values.dtype.kind in "fiub":
            arrays[array] = values
        elif name in _CLASSES:
            arrays[array] = _class_indices(values, class_names or (), name)
        else:  # an array of strings would pad the text of every row to the longest
            codes, names = pd.factorize(values.astype(object), use_na_sentinel=False)
            arrays[array] = codes
            arrays[f"{name}_names"] = text_array([str(text) for text in names], f"{name}_names")
    if class_names is not None:
        arrays["class_names"] = text_array(class_names, "class_names")
    return arrays


def _class_indices(values: Array, class_names: tuple[str, ...], column: str) -> Array:
    """Index of each row's class in the names of the classes."""
    indices = pd.Index(class_names, dtype=object).get_indexer(pd.Index(values, dtype=object))
    unknown = indices < 0
    if unknown.any():
        raise InputError(
            f"the column {column!r} contains {values[unknown][0]!r}, but there is no column "
            f"'{_PREFIX}{values[unknown][0]}'; rename one of them."
        )
    return indices


def require_table_format(path: Path) -> None:
    """Refuse a path whose suffix is not a format for tables, or whose package is missing."""
    if path == STDIN:
        raise InputError("predictions cannot be written to standard output; give a file.")
    if suffix_of(path) not in _FORMATS:
        raise InputError(
            f"{path} has the suffix {path.suffix!r}; predictions are written to "
            f"{', '.join(_FORMATS)}; choose one of these."
        )
    if path.suffix.lower() == ".parquet":
        require_pyarrow()
