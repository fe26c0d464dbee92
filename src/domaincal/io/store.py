"""The store: a folder of shards for large sets, which grows and survives being killed."""

import hashlib
import os
import shutil
from dataclasses import replace
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np

from domaincal._files import DAMAGED, atomic_file, atomic_folder, decoding, locked_folder
from domaincal._typing import Array
from domaincal.data import CalibrationData
from domaincal.errors import FileFormatError, InputError
from domaincal.io.npy import read_into, read_npy_header, write_npy
from domaincal.io.raw_data import Contents, arrays_of, checked
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


class Store:
    """A folder of shards: ``part-00000/logits.npy`` and so on, and ``meta.json``.

    A shard counts from the moment that ``meta.json`` names it: a writer killed at any time leaves
    all rows of before, and nothing else that is read. Appends from several processes wait for each
    other.

    Parameters
    ----------
    path : path of the folder
        It need not exist: the first :meth:`append` makes it.

    Examples
    --------
    >>> import tempfile, domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=3, n_rows=100, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = dc.Store(folder + "/scores")
    ...     for start in range(len(store), 300, 100):  # a killed loop goes on where it was
    ...         store.append(data.select(slice(start, start + 100)))
    ...     print(len(store), store.read())
    300 CalibrationData(300 rows, 10 classes, 16 features, 3 domains)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def __repr__(self) -> str:
        return f"Store({str(self.path)!r})"

    def __len__(self) -> int:
        """Rows in the store; 0 if there is none yet."""
        return sum(shard.n_rows for shard in self._meta().shards) if self.path.exists() else 0

    @property
    def provenance(self) -> dict[str, Any]:
        """Where the rows come from, as far as all of them agree."""
        return dict(self._meta().provenance)

    def labels(self) -> Array | None:
        """Labels of all rows, if there are any, without reading anything else."""
        meta = self._meta()
        return self._array(meta, "labels") if "labels" in meta.columns else None

    def domains(self) -> Array | None:
        """Domains of all rows, if there are any, without reading anything else."""
        meta = self._meta()
        return self._names(meta, "domains", meta.domain_names)

    def groups(self) -> Array | None:
        """Groups of all rows, if there are any, without reading anything else."""
        meta = self._meta()
        return self._names(meta, "groups", meta.group_names)

    def append(self, data: CalibrationData, *, at: int | None = None) -> None:
        """Add rows as one more shard; they have the classes and features of those before.

        Numbers are widened to the types of the store, and refused where they would lose digits.
        Of the provenance, what all rows agree on is kept.

        Parameters
        ----------
        data : CalibrationData
        at : int, optional
            Rows that the store must have before: where another process has added some, it is
            refused.
        """
        arrays_of(data)
        data = data.numpy()
        if at or not self._create(data):
            with locked_folder(self.path):
                meta = self._meta()
                found = sum(shard.n_rows for shard in meta.shards)
                if at not in (None, found):
                    raise InputError(
                        f"{self.path} has {found} rows and not {at}: somebody else writes to it; "
                        "let one of you go on."
                    )
                data = widened(data, meta)
                named, codes = describe(data, meta)
                require_same(meta, named, self.path)
                self._commit(replace(named, shards=meta.shards), data, codes, keep=True)

    def write(self, data: CalibrationData) -> None:
        """Make these the only rows of the store."""
        arrays_of(data)
        data = data.numpy()
        if not self._create(data):
            with locked_folder(self.path):
                named, codes = describe(data)
                self._commit(replace(named, shards=self._meta().shards), data, codes, keep=False)

    def _create(self, data: CalibrationData) -> bool:
        """A new store of these rows; False where there is one already."""
        if self.path.exists():
            return False
        named, codes = describe(data)
        try:
            with atomic_folder(self.path) as folder:
                Store(folder)._commit(named, data, codes, keep=True)
        except OSError:
            if not self.path.exists():
                raise
            return False  # another process was the first
        return True

    def read(self, *, verify: bool = False) -> CalibrationData:
        """All rows, in memory; with ``verify``, after their checksums were compared."""
        return checked(self.path, self.contents(verify=verify))

    def contents(self, *, verify: bool = False) -> Contents:
        """All rows, as they are stored."""
        while True:
            meta = self._meta()
            try:
                with decoding(self.path, DAMAGED):
                    if verify:
                        self._verify(meta)
                    return self._contents(meta)
            except FileFormatError:
                if self._meta() == meta:
                    raise  # else another process has replaced the rows meanwhile

    def check(self) -> None:
        """Look whether every file is there and as long as it should be; raise where one is not."""
        meta = self._meta()
        with decoding(self.path, DAMAGED):
            for name in meta.columns:
                self._require_bytes(meta, name)

    def verify(self) -> None:
        """Compare every file with its checksum; raise where one differs."""
        self._verify(self._meta())

    def _contents(self, meta: StoreMeta) -> Contents:
        arrays: dict[str, Array] = {}
        for name in meta.columns:
            arrays[name] = self._array(meta, name)
        for name, key in CODED.items():
            if name in arrays:
                arrays[name] = self._decoded(arrays[name], getattr(meta, key), name)
        return Contents(
            "store", arrays, provenance=meta.provenance,
            class_names=None if meta.class_names is None else tuple(meta.class_names),
        )  # fmt: skip

    def _array(self, meta: StoreMeta, name: str) -> Array:
        """One array of all rows; codes as they are."""
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
                f"{self.path / _META} has another checksum than was written: it has changed since; "
                "restore it, or write the store again."
            )
        for shard in meta.shards:
            for name, expected in shard.files.items():
                path = self.path / shard.name / f"{name}.npy"
                with self._open(path) as file:
                    found = hashlib.file_digest(file, "sha256").hexdigest()
                if found != expected:
                    raise FileFormatError(
                        f"{path} has the checksum {found[:12]}..., but {expected[:12]}... was "
                        "written: it has changed since; restore it, or write the store again."
                    )

    def _commit(
        self, meta: StoreMeta, data: CalibrationData, codes: dict[str, Array], *, keep: bool
    ) -> None:
        """A new shard, then the ``meta.json`` that names it, then no more of what it replaces."""
        on_disk = [p.name for p in self.path.iterdir() if SHARD_NAME.fullmatch(p.name)]
        taken = [int(name[5:]) for name in [*on_disk, *(shard.name for shard in meta.shards)]]
        named = {shard.name for shard in meta.shards}
        for name in set(on_disk) - named:  # of writers that were killed
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
                f"{path} is missing: {self.path} is no complete store, nor a folder of logits.npy, "
                "labels.npy and so on; choose another folder."
            ) from error

    def _require_bytes(self, meta: StoreMeta, name: str) -> None:
        """The shards' files are as long as ``meta.json`` says, before memory is asked for."""
        for shard in meta.shards:
            path = self.path / shard.name / f"{name}.npy"
            with self._open(path) as file:
                shape, fortran, dtype = read_npy_header(file, path.stat().st_size, str(path))
            columns = meta.columns[name]
            expected = (shard.n_rows,) if columns is None else (shard.n_rows, columns)
            if shape != expected or dtype != np.dtype(meta.dtypes[name]) or fortran:
                raise FileFormatError(
                    f"{path} holds {shape} of {dtype}, but {_META} says {expected} of "
                    f"{meta.dtypes[name]}; the shards disagree, restore the file."
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
            raise FileFormatError(f"{self.path} has codes of {array} without a name; restore it.")
        return np.array(names)[codes]
