"""Tables of numbers with a label column and a domain column."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from domaincal._files import decoding
from domaincal._optional import require
from domaincal._typing import Array, FloatArray, IntArray
from domaincal._wording import few
from domaincal.errors import InputError
from domaincal.io.csv import ChooseTypes, read_frame

_NOT_NUMERIC_CURE = "name it in exclude=[...], or encode it as numbers"


@dataclass(frozen=True)
class DomainTable:
    """Rows of a table, for training a model; returned by :func:`read_domain_table`.

    Attributes
    ----------
    features : array of float, shape (n, n_features)
    labels : array of class indices, shape (n,)
    class_names : tuple of str
        Sorted.
    domains : array of str, shape (n,)
    feature_names : tuple of str

    Examples
    --------
    >>> import numpy as np
    >>> DomainTable(np.eye(2), np.array([0, 1]), ("a", "b"), np.array(["x", "y"]), ("f", "g"))
    DomainTable(2 rows, 2 features, 2 classes, 2 domains)
    """

    features: FloatArray
    labels: IntArray
    class_names: tuple[str, ...]
    domains: Array
    feature_names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        return (
            f"DomainTable({len(self)} rows, {len(self.feature_names)} features, "
            f"{len(self.class_names)} classes, {len(np.unique(self.domains))} domains)"
        )


def read_domain_table(
    path: str | os.PathLike[str],
    *,
    label: str,
    domain: str,
    features: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
) -> DomainTable:
    r"""Read a table with a label column, a domain column and numeric feature columns.

    To read logits and features of a network, use :func:`domaincal.read`.

    Parameters
    ----------
    path : path
        A ``.csv`` file, which may be compressed (``.csv.gz``), or a ``.parquet`` file.
    label, domain : str
        Columns of the label and of the domain; their values are read as text.
    features : sequence of str, optional
        Numeric columns; by default all columns except the label, the domain and ``exclude``.
    exclude : sequence of str, default ()
        Columns that are not features, such as a row number.

    Returns
    -------
    DomainTable

    Examples
    --------
    >>> import tempfile, domaincal as dc
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "walks.csv"
    ...     _ = path.write_text("person,activity,x,y\n1600,walk,0.5,2\n1601,jog,0.25,3\n")
    ...     table = dc.datasets.read_domain_table(path, label="activity", domain="person")
    >>> table, table.class_names, table.domains.tolist()
    (DomainTable(2 rows, 2 features, 2 classes, 2 domains), ('jog', 'walk'), ['1600', '1601'])
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"path={str(path)!r} is not a file; pass a .csv or .parquet file.")
    chosen: list[str] = []

    def choose(columns: list[str]) -> dict[str, type]:
        chosen.extend(_feature_columns(path, columns, label, domain, features, exclude))
        return {**dict.fromkeys((label, domain), str), **dict.fromkeys(chosen, float)}

    frame = _read(path, choose)
    numbers = _numbers(frame, chosen, path)
    labels, classes = pd.factorize(_texts(frame, label, path), sort=True)
    return DomainTable(
        features=numbers,
        labels=np.asarray(labels, np.int64),
        class_names=tuple(map(str, classes)),
        domains=_texts(frame, domain, path),
        feature_names=tuple(map(str, chosen)),
    )


def _feature_columns(
    path: Path,
    columns: list[str],
    label: str,
    domain: str,
    features: Sequence[str] | None,
    exclude: Sequence[str],
) -> list[str]:
    """Feature columns: the given ones, or all columns that are left."""
    given = [] if features is None else list(features)
    for name in (label, domain, *given, *exclude):
        if name not in columns:
            raise InputError(f"{path} has no column {name!r}; it has {few(columns)}.")
    chosen = given or [name for name in columns if name not in {label, domain, *exclude}]
    if not chosen:
        raise InputError(f"{path} has no columns besides {label!r} and {domain!r}; add features.")
    twice = [name for name in (label, domain, *chosen) if columns.count(name) > 1]
    if twice:
        raise InputError(f"{path} has the column {twice[0]!r} twice; rename one of them.")
    leaking = sorted({label, domain} & set(chosen))
    if leaking:
        raise InputError(
            f"features contains {leaking[0]!r}, which is the label or the domain; leave it out."
        )
    return chosen


def _read(path: Path, choose: ChooseTypes) -> pd.DataFrame:
    """Read the columns for which ``choose`` returns a type."""
    if path.suffix != ".parquet":
        return read_frame(path, choose, cure=_NOT_NUMERIC_CURE)[1]
    require("pyarrow.parquet", extra="parquet", purpose=".parquet")
    with decoding(path, "it must be a table in .csv (header, commas, UTF-8) or .parquet"):
        frame = pd.read_parquet(path)
    types = choose([str(name) for name in frame.columns])
    for name, wanted in types.items():
        column = frame[name]
        if wanted is float and (
            not pd.api.types.is_numeric_dtype(column) or column.dtype.kind == "c"
        ):
            value = column.dropna().iloc[:1].tolist()
            raise InputError(
                f"the column {name!r} contains {(value or [''])[0]!r}; it must hold numbers: "
                f"{_NOT_NUMERIC_CURE}."
            )
    return frame[list(types)]


def _texts(frame: pd.DataFrame, column: str, path: Path) -> Array:
    """Values of a column as text; raises an InputError for an empty value."""
    empty = (frame[column].isna() | (frame[column].astype(str) == "")).to_numpy()
    if empty.any():
        raise InputError(
            f"the column {column!r} of {path} is empty in row {int(np.argmax(empty))}; fill the "
            "value in, or drop the row."
        )
    return np.array(frame[column].astype(str).tolist())


def _numbers(frame: pd.DataFrame, columns: Sequence[str], path: Path) -> FloatArray:
    """Values of the columns; raises an InputError for a NaN, infinite or empty value."""
    numbers = frame[list(columns)].to_numpy(np.float64, na_value=np.nan)
    bad = ~np.isfinite(numbers)
    if bad.any():
        row, column = map(int, np.argwhere(bad)[0])
        raise InputError(
            f"the column {columns[column]!r} of {path} has no finite number in row {row} "
            f"({int(bad.any(axis=1).sum())} such rows); fill the values in, or drop the rows."
        )
    return numbers
