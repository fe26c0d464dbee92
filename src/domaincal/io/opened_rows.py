"""``open_rows``: the rows of any file in blocks, for files that fit no memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from domaincal._files import DAMAGED, decoding
from domaincal._memory import MemoryLimit, file_size
from domaincal.data import BlockedRows
from domaincal.data.column_choice import ColumnChoice
from domaincal.errors import FileFormatError, InputError
from domaincal.io.addresses import address_of, local_path, shown
from domaincal.io.csv_chunks import csv_chunks
from domaincal.io.formats import is_store, read_rows, require_readable, suffix_of
from domaincal.io.kept_columns import Keep
from domaincal.io.memory_rows import rows_in_memory
from domaincal.io.parquet_chunks import parquet_chunks
from domaincal.io.raw_data import ARRAYS, RawData, sources_of
from domaincal.io.row_chunks import RowChunks, renamed_chunks
from domaincal.io.spooled_rows import spooled_rows
from domaincal.io.standard_input import STDIN
from domaincal.io.store import Store
from domaincal.io.zarr import open_zarr

#: Verbs read files of this many bytes in blocks, and smaller ones into memory.
STREAMED_FROM = 1 << 28
_CHUNKED = (".csv", ".csv.gz", ".parquet")


@dataclass(frozen=True)
class OpenedRows:
    """Rows of a file that are read in blocks.

    Attributes
    ----------
    rows : BlockedRows
    format : str
        Format of the file, such as ``".csv"`` or ``"store"``.
    sources : mapping from arrays to tuples of str
        Columns of a table, or the array of a file, that hold each array. The scores are
        ``logits`` or ``probabilities``; in ``rows`` they are logits.
    ignored : tuple of str
        Names of the other arrays or columns of the file.
    kept : callable, optional
        Takes a number of rows; returns an iterator over the columns that predictions repeat, so
        many rows at a time.
    """

    rows: BlockedRows
    format: str
    sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    kept: Callable[[int], Iterator[pd.DataFrame]] | None = None


@contextmanager
def open_rows(
    path: str | os.PathLike[str],
    choice: ColumnChoice | None = None,
    *,
    max_memory: float | str | None = None,
    verify: bool = False,
    folder: str | os.PathLike[str] | None = None,
    keep: Keep = "none",
    check_finite: bool = True,
    **columns: Any,
) -> Iterator[OpenedRows]:
    """Open a file whose rows are then read in blocks, by any number of passes over them.

    The values are those of :func:`read`. Calibrators, :func:`evaluate` and :func:`score_table` take
    the ``rows`` of what is opened, in place of data in memory.

    Parameters
    ----------
    path : path
        A file that :func:`read` reads. Stores are read where they are. A ``.csv``, ``.csv.gz`` or
        ``.parquet`` file is parsed once, to a temporary copy on the disk. Other files are read
        into memory.
    choice : ColumnChoice, optional
        The columns below in one object.
    max_memory : int or str, optional
        See :func:`read`. It limits what is in memory at a time.
    verify : bool, default False
        Compare checksums first, as :func:`read` does.
    folder : path, optional
        Folder for the temporary copy, which is removed at the end; by default that of the system.
    keep : {"none", "id", "all"}, default "none"
        Columns of a table that its predictions repeat.
    check_finite : bool, default True
        Whether NaN and infinity in a file that is copied or read are errors. Those of a store are
        errors of the first pass that meets them.
    **columns
        Columns or arrays to read, by the keywords of :func:`read`: ``logits``, ``probabilities``,
        ``features``, ``label``, ``domain``, ``group``, ``id``, ``class_names`` and ``floor``.

    Returns
    -------
    context manager
        It gives :class:`OpenedRows`. The rows are valid inside the ``with`` block.

    Examples
    --------
    >>> import tempfile, domaincal as dc
    >>> from domaincal.io import open_rows
    >>> data, _ = dc.make_multi_domain(n_domains=3, n_rows=100, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     dc.write(data, folder + "/scores")
    ...     with open_rows(folder + "/scores") as opened:
    ...         fitted = dc.MultiDomainTemperatureScaling().fit(opened.rows)
    >>> len(fitted.domain_temperatures_)
    3
    """
    path = local_path(path)
    choice = ColumnChoice(**columns) if choice is None else replace(choice, **columns)
    require_readable(path)
    opened: OpenedRows | RowChunks
    if path != STDIN and is_store(path):
        opened = _opened_store(path, choice, verify=verify)
        if isinstance(opened, OpenedRows):
            yield opened
            return
    elif suffix_of(path) == ".zarr":
        opened = _opened_zarr(path, choice, max_memory)
        if isinstance(opened, OpenedRows):
            yield opened
            return
    elif path != STDIN and suffix_of(path) in _CHUNKED and not path.is_dir():
        opened = _table_chunks(path, choice, max_memory, keep, verify=verify)
    else:
        raw, data = read_rows(
            path, choice, verify=verify, check_finite=check_finite, max_memory=max_memory, keep=keep
        )
        parts = None
        if raw.kept is not None and raw.kept.shape[1]:
            parts = partial(_parts, raw.kept)
        yield OpenedRows(rows_in_memory(data), raw.format, raw.sources, raw.ignored, parts)
        return
    with spooled_rows(opened, floor=choice.floor, folder=folder, check_finite=check_finite) as rows:
        raw = opened.raw
        kept = None if keep == "none" else opened.kept
        yield OpenedRows(rows, raw.format, raw.sources, raw.ignored, kept)


def is_streamed(path: str | os.PathLike[str]) -> bool:
    """Whether verbs read a file in blocks: a large store or table.

    Examples
    --------
    >>> import tempfile, domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=3, n_rows=100, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     dc.write(data, folder + "/scores.csv")
    ...     is_streamed(folder + "/scores.csv")
    False
    """
    path = local_path(path)
    if address_of(path) is not None:
        return True
    if path == STDIN or not path.exists():
        return False
    streams = is_store(path) or suffix_of(path) in (".zarr", *_CHUNKED)
    return streams and file_size(path) >= STREAMED_FROM


def _table_chunks(
    path: Path,
    choice: ColumnChoice,
    max_memory: float | str | None,
    keep: Keep,
    *,
    verify: bool,
) -> RowChunks:
    """Chunks of a table."""
    limit = MemoryLimit.of(path, max_memory)
    try:
        with decoding(path, DAMAGED):
            if suffix_of(path) == ".parquet":
                return parquet_chunks(path, limit, choice, keep, verify=verify)
            return csv_chunks(path, limit, choice, keep)
    except InputError as error:
        raise FileFormatError(f"{path}: {error}") from error


def _parts(frame: pd.DataFrame, n_rows: int) -> Iterator[pd.DataFrame]:
    """Rows of a table, ``n_rows`` at a time."""
    for start in range(0, len(frame), n_rows):
        yield frame.iloc[start : start + n_rows].reset_index(drop=True)


def _opened_zarr(
    path: Path, choice: ColumnChoice, max_memory: float | str | None
) -> OpenedRows | RowChunks:
    """Rows of a group of Zarr; chunks if they must be decoded first."""
    is_local = address_of(path) is None
    limit = MemoryLimit.of(path, max_memory) if is_local or max_memory is not None else None
    try:
        rows, raw = open_zarr(path, limit, choice)
    except InputError as error:
        raise FileFormatError(f"{shown(path)}: {error}") from error
    if isinstance(rows, RowChunks):
        return rows
    return OpenedRows(rows, raw.format, raw.sources, raw.ignored)


def _opened_store(path: Path, choice: ColumnChoice, *, verify: bool) -> OpenedRows | RowChunks:
    """Rows of a store, which stay where they are; chunks if its arrays are read as others."""
    store = Store(path)
    if verify:
        store.verify()
    rows = store.rows()
    found = [name for name in ARRAYS if getattr(rows, name, None) is not None]
    try:
        names = choice.array_names(found)
        left = tuple(name for name in found if name not in names.values())
        if left or any(array != name for array, name in names.items()):
            raw = RawData(
                "store", {}, class_names=choice.of_classes() or rows.class_names,
                feature_names=rows.feature_names, provenance=rows.provenance, ignored=left,
                sources=sources_of(names), has_indices=True,
            )  # fmt: skip
            arrays = {name: getattr(rows, name) for name in names.values()}
            return renamed_chunks(path, arrays, names, raw)
        if choice.of_classes() is not None:
            rows = replace(rows, class_names=choice.of_classes())
    except InputError as error:
        raise FileFormatError(f"{path}: {error}") from error
    return OpenedRows(rows, "store", sources_of(names))
