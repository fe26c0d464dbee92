"""Contents of the ``meta.json`` of a store."""

from __future__ import annotations

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
#: Version 2 has feature names; a store without them is still of version 1.
VERSION = 2
SHARD_NAME = re.compile(r"part-[0-9]{5,9}")
#: Arrays that the shards hold as codes, and the entries of ``meta.json`` with their names.
CODED = {"domains": "domain_names", "groups": "group_names"}


@dataclass(frozen=True)
class Shard:
    """A folder of one file for each array; ``files`` has the sha256 of each file."""

    name: str
    n_rows: int
    files: dict[str, str]


@dataclass(frozen=True)
class StoreMeta:
    """Shards of the store, and properties of their rows."""

    columns: dict[str, int | None]  # number of columns of each array; None for 1-D arrays
    dtypes: dict[str, str]
    class_names: list[str] | None = None
    domain_names: list[str] | list[int] | None = None
    group_names: list[str] | list[int] | None = None
    provenance: dict[str, Any] = field(default_factory=dict)
    shards: tuple[Shard, ...] = ()
    feature_names: list[str] | None = None

    @classmethod
    def from_json(cls, content: bytes, path: Path) -> tuple[StoreMeta, str | None]:
        """Decode the content of the file ``path``; also return the checksum stored in it."""
        with decoding(path, "restore it"):
            found = json.loads(content)
            if not isinstance(found, dict) or found.pop("format", None) != FORMAT:
                raise FileFormatError(f"{path} is not the meta.json of a domaincal store.")
            version = found.pop("version", None)
            if not isinstance(version, int) or not 1 <= version <= VERSION:
                raise FileFormatError(
                    f"{path} has version {version} of the format, but this domaincal reads up to "
                    f"version {VERSION}; upgrade domaincal."
                )
            checksum = found.pop("sha256", None)
            shards = tuple(Shard(**shard) for shard in found.pop("shards"))
            meta = cls(**found, shards=shards)
            _check(meta)
        return meta, checksum

    def to_json(self) -> bytes:
        """Content of ``meta.json``."""
        version = 1 if self.feature_names is None else VERSION
        head = {"format": FORMAT, "version": version, "sha256": self.checksum()}
        return json.dumps({**head, **self._entries()}, indent=1).encode()

    def checksum(self) -> str:
        """Sha256 of all fields."""
        return hashlib.sha256(json.dumps(self._entries()).encode()).hexdigest()

    def _entries(self) -> dict[str, Any]:
        entries = asdict(self)
        if self.feature_names is None:
            del entries["feature_names"]
        return entries


def describe(
    data: CalibrationData, meta: StoreMeta | None = None
) -> tuple[StoreMeta, dict[str, Array]]:
    """Meta data of new rows, and the codes of their domains and groups.

    New names are added to those of ``meta``, the store to which the rows are appended.
    """
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
        feature_names=_feature_names(data, meta),
        provenance={
            key: value
            for key, value in data.provenance.items()
            if meta is None or (key in meta.provenance and meta.provenance[key] == value)
        },
        **names,
    )
    return described, codes


def _feature_names(data: CalibrationData, meta: StoreMeta | None) -> list[str] | None:
    """Names of the features; rows that are appended to a store without names lose theirs."""
    if data.feature_names is None or (meta is not None and meta.feature_names is None):
        return None
    return list(data.feature_names)


def widened(data: CalibrationData, meta: StoreMeta) -> CalibrationData:
    """Convert numbers to the dtypes of the store where that is exact."""
    changed = {}
    for name in ("logits", "labels", "features"):
        values, stored = getattr(data, name), meta.dtypes.get(name)
        if values is not None and stored is not None and np.can_cast(values.dtype, stored):
            changed[name] = values.astype(stored)
    return replace(data, **changed)


def require_same(old: StoreMeta, new: StoreMeta, path: Path) -> None:
    """Raise InputError if rows to append differ from the store in arrays, classes or dtypes."""
    for what, before, after in (
        ("arrays", _described(old), _described(new)),
        ("class names", old.class_names, new.class_names),
        ("feature names", old.feature_names, new.feature_names),
        ("dtypes", old.dtypes, new.dtypes),
        ("type of domains", _types(old.domain_names), _types(new.domain_names)),
        ("type of groups", _types(old.group_names), _types(new.group_names)),
    ):
        if before != after:
            raise InputError(
                f"the rows to append and the store {path} differ in their {what}: {after} and "
                f"{before}; convert the rows, or write them to another store."
            )


def _described(meta: StoreMeta) -> str:
    return ", ".join(
        name if columns is None else f"{columns} columns of {name}"
        for name, columns in meta.columns.items()
    )


def _types(names: Iterable[Any] | None) -> str | None:
    return None if names is None else " and ".join(sorted({type(n).__name__ for n in names}))


def _check(meta: StoreMeta) -> None:
    """Raise ValueError if an entry is invalid; names of shards never point outside the store."""
    names = [shard.name for shard in meta.shards]
    if len(set(names)) < len(names):
        raise ValueError("a shard is listed twice")
    for shard in meta.shards:
        if not SHARD_NAME.fullmatch(shard.name):
            raise ValueError(f"{shard.name!r} is not the name of a shard")
        if not _is_count(shard.n_rows):
            raise ValueError(f"{shard.name} has {shard.n_rows!r} rows")
        if set(shard.files) != set(meta.columns) or not isinstance(shard.files, dict):
            raise ValueError(f"{shard.name} has other arrays than the store")
    if not set(meta.columns) <= set(ARRAYS) or set(meta.columns) != set(meta.dtypes):
        raise ValueError("unknown arrays")
    for name, columns in meta.columns.items():
        if np.dtype(meta.dtypes[name]).kind not in "fiu":
            raise ValueError(f"{name} has the dtype {meta.dtypes[name]}")
        if not (columns is None or _is_count(columns)):
            raise ValueError(f"{name} has {columns!r} columns")
    for listed in (meta.domain_names, meta.group_names, meta.class_names, meta.feature_names):
        if listed is None:
            continue
        if not isinstance(listed, list) or _types(listed) not in ("int", "str"):
            raise ValueError("names must be a list of strings or a list of integers")
        if len(set(listed)) < len(listed):
            raise ValueError("a name is listed twice")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
