"""The store: a folder of shards for large sets, which grows and survives being killed."""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.lib import format as npy

from domaincal._errors import FileFormatError, InputError
from domaincal._files import DAMAGED, atomic_file, atomic_folder, decoding, locked_folder
from domaincal._typing import Array
from domaincal.data import CalibrationData
from domaincal.io.contents import ARRAYS, Contents, arrays_of, checked
from domaincal.io.npy import read_into, read_npy_header

FORMAT = "domaincal store"
VERSION = 1
_META = "meta.json"
_SHARD_NAME = re.compile(r"part-[0-9]{5,9}")
# Arrays of which the shards hold codes, and where their names are.
_CODED = {"domains": "domain_names", "groups": "group_names"}
_WRITTEN_AT_ONCE = 1 << 24


@dataclass(frozen=True)
class _Shard:
    """A folder of one array each; ``files`` has the sha256 of each array's file."""

    name: str
    n_rows: int
    files: dict[str, str]


@dataclass(frozen=True)
class _Meta:
    """What ``meta.json`` says: the shards that count, and what their rows have in common."""

    columns: dict[str, int | None]  # columns of an array, None where it is 1-D
    dtypes: dict[str, str]
    class_names: list[str] | None = None
    domain_names: list[str] | list[int] | None = None
    group_names: list[str] | list[int] | None = None
    provenance: dict[str, Any] = field(default_factory=dict)
    shards: tuple[_Shard, ...] = ()

    def checksum(self) -> str:
        """Of all that is said here."""
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()


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

    def append(self, data: CalibrationData) -> None:
        """Add rows as one more shard; they have the classes and features of those before.

        Numbers are widened to the types of the store, and refused where they would lose digits.
        Of the provenance, what all rows agree on is kept.
        """
        arrays_of(data)
        if not self._create(data):
            with locked_folder(self.path):
                meta = self._meta()
                data = _widened(data, meta)
                named, codes = _with_names(meta, data)
                _require_same(meta, named, self.path)
                self._commit(replace(named, shards=meta.shards), data, codes, keep=True)

    def write(self, data: CalibrationData) -> None:
        """Make these the only rows of the store."""
        arrays_of(data)
        if not self._create(data):
            with locked_folder(self.path):
                named, codes = _with_names(None, data)
                self._commit(replace(named, shards=self._meta().shards), data, codes, keep=False)

    def _create(self, data: CalibrationData) -> bool:
        """A new store of these rows; False where there is one already."""
        if self.path.exists():
            return False
        named, codes = _with_names(None, data)
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

    def verify(self) -> None:
        """Compare every file with its checksum; raise where one differs."""
        self._verify(self._meta())

    def _contents(self, meta: _Meta) -> Contents:
        total = sum(shard.n_rows for shard in meta.shards)
        arrays: dict[str, Array] = {}
        for name, columns in meta.columns.items():
            shape = (total,) if columns is None else (total, columns)
            self._require_bytes(meta, name)
            out = np.empty(shape, np.dtype(meta.dtypes[name]))
            start = 0
            for shard in meta.shards:
                self._read_shard(shard, name, out[start : start + shard.n_rows])
                start += shard.n_rows
            arrays[name] = out
        for name, key in _CODED.items():
            if name in arrays:
                arrays[name] = self._decoded(arrays[name], getattr(meta, key), name)
        return Contents(
            "store", arrays, provenance=meta.provenance,
            class_names=None if meta.class_names is None else tuple(meta.class_names),
        )  # fmt: skip

    def _verify(self, meta: _Meta) -> None:
        if self._said_checksum() != meta.checksum():
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
        self, meta: _Meta, data: CalibrationData, codes: dict[str, Array], *, keep: bool
    ) -> None:
        """A new shard, then the ``meta.json`` that names it, then no more of what it replaces."""
        on_disk = [p.name for p in self.path.iterdir() if _SHARD_NAME.fullmatch(p.name)]
        taken = [int(name[5:]) for name in [*on_disk, *(shard.name for shard in meta.shards)]]
        named = {shard.name for shard in meta.shards}
        for name in set(on_disk) - named:  # of writers that were killed
            shutil.rmtree(self.path / name, ignore_errors=True)
        shard = f"part-{max(taken, default=-1) + 1:05d}"
        with atomic_folder(self.path / shard) as folder:
            files = {
                name: _write_npy(folder / f"{name}.npy", values)
                for name, values in {**arrays_of(data), **codes}.items()
            }
        kept = meta.shards if keep else ()
        meta = replace(meta, shards=(*kept, _Shard(shard, len(data), files)))
        content = {"format": FORMAT, "version": VERSION, "sha256": meta.checksum(), **asdict(meta)}
        try:
            with atomic_file(self.path / _META) as file:
                file.write(json.dumps(content, indent=1).encode())
        except BaseException:
            shutil.rmtree(self.path / shard, ignore_errors=True)
            raise
        for name in named - {s.name for s in meta.shards}:
            shutil.rmtree(self.path / name, ignore_errors=True)

    def _meta(self) -> _Meta:
        path = self.path / _META
        with self._open(path) as file, decoding(path, "restore it"):
            found = json.loads(file.read())
            if not isinstance(found, dict) or found.pop("format", None) != FORMAT:
                raise FileFormatError(f"{path} is not of a domaincal store.")
            version = found.pop("version", None)
            if not isinstance(version, int) or not 1 <= version <= VERSION:
                raise FileFormatError(
                    f"{self.path} is a store of version {version}, this domaincal reads up to "
                    f"{VERSION}; upgrade domaincal."
                )
            found.pop("sha256", None)
            shards = tuple(_Shard(**shard) for shard in found.pop("shards"))
            meta = _Meta(**found, shards=shards)
            _check_meta(meta)
        return meta

    def _said_checksum(self) -> Any:
        with self._open(self.path / _META) as file:
            return json.loads(file.read()).get("sha256")

    def _open(self, path: Path) -> BufferedReader:
        try:
            return open(path, "rb")
        except (FileNotFoundError, NotADirectoryError) as error:
            if not self.path.exists():
                raise FileNotFoundError(f"there is no store {self.path}") from error
            raise FileFormatError(
                f"{path} is missing: {self.path} is no complete store, nor a folder of logits.npy, "
                "labels.npy and so on."
            ) from error

    def _require_bytes(self, meta: _Meta, name: str) -> None:
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

    def _read_shard(self, shard: _Shard, name: str, out: Array) -> None:
        path = self.path / shard.name / f"{name}.npy"
        with self._open(path) as file:
            read_npy_header(file, path.stat().st_size, str(path))
            read_into(file, out, str(path))

    def _decoded(self, codes: Array, names: Any, array: str) -> Array:
        if codes.size and not 0 <= codes.min() <= codes.max() < len(names or ()):
            raise FileFormatError(f"{self.path} has codes of {array} without a name; restore it.")
        return np.array(names)[codes]


