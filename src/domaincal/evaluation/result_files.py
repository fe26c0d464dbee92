"""Writer of results tables."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pandas as pd

from domaincal._files import atomic_file
from domaincal.errors import InputError
from domaincal.io.csv_writer import save_csv
from domaincal.io.parquet import require_pyarrow, save_parquet

_FORMATS = (".csv", ".parquet", ".json")


def write_results(table: pd.DataFrame, path: Path) -> None:
    """Write a results table, one row for each method and domain, atomically.

    A ``.json`` file holds a list with one object for each row; NaN and infinity are null.
    """
    suffix = path.suffix.lower()
    if suffix == ".csv":
        save_csv(path, table)
    elif suffix == ".parquet":
        save_parquet(path, table, {})
    else:
        rows = [
            {key: _plain(value) for key, value in row.items()} for row in table.to_dict("records")
        ]
        with atomic_file(path) as file:
            file.write((json.dumps(rows, indent=1, allow_nan=False) + "\n").encode())


def require_results_format(path: Path) -> None:
    """Refuse a path whose suffix is not a format for results, or whose package is missing."""
    if path.suffix.lower() not in _FORMATS:
        raise InputError(
            f"{path} has the suffix {path.suffix!r}; results are written to "
            f"{', '.join(_FORMATS)}; choose one of these."
        )
    if path.suffix.lower() == ".parquet":
        require_pyarrow()


def _plain(value: Any) -> Any:
    """Value that JSON can hold."""
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value
