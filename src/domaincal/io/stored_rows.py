"""Arrays of a store that are read in blocks of rows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from domaincal._files import open_file
from domaincal._row_arrays import CodedRows, RowArray
from domaincal._typing import Array, IntArray
from domaincal.data import BlockedRows
from domaincal.errors import FileFormatError
from domaincal.io.npy import read_into
from domaincal.io.raw_data import CODED
from domaincal.io.store_snapshot import StoreSnapshot


@dataclass(frozen=True)
class ShardFile:
    """A ``.npy`` file of a shard, as it was when the store was opened.

    Attributes
    ----------
    path : Path
    n_rows : int
    state : (int, int)
        Size in bytes, and time of the last change in nanoseconds.
    """

    path: Path
    n_rows: int
    state: tuple[int, int]

    @classmethod
    def of(cls, path: Path, n_rows: int) -> ShardFile:
        """The file as it is now."""
        return cls(path, n_rows, _state(os.stat(path)))

    def read_into(self, out: Array, start: int) -> None:
        """Fill ``out`` with the rows from ``start`` on."""
        try:
            file = open_file(self.path)
        except OSError as error:
            raise FileFormatError(
                f"{self.path} was removed or replaced while it was read; run it again."
            ) from error
        with file:
            if _state(os.fstat(file.fileno())) != self.state:
                raise FileFormatError(
                    f"{self.path} was changed while it was read; run it again when no process "
                    "writes to the store."
                )
            row_bytes = out.nbytes // len(out)
            file.seek(self.state[0] - (self.n_rows - start) * row_bytes)
            read_into(file, out, str(self.path))


class StoredRows(RowArray):
    """An array of a store; a read opens the files it needs, so that threads do not share them.

    Parameters
    ----------
    shape : tuple of int
    dtype : numpy dtype
        Of the files. Rows are returned in the byte order of this machine, and wider numbers than
        float64 as float64.
    files : sequence of ShardFile
    codes : sequence of arrays, optional
        For each file, the number of the name for each code in it.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: Any,
        files: Sequence[ShardFile],
        codes: Sequence[IntArray] | None = None,
    ) -> None:
        self._stored = np.dtype(dtype)
        wide = self._stored.itemsize > 8
        native = np.dtype(np.float64) if wide else self._stored.newbyteorder("=")
        super().__init__(shape, np.int64 if codes is not None else native)
        self._files = list(files)
        self._codes = codes
        self._starts = np.cumsum([0, *(file.n_rows for file in self._files)])

    def read(self, start: int, stop: int) -> Array:
        """Rows from ``start`` to ``stop``."""
        out = np.empty((stop - start, *self.shape[1:]), self._stored)
        first = int(np.searchsorted(self._starts, start, side="right")) - 1
        parts = []
        for number in range(first, len(self._files)):
            begin, end = self._starts[number], self._starts[number + 1]
            if begin >= stop:
                break
            low, high = max(start, begin), min(stop, end)
            if low < high:
                rows = out[low - start : high - start]
                self._files[number].read_into(rows, int(low - begin))
                parts.append((number, rows))
        if self._codes is None:
            return out.astype(self.dtype, copy=False)
        return np.concatenate([np.empty(0, np.int64), *(self._numbered(*part) for part in parts)])

    def _numbered(self, number: int, codes: Array) -> IntArray:
        """Numbers of the names of the codes in a file."""
        assert self._codes is not None
        known = self._codes[number]
        if not 0 <= codes.min() <= codes.max() < len(known):
            raise FileFormatError(
                f"{self._files[number].path} has codes that have no name; restore it."
            )
        return known[codes]


def open_rows(snapshot: StoreSnapshot) -> BlockedRows:
    """Rows of a store, of which nothing but the headers of the files is read."""
    snapshot.check()
    meta = snapshot.meta
    arrays: dict[str, Any] = {}
    for name, columns in meta.columns.items():
        files = [
            ShardFile.of(snapshot.path / shard.name / f"{name}.npy", shard.n_rows)
            for shard in snapshot.shards
        ]
        shape = (meta.n_rows,) if columns is None else (meta.n_rows, columns)
        if name in CODED:
            names, codes = _merged([shard.names[name] for shard in snapshot.shards])
            arrays[name] = CodedRows(StoredRows(shape, meta.dtypes[name], files, codes), names)
        else:
            arrays[name] = StoredRows(shape, meta.dtypes[name], files)
    return BlockedRows(
        **arrays,
        class_names=None if meta.class_names is None else tuple(meta.class_names),
        feature_names=None if meta.feature_names is None else tuple(meta.feature_names),
        provenance=dict(meta.provenance),
    )


def _merged(listed: Sequence[Sequence[Any]]) -> tuple[Array, list[IntArray]]:
    """Sorted names of all shards, and for each shard the number of each of its names.

    Shards of versions 1 and 2 share one list.
    """
    names = sorted({name for one in {id(one): one for one in listed}.values() for name in one})
    number = {name: k for k, name in enumerate(names)}
    found: dict[int, IntArray] = {}
    for one in listed:
        if id(one) not in found:
            found[id(one)] = np.array([number[name] for name in one], np.int64)
    is_integer = all(isinstance(name, int) for name in names)
    return (
        np.array(names, np.int64 if is_integer else object),
        [found[id(one)] for one in listed],
    )


def _state(stat: os.stat_result) -> tuple[int, int]:
    return stat.st_size, stat.st_mtime_ns
