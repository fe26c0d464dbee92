"""Tables of numbers with a label column and a domain column."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from domaincal._memory import MemoryLimit
from domaincal._typing import Array, FloatArray, IntArray
from domaincal._validation import check_names
from domaincal._wording import few
from domaincal.errors import InputError
from domaincal.io.csv_columns import Wanted, read_csv_columns
from domaincal.io.parquet_table import open_parquet

#: Maps the columns of a file to those of the features.
ChooseFeatures = Callable[[list[str]], list[str]]

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


@dataclass(frozen=True)
class _Columns:
    """Columns of a file before validation: names and numbers of the features, labels, domains."""

    names: list[str]
    numbers: FloatArray
    labels: Array
    domains: Array


def read_domain_table(
    path: str | os.PathLike[str],
    *,
    label: str,
    domain: str,
    features: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    max_memory: float | str | None = None,
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
    max_memory : int or str, optional
        Most memory that reading may take: a number of bytes, or a text such as ``"4 GB"``. By
        default 256 MiB, or 100 times the size of the file if that is more.

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
    if not path.exists() or path.is_dir():
        raise InputError(f"path={str(path)!r} is not a file; pass a .csv or .parquet file.")
    limit = MemoryLimit.of(path, max_memory)

    def choose(columns: list[str]) -> list[str]:
        return _feature_columns(path, columns, label, domain, features, exclude)

    read = _read_parquet if path.suffix.lower() == ".parquet" else _read_csv
    try:
        columns = read(path, limit, choose, label, domain)
    except InputError as error:
        if str(path) in str(error):
            raise
        raise InputError(f"{path}: {error}") from error
    labels, classes = _names(columns.labels, label, path)
    domains, domain_names = _names(columns.domains, domain, path)
    check_names(columns.names, f"the header of {path}")
    return DomainTable(
        features=_finite(columns, path),
        labels=labels,
        class_names=tuple(classes),
        domains=domain_names[domains],
        feature_names=tuple(columns.names),
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
    times = Counter(columns)
    for name in (label, domain, *given, *exclude):
        if name not in times:
            raise InputError(f"{path} has no column {name!r}; it has {few(columns)}.")
    chosen = given or [name for name in columns if name not in {label, domain, *exclude}]
    if not chosen:
        raise InputError(f"{path} has no columns besides {label!r} and {domain!r}; add features.")
    twice = [name for name in (label, domain, *chosen) if times[name] > 1]
    if twice:
        raise InputError(f"{path} has the column {twice[0]!r} twice; rename one of them.")
    leaking = sorted({label, domain} & set(chosen))
    if leaking:
        raise InputError(
            f"features contains {leaking[0]!r}, which is the label or the domain; leave it out."
        )
    return chosen


def _read_csv(
    path: Path, limit: MemoryLimit, choose: ChooseFeatures, label: str, domain: str
) -> _Columns:
    """Columns of a csv file."""
    chosen: list[str] = []

    def wanted(header: list[str]) -> Wanted:
        chosen.extend(choose(header))
        return Wanted(chosen, list(dict.fromkeys((label, domain))))

    _, numbers, texts = read_csv_columns(path, wanted, cure=_NOT_NUMERIC_CURE, limit=limit)
    return _Columns(
        chosen, numbers.to_numpy(np.float64), texts[label].to_numpy(), texts[domain].to_numpy()
    )


def _read_parquet(
    path: Path, limit: MemoryLimit, choose: ChooseFeatures, label: str, domain: str
) -> _Columns:
    """Columns of a parquet file; those of a pandas index are left out."""
    with open_parquet(path, limit) as table:
        index = json.loads(table.metadata.get(b"pandas", b"{}")).get("index_columns", ())
        stored = {name for name in index if isinstance(name, str)}
        chosen = choose([name for name in table.names if name not in stored])
        table.require_memory(chosen, (label, domain), cure=_NOT_NUMERIC_CURE)
        numbers = table.numbers({"features": chosen})["features"].astype(np.float64, copy=False)
        labels, domains = (table.values(name) for name in (label, domain))
        missing = np.full(table.n_rows, None)
        return _Columns(
            chosen,
            numbers,
            missing if labels is None else labels,
            missing if domains is None else domains,
        )


def _names(values: Array, column: str, path: Path) -> tuple[IntArray, Array]:
    """Codes and sorted names of a column, as text; an InputError for an empty value."""
    codes, found = pd.factorize(values)
    texts = pd.Series(found).astype(str).tolist()
    missing = texts.index("") if "" in texts else -1
    empty = (codes == missing) | (codes < 0)
    if empty.any():
        raise InputError(
            f"the column {column!r} of {path} is empty in row {int(np.argmax(empty))}; fill the "
            "value in, or drop the row."
        )
    check_names(texts, f"the column {column!r} of {path}")
    # Sorted as text: 10 comes before 3.
    order, names = pd.factorize(np.array(texts, object), sort=True)
    return np.asarray(order[codes], np.int64), np.asarray(names)


def _finite(columns: _Columns, path: Path) -> FloatArray:
    """Numbers of the features; an InputError for a NaN, infinite or empty value."""
    bad = ~np.isfinite(columns.numbers)
    if bad.any():
        row, column = map(int, np.argwhere(bad)[0])
        raise InputError(
            f"the column {columns.names[column]!r} of {path} has no finite number in row {row} "
            f"({int(bad.any(axis=1).sum())} such rows); fill the values in, or drop the rows."
        )
    return columns.numbers
