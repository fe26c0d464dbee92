"""Tables of predictions in files."""

import os
from pathlib import Path

import numpy as np
import pandas as pd

from domaincal._typing import Array
from domaincal.errors import InputError
from domaincal.io.columns import PREFIXES, SINGLE, require_names_that_csv_can_hold
from domaincal.io.csv import save_csv
from domaincal.io.npz import save_npz
from domaincal.io.parquet import require_pyarrow, save_parquet

_FORMATS = (".parquet", ".csv", ".npz")
_PREFIX = PREFIXES["probabilities"]


def write_table(table: pd.DataFrame, path: str | os.PathLike[str]) -> None:
    """Write a table of predictions, so that :func:`read` can read it as rows.

    Examples
    --------
    >>> import tempfile, domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=2, random_state=0)
    >>> table = dc.prediction_table(dc.MaxSoftmax().fit(data.logits, data.labels), data)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     dc.write_table(table, folder + "/probabilities.csv")
    ...     dc.read(folder + "/probabilities.csv")
    CalibrationData(1000 rows, 10 classes, 2 domains)
    """
    path = Path(path)
    require_table_format(path)
    if not isinstance(table, pd.DataFrame):
        raise InputError(f"table must be a DataFrame, got {type(table).__name__}.")
    suffix = path.suffix.lower()
    columns = [str(name) for name in table if str(name).startswith(_PREFIX)]
    names = tuple(name.removeprefix(_PREFIX) for name in columns)
    numbered = names == tuple(map(str, range(len(names))))
    if suffix == ".csv":
        require_names_that_csv_can_hold(names)
        save_csv(path, table)
    elif suffix == ".parquet":
        save_parquet(path, table, {"class_names": None if numbered else names})
    else:
        arrays: dict[str, Array] = {"probabilities": table[columns].to_numpy()}
        plural = {column: array for array, column in SINGLE.items()}
        for name in table.columns.difference(columns, sort=False):
            values = table[name].to_numpy()
            text = values.dtype.kind not in "fiub"
            arrays[plural.get(name, name)] = values.astype(str) if text else values
        if not numbered:
            arrays["class_names"] = np.array(names)
        save_npz(path, arrays)


def require_table_format(path: Path) -> None:
    """Refuse a format that is not written, before any work is done for it."""
    if path.suffix.lower() not in _FORMATS:
        raise InputError(
            f"{path} has the suffix {path.suffix!r}; predictions are written to "
            f"{', '.join(_FORMATS)}."
        )
    if path.suffix.lower() == ".parquet":
        require_pyarrow()
