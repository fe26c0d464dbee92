"""Arrays of a store that are read in blocks of rows."""

from __future__ import annotations

import io
import os
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from domaincal._files import open_file
from domaincal._row_arrays import CodedRows, RowArray
from domaincal._typing import Array, IntArray
from domaincal.data import BlockedRows
from domaincal.errors import FileFormatError
from domaincal.io.npy import read_at
from domaincal.io.raw_data import CODED
from domaincal.io.store_snapshot import StoreSnapshot
from domaincal.io.thread_values import ThreadValues


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

    def open(self) -> BinaryIO:
        """Open the file; an error if it was removed."""
        try:
            # Without its buffer, which would copy small reads once more.
            return cast(BinaryIO, open_file(self.path).detach())
        except OSError as error:
            raise FileFormatError(
                f"{self.path} was removed or replaced while it was read; run it again."
            ) from error

    def read_into(self, file: BinaryIO, out: Array, start: int) -> None:
        """Fill ``out`` with the rows from ``start`` on, of the file that :meth:`open` returned."""
        if _state(os.fstat(file.fileno())) != self.state:
            raise FileFormatError(
                f"{self.path} was changed while it was read; run it again when no process "
                "writes to the store."
            )
        row_bytes = out.nbytes // len(out)
        offset = self.state[0] - (self.n_rows - start) * row_bytes
        read_at(file, out, offset, str(self.path))


class _OpenFile:
    """The file that a thread read last; it is closed when the thread ends or reads another."""

    def __init__(self, number: int, file: BinaryIO) -> None:
        self.number = number
        # Of its handle: in a cycle of objects, a file could end before this object, and would warn
        # that nobody closed it.
        self._handle = os.dup(file.fileno())
        file.close()
        self.file = cast(BinaryIO, io.FileIO(self._handle, closefd=False))

    def __del__(self) -> None:
        os.close(self._handle)


class StoredRows(RowArray):
    """An array of a store. Each thread has its own open file, so that threads do not share one.

    Parameters
    ----------
    shape : tuple of int
    dtype : numpy dtype
        Of the files. Rows are returned in the byte order of this machine, and wider numbers than
        float64 as float64.
    files : sequence of ShardFile
    codes : sequence of arrays, optional
        For each file, the number of the name (or the class) for each code in it.
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
        super().__init__(shape, native if codes is None else codes[0].dtype)
        self._files = list(files)
        self._codes = codes
        self._starts = [0, *accumulate(file.n_rows for file in self._files)]
        self._thread = ThreadValues()

    def read(self, start: int, stop: int) -> Array:
        """Rows from ``start`` to ``stop``."""
        out = np.empty((stop - start, *self.shape[1:]), self._stored)
        numbered = None if self._codes is None else np.empty(len(out), self.dtype)
        number, low = bisect_right(self._starts, start) - 1, start
        while low < stop:
            high = min(stop, self._starts[number + 1])
            part = slice(low - start, high - start)
            if low < high:
                self._read_file(number, out[part], low - self._starts[number])
                if numbered is not None:
                    numbered[part] = self._numbered(number, out[part])
            number, low = number + 1, high
        return out.astype(self.dtype, copy=False) if numbered is None else numbered

    def _read_file(self, number: int, out: Array, start: int) -> None:
        opened, file = getattr(self._thread, "opened", None), self._files[number]
        if opened is None or opened.number != number:
            opened = self._thread.opened = _OpenFile(number, file.open())
        file.read_into(opened.file, out, start)

    def _numbered(self, number: int, codes: Array) -> Array:
        """Numbers of the names of the codes in a file."""
        assert self._codes is not None
        known = self._codes[number]
        if not 0 <= codes.min() <= codes.max() < len(known):
            raise FileFormatError(
                f"{self._files[number].path} has codes that have no name; restore it."
            )
        return known[codes]


def open_snapshot(snapshot: StoreSnapshot) -> BlockedRows:
    """Rows of a store, of which nothing but the headers of the files is read."""
    snapshot.check()
    meta = snapshot.meta
    folder = Path(os.path.abspath(snapshot.path))  # the workers of a cluster have another one
    arrays: dict[str, Any] = {}
    for name, columns in meta.columns.items():
        files = [
            ShardFile.of(folder / shard.name / f"{name}.npy", shard.n_rows)
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
