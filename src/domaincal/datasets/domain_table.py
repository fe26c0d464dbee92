"""Any table whose rows have a label and a domain."""

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

_CURE = "name it in exclude=[...], or encode it first"


@dataclass(frozen=True)
class DomainTable:
    """What :func:`read_domain_table` read: rows to train a model of tables on.

    Attributes
    ----------
    features : array of float, shape (n, n_features)
    labels : array of class indices, shape (n,)
    class_names, feature_names : tuple of str
    domains : array of str, shape (n,)
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
    r"""Read a table of numbers with a column for the label and one for the domain.

    For logits and embeddings that a network has made, see :func:`domaincal.read`.

    Parameters
    ----------
    path : path
        ``.csv``, also compressed (``.csv.gz``), or ``.parquet``.
    label, domain : str
        Names of columns, whatever they hold.
    features : sequence of str, optional
        Columns of numbers; by default all but the label, the domain and `exclude`.
    exclude : sequence of str
        Columns that are no features, such as the number of a row.

    Returns
    -------
    DomainTable
        Classes are sorted by name.

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
        raise InputError(f"path={str(path)!r} is no file; give a .csv or .parquet table.")
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
    """Columns of the features: those that are named, or all others."""
    given = [] if features is None else list(features)
    for name in (label, domain, *given, *exclude):
        if name not in columns:
            raise InputError(f"{path} has no column {name!r}; it has {few(columns)}.")
    chosen = given or [name for name in columns if name not in {label, domain, *exclude}]
    if not chosen:
        raise InputError(f"{path} has no columns beside {label!r} and {domain!r}; add features.")
    leaking = sorted({label, domain} & set(chosen))
    if leaking:
        raise InputError(f"features names {leaking[0]!r}, which is the label or the domain.")
    return chosen


def _read(path: Path, choose: ChooseTypes) -> pd.DataFrame:
    """The chosen columns of a table."""
    if path.suffix != ".parquet":
        return read_frame(path, choose, cure=_CURE)[1]
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
                f"{_CURE}."
            )
    return frame[list(types)]


def _texts(frame: pd.DataFrame, column: str, path: Path) -> Array:
    """Names, as they are written."""
    empty = (frame[column].isna() | (frame[column].astype(str) == "")).to_numpy()
    if empty.any():
        raise InputError(
            f"the column {column!r} of {path} is empty in row {int(np.argmax(empty))}; fill it, or "
            "drop the row."
        )
    return np.array(frame[column].astype(str).tolist())


def _numbers(frame: pd.DataFrame, columns: Sequence[str], path: Path) -> FloatArray:
    numbers = frame[list(columns)].to_numpy(np.float64, na_value=np.nan)
    bad = ~np.isfinite(numbers)
    if bad.any():
        row, column = map(int, np.argwhere(bad)[0])
        raise InputError(
            f"the column {columns[column]!r} of {path} has no finite number in row {row} "
            f"({int(bad.any(axis=1).sum())} such rows); fill or drop them."
        )
    return numbers