def _with_names(meta: _Meta | None, data: CalibrationData) -> tuple[_Meta, dict[str, Array]]:
    """Description of the data, and the codes of domains and groups among all names so far."""
    codes: dict[str, Array] = {}
    names: dict[str, Any] = {}
    for array, key in _CODED.items():
        values = getattr(data, array)
        if values is None:
            continue
        before = (getattr(meta, key) if meta is not None else None) or []
        inverse, found = pd.factorize(values)
        place = {name: k for k, name in enumerate(before)}
        for name in found.tolist():
            place.setdefault(name, len(place))
        names[key] = list(place)
        codes[array] = np.array([place[name] for name in found.tolist()], np.int64)[inverse]
    stored = {**arrays_of(data), **codes}
    described = _Meta(
        columns={name: v.shape[1] if v.ndim == 2 else None for name, v in stored.items()},
        dtypes={name: v.dtype.str for name, v in stored.items()},
        class_names=None if data.class_names is None else list(data.class_names),
        provenance={
            key: value
            for key, value in data.provenance.items()
            if meta is None or (key in meta.provenance and meta.provenance[key] == value)
        },
        **names,
    )
    return described, codes


def _widened(data: CalibrationData, meta: _Meta) -> CalibrationData:
    """Numbers in the types of the store, where that loses nothing."""
    changed = {}
    for name in ("logits", "labels", "features"):
        values, stored = getattr(data, name), meta.dtypes.get(name)
        if values is not None and stored is not None and np.can_cast(values.dtype, stored):
            changed[name] = values.astype(stored)
    return replace(data, **changed)


