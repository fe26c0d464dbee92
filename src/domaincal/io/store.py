"""The store: a folder of shards for large data sets; appends are atomic."""

from __future__ import annotations

import hashlib
import os
import shutil
from contextlib import AbstractContextManager
from dataclasses import replace
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np

from domaincal._files import DAMAGED, atomic_file, atomic_folder, decoding, file_lock
from domaincal._typing import Array
from domaincal.data import CalibrationData
from domaincal.errors import FileFormatError, InputError
from domaincal.io.npy import read_into, read_npy_header, write_npy
from domaincal.io.raw_data import RawData, arrays_of, checked
from domaincal.io.store_meta import (
    CODED,
    SHARD_NAME,
    Shard,
    StoreMeta,
    describe,
    require_same,
    widened,
)

_META = "meta.json"
_LOCK = ".lock"


class Store:
    """A folder of ``meta.json`` and shards: ``part-00000/logits.npy`` and so on.

    Only shards that ``meta.json`` lists are read. A writer that is killed leaves the store as it
    was before. Writers in several processes wait for each other: they lock the file ``.lock`` in
    the folder.

    Parameters
    ----------
    path : path of the folder
        The first :meth:`append` creates it if it does not exist.

    Examples
    --------
    >>> import tempfile, domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=3, n_rows=100, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = dc.Store(folder + "/scores")
    ...     for start in range(len(store), 300, 100):  # resumes after an interruption
    ...         store.append(data.select(slice(start, start + 100)))
    ...     print(len(store), store.read())
    300 CalibrationData(300 rows, 10 classes, 16 features, 3 domains)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def __repr__(self) -> str:
        return f"Store({str(self.path)!r})"

    def __len__(self) -> int:
        """Number of rows; 0 if the store does not exist yet."""
        return sum(shard.n_rows for shard in self._meta().shards) if self.path.exists() else 0

    @property
    def provenance(self) -> dict[str, Any]:
        """Origin of the rows: the entries that all appended data have in common."""
        return dict(self._meta().provenance)

    def labels(self) -> Array | None:
        """Labels of all rows, or None; nothing else is read."""
        meta = self._meta()
        return self._array(meta, "labels") if "labels" in meta.columns else None

    def domains(self) -> Array | None:
        """Domains of all rows, or None; nothing else is read."""
        meta = self._meta()
        return self._names(meta, "domains", meta.domain_names)

    def groups(self) -> Array | None:
        """Groups of all rows, or None; nothing else is read."""
        meta = self._meta()
        return self._names(meta, "groups", meta.group_names)

    def append(self, data: CalibrationData, *, at: int | None = None) -> None:
        """Add rows as a new shard; their arrays, classes and features must match the store.

        Numbers are converted to the dtypes of the store if that is exact, else it is an error.
        Provenance keeps the entries that all rows have in common.

        Parameters
        ----------
        data : CalibrationData
        at : int, optional
            Number of rows that the store must have before; another number, such as after an append
            by another process, is an error.
        """
        arrays_of(data)
        data = data.numpy()
        if at or not self._create(data):
            with self._lock():
                meta = self._meta()
                found = sum(shard.n_rows for shard in meta.shards)
                if at not in (None, found):
                    raise InputError(
                        f"{self.path} has {found} rows instead of {at}: another process appends to "
                        "it; run one at a time."
                    )
                data = widened(data, meta)
                named, codes = describe(data, meta)
                require_same(meta, named, self.path)
                self._commit(replace(named, shards=meta.shards), data, codes, keep=True)

    def write(self, data: CalibrationData) -> None:
        """Replace all rows of the store by these."""
        arrays_of(data)
        data = data.numpy()
        if not self._create(data):
            with self._lock():
                named, codes = describe(data)
                self._commit(replace(named, shards=self._meta().shards), data, codes, keep=False)

    def _lock(self) -> AbstractContextManager[bool]:
        """Exclusive lock of the writers; it ends with the process."""
        self._meta()  # of an existing store: some versions of filelock create a missing folder
        return file_lock(self.path / _LOCK)

    def _create(self, data: CalibrationData) -> bool:
        """Create a store of these rows; False if it exists already."""
        if self.path.exists():
            return False
        named, codes = describe(data)
        try:
            with atomic_folder(self.path) as folder:
                Store(folder)._commit(named, data, codes, keep=True)
        except OSError:
            if not self.path.exists():
                raise
            return False  # another process created it first
        return True

    def read(self, *, verify: bool = False) -> CalibrationData:
        """All rows, in memory; with ``verify``, checksums are compared first."""
        return checked(self.path, self.read_raw(verify=verify))

    def read_raw(self, *, verify: bool = False) -> RawData:
        """All rows as they are stored, before validation."""
        while True:
            meta = self._meta()
            try:
                with decoding(self.path, DAMAGED):
                    if verify:
                        self._verify(meta)
                    return self._raw_data(meta)
            except FileFormatError:
                if self._meta() == meta:
                    raise  # otherwise another process has replaced the rows: read again

    def check(self) -> None:
        """Raise FileFormatError if a file is missing or its size is wrong."""
        meta = self._meta()
        with decoding(self.path, DAMAGED):
            for name in meta.columns:
                self._require_bytes(meta, name)

    def verify(self) -> None:
        """Raise FileFormatError if the checksum of a file differs."""
        self._verify(self._meta())

    def _raw_data(self, meta: StoreMeta) -> RawData:
        arrays: dict[str, Array] = {}
        for name in meta.columns:
            arrays[name] = self._array(meta, name)
        for name, key in CODED.items():
            if name in arrays:
                arrays[name] = self._decoded(arrays[name], getattr(meta, key), name)
        return RawData(
            "store", arrays, provenance=meta.provenance,
            class_names=None if meta.class_names is None else tuple(meta.class_names),
            feature_names=None if meta.feature_names is None else tuple(meta.feature_names),
        )  # fmt: skip

    def _array(self, meta: StoreMeta, name: str) -> Array:
        """One array of all rows; domains and groups as codes."""
        total, columns = sum(shard.n_rows for shard in meta.shards), meta.columns[name]
        self._require_bytes(meta, name)
        out = np.empty((total,) if columns is None else (total, columns), meta.dtypes[name])
        start = 0
        for shard in meta.shards:
            self._read_shard(shard, name, out[start : start + shard.n_rows])
            start += shard.n_rows
        return out

    def _verify(self, meta: StoreMeta) -> None:
        if self._read_meta()[1] != meta.checksum():
            raise FileFormatError(
                f"{self.path / _META} has changed since it was written: its checksum differs; "
                "restore it, or write the store again."
            )
        for shard in meta.shards:
            for name, expected in shard.files.items():
                path = self.path / shard.name / f"{name}.npy"
                with self._open(path) as file:
                    found = hashlib.file_digest(file, "sha256").hexdigest()
                if found != expected:
                    raise FileFormatError(
                        f"{path} has changed since it was written: its checksum is {found[:12]}... "
                        f"instead of {expected[:12]}...; restore it, or write the store again."
                    )

    def _commit(
        self, meta: StoreMeta, data: CalibrationData, codes: dict[str, Array], *, keep: bool
    ) -> None:
        """Write a shard, then the ``meta.json`` that lists it; then remove replaced shards."""
        on_disk = [p.name for p in self.path.iterdir() if SHARD_NAME.fullmatch(p.name)]
        taken = [int(name[5:]) for name in [*on_disk, *(shard.name for shard in meta.shards)]]
        named = {shard.name for shard in meta.shards}
        for name in set(on_disk) - named:  # left by killed writers
            shutil.rmtree(self.path / name, ignore_errors=True)
        shard = f"part-{max(taken, default=-1) + 1:05d}"
        with atomic_folder(self.path / shard) as folder:
            files = {
                name: write_npy(folder / f"{name}.npy", values)
                for name, values in {**arrays_of(data), **codes}.items()
            }
        kept = meta.shards if keep else ()
        meta = replace(meta, shards=(*kept, Shard(shard, len(data), files)))
        try:
            with atomic_file(self.path / _META) as file:
                file.write(meta.to_json())
        except BaseException:
            shutil.rmtree(self.path / shard, ignore_errors=True)
            raise
        for name in named - {s.name for s in meta.shards}:
            shutil.rmtree(self.path / name, ignore_errors=True)

    def _meta(self) -> StoreMeta:
        return self._read_meta()[0]

    def _read_meta(self) -> tuple[StoreMeta, str | None]:
        path = self.path / _META
        with self._open(path) as file:
            return StoreMeta.from_json(file.read(), path)

    def _open(self, path: Path) -> BufferedReader:
        try:
            return open(path, "rb")
        except (FileNotFoundError, NotADirectoryError) as error:
            if not self.path.exists():
                raise FileNotFoundError(f"there is no store {self.path}") from error
            raise FileFormatError(
                f"{path} is missing: {self.path} is neither a complete store nor a folder of "
                "logits.npy, labels.npy and so on; choose another folder."
            ) from error

    def _require_bytes(self, meta: StoreMeta, name: str) -> None:
        """Compare the files of the shards with ``meta.json`` before memory is allocated."""
        for shard in meta.shards:
            path = self.path / shard.name / f"{name}.npy"
            with self._open(path) as file:
                shape, fortran, dtype = read_npy_header(file, path.stat().st_size, str(path))
            columns = meta.columns[name]
            expected = (shard.n_rows,) if columns is None else (shard.n_rows, columns)
            if shape != expected or dtype != np.dtype(meta.dtypes[name]) or fortran:
                order = " in Fortran order" if fortran else ""
                raise FileFormatError(
                    f"{path} holds {shape} of {dtype}{order}, but {_META} says {expected} of "
                    f"{meta.dtypes[name]}; restore the file, or write the store again."
                )

    def _read_shard(self, shard: Shard, name: str, out: Array) -> None:
        path = self.path / shard.name / f"{name}.npy"
        with self._open(path) as file:
            read_npy_header(file, path.stat().st_size, str(path))
            read_into(file, out, str(path))

    def _names(self, meta: StoreMeta, column: str, names: Any) -> Array | None:
        if column not in meta.columns:
            return None
        return self._decoded(self._array(meta, column), names, column)

    def _decoded(self, codes: Array, names: Any, array: str) -> Array:
        if codes.size and not 0 <= codes.min() <= codes.max() < len(names or ()):
            raise FileFormatError(
                f"{self.path} has codes of {array} that have no name; restore it."
            )
        return np.array(names)[codes]
