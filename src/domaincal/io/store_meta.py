"""What the ``meta.json`` of a store says."""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from domaincal._files import decoding
from domaincal._typing import Array
from domaincal.data import CalibrationData
from domaincal.errors import FileFormatError, InputError
from domaincal.io.raw_data import ARRAYS, arrays_of

FORMAT = "domaincal store"
VERSION = 1
SHARD_NAME = re.compile(r"part-[0-9]{5,9}")
#: Arrays of which the shards hold codes, and where their names are.
CODED = {"domains": "domain_names", "groups": "group_names"}


@dataclass(frozen=True)
class Shard:
    """A folder of one array each; ``files`` has the sha256 of each array's file."""

    name: str
    n_rows: int
    files: dict[str, str]


@dataclass(frozen=True)
class StoreMeta:
    """What ``meta.json`` says: the shards that count, and what their rows have in common."""

    columns: dict[str, int | None]  # columns of an array, None where it is 1-D
    dtypes: dict[str, str]
    class_names: list[str] | None = None
    domain_names: list[str] | list[int] | None = None
    group_names: list[str] | list[int] | None = None
    provenance: dict[str, Any] = field(default_factory=dict)
    shards: tuple[Shard, ...] = ()

    @classmethod
    def from_json(cls, content: bytes, path: Path) -> "tuple[StoreMeta, str | None]":
        """What the file ``path`` says, and the checksum that it gives of it."""
        with decoding(path, "restore it"):
            found = json.loads(content)
            if not isinstance(found, dict) or found.pop("format", None) != FORMAT:
                raise FileFormatError(f"{path} is not of a domaincal store.")
            version = found.pop("version", None)
            if not isinstance(version, int) or not 1 <= version <= VERSION:
                raise FileFormatError(
                    f"{path} is of a store of version {version}, this domaincal reads up to "
                    f"{VERSION}; upgrade domaincal."
                )
            said = found.pop("sha256", None)
            shards = tuple(Shard(**shard) for shard in found.pop("shards"))
            meta = cls(**found, shards=shards)
            _check(meta)
        return meta, said

    def to_json(self) -> bytes:
        """The content of ``meta.json``."""
        head = {"format": FORMAT, "version": VERSION, "sha256": self.checksum()}
        return json.dumps({**head, **asdict(self)}, indent=1).encode()

    def checksum(self) -> str:
        """Of all that is said here."""
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()


def describe(
    data: CalibrationData, meta: StoreMeta | None = None
) -> tuple[StoreMeta, dict[str, Array]]:
    """Description of the data, and the codes of domains and groups among all names so far."""
    codes: dict[str, Array] = {}
    names: dict[str, Any] = {}
    for array, key in CODED.items():
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
    described = StoreMeta(
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


def widened(data: CalibrationData, meta: StoreMeta) -> CalibrationData:
    """Numbers in the types of the store, where that loses nothing."""
    changed = {}
    for name in ("logits", "labels", "features"):
        values, stored = getattr(data, name), meta.dtypes.get(name)
        if values is not None and stored is not None and np.can_cast(values.dtype, stored):
            changed[name] = values.astype(stored)
    return replace(data, **changed)


def require_same(old: StoreMeta, new: StoreMeta, path: Path) -> None:
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


def _described(meta: StoreMeta) -> str:
    return ", ".join(
        name if columns is None else f"{columns} columns of {name}"
        for name, columns in meta.columns.items()
    )


def _kinds(names: Iterable[Any] | None) -> str | None:
    return None if names is None else " and ".join(sorted({type(n).__name__ for n in names}))


def _check(meta: StoreMeta) -> None:
    """Raise ValueError where ``meta.json`` cannot be true; its names never lead elsewhere."""
    names = [shard.name for shard in meta.shards]
    if len(set(names)) < len(names):
        raise ValueError("a shard that is named twice")
    for shard in meta.shards:
        if not SHARD_NAME.fullmatch(shard.name):
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