def _require_same(old: _Meta, new: _Meta, path: Path) -> None:
    """Rows that are appended look like those that are there."""
    for what, before, after in (
        ("arrays", _described(old), _described(new)),
        ("class names", old.class_names, new.class_names),
        ("types", old.dtypes, new.dtypes),
        ("kind of domains", _kinds(old.domain_names), _kinds(new.domain_names)),
        ("kind of groups", _kinds(old.group_names), _kinds(new.group_names)),
    ):
        if before != after:
            raise InputError(
                f"the rows to append and those of the store {path} disagree in their {what}: "
                f"{after} and {before}; make them alike."
            )


def _described(meta: _Meta) -> str:
    return ", ".join(
        name if columns is None else f"{columns} columns of {name}"
        for name, columns in meta.columns.items()
    )


def _kinds(names: Iterable[Any] | None) -> str | None:
    return None if names is None else " and ".join(sorted({type(n).__name__ for n in names}))


def _check_meta(meta: _Meta) -> None:
    """Raise ValueError where ``meta.json`` cannot be true; its names never lead elsewhere."""
    names = [shard.name for shard in meta.shards]
    if len(set(names)) < len(names):
        raise ValueError("a shard that is named twice")
    for shard in meta.shards:
        if not _SHARD_NAME.fullmatch(shard.name):
            raise ValueError(f"{shard.name!r} is no name of a shard")
        if not _is_count(shard.n_rows):
            raise ValueError(f"{shard.name} has {shard.n_rows!r} rows")
        if set(shard.files) != set(meta.columns) or not isinstance(shard.files, dict):
            raise ValueError(f"the arrays of {shard.name} are not those of the store")
    if not set(meta.columns) <= set(ARRAYS) or set(meta.columns) != set(meta.dtypes):
        raise ValueError("unknown arrays")
    for name, columns in meta.columns.items():
        if np.dtype(meta.dtypes[name]).kind not in "fiu":
            raise ValueError(f"{name} of type {meta.dtypes[name]}")
        if not (columns is None or _is_count(columns)):
            raise ValueError(f"{columns!r} columns of {name}")
    for listed in (meta.domain_names, meta.group_names, meta.class_names):
        if listed is None:
            continue
        if not isinstance(listed, list) or _kinds(listed) not in ("int", "str"):
            raise ValueError("names that are no list, or of several types")
        if len(set(listed)) < len(listed):
            raise ValueError("names that are there twice")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _write_npy(path: Path, values: Array) -> str:
    """Write an array and bring it to the disk; the sha256 of the file."""
    digest = hashlib.sha256()
    with open(path, "wb") as file:
        for part in _npy_bytes(np.ascontiguousarray(values)):
            digest.update(part)
            file.write(part)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def _npy_bytes(values: Array) -> Iterator[bytes | memoryview]:
    header = BytesIO()
    npy.write_array_header_1_0(header, npy.header_data_from_array_1_0(values))
    yield header.getvalue()
    flat = values.reshape(-1).view(np.uint8)
    for start in range(0, len(flat), _WRITTEN_AT_ONCE):
        yield flat.data[start : start + _WRITTEN_AT_ONCE]
