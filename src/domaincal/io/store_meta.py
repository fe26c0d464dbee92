"""Contents of the JSON files of a store: ``meta.json``, and ``shard.json`` of each shard.

``meta.json`` does not grow with the number of shards, so that an append to a large store costs as
much as one to a small store. It has a digest of all ``shard.json``: that of k shards is the sha256
of the digest of k - 1 shards, followed by the k-th ``shard.json``.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from domaincal._files import decoding
from domaincal._row_arrays import CodedRows, ComputedRows, RowArray
from domaincal._typing import Array
from domaincal._validation import check_names
from domaincal.data import BlockedRows
from domaincal.data.blocked_rows import AnyRows
from domaincal.errors import FileFormatError, InputError
from domaincal.io.raw_data import ARRAYS, CODED, arrays_of

FORMAT = "domaincal store"
#: Versions 1 and 2 list all shards and names in ``meta.json``; version 2 has feature names.
VERSION = 3

SHARD_NAME = re.compile(r"part-[0-9]{5,9}")
_LAST_PART = 10**9 - 1
_MOST_ROWS = 1 << 48
_LARGEST_INTEGER = 2**63 - 1
_SHA256 = re.compile(r"[0-9a-f]{64}")
#: Cure of damaged files, for error messages.
CURE = "restore it, or remove the store and write it again"


@dataclass(frozen=True)
class Shard:
    """A folder of one file for each array, with the sha256 of each file.

    ``names`` has the names of domains and groups: the arrays hold indices of them.
    """

    name: str
    n_rows: int
    files: Mapping[str, str]
    names: Mapping[str, list[Any]]

    @classmethod
    def from_json(cls, content: bytes, path: Path, meta: StoreMeta) -> Shard:
        """Decode the content of ``shard.json``, which is the file ``path``."""
        with decoding(path, CURE):
            shard = cls(path.parent.name, **json.loads(content))
            _check_shard(shard, meta)
        return shard

    def to_json(self) -> bytes:
        """Content of ``shard.json``."""
        return _lines({"n_rows": self.n_rows, "files": self.files, "names": self.names})


@dataclass(frozen=True)
class StoreMeta:
    """Properties of the rows of a store, and numbers of its shards.

    ``earlier`` is the sha256 of a ``meta.json`` of version 1 or 2 that lists the first shards. It
    is the file ``earlier.json``, or ``meta.json`` if there are no other shards (``n_parts`` is 0).
    """

    columns: Mapping[str, int | None]  # number of columns of each array; None for 1-D arrays
    dtypes: Mapping[str, str]
    name_types: Mapping[str, str]  # "int" or "str", of domains and groups
    class_names: list[str] | None = None
    feature_names: list[str] | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    n_rows: int = 0
    first_part: int = 0
    n_parts: int = 0
    digest: str = ""
    earlier: str | None = None

    @classmethod
    def from_json(cls, content: bytes, path: Path) -> StoreMeta:
        """Decode the content of ``meta.json``, of any version."""
        with decoding(path, CURE):
            version, entries, checksum = _opened(content, path)
            if version < VERSION:
                meta = _meta_of_earlier(entries, content)
            else:
                meta = cls(**entries)
                _check_parts(meta)
            _check_meta(meta)
            if checksum != _checksum(entries):
                raise FileFormatError(
                    f"{path} has changed since it was written: its checksum differs; {CURE}."
                )
        return meta

    def to_json(self) -> bytes:
        """Content of ``meta.json``."""
        entries = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        head = {"format": FORMAT, "version": VERSION, "sha256": _checksum(entries)}
        return _lines({**head, **entries})

    @property
    def next_part(self) -> int:
        """Number of the next shard; those before it are never used again."""
        return self.first_part + self.n_parts

    def with_shard(self, shard: Shard, before: StoreMeta | None, *, keep: bool) -> StoreMeta:
        """These properties, with a new shard after those of the store ``before``, or instead."""
        if before is None or not keep:
            digest = next_digest("", shard.to_json())
            first = 0 if before is None else before.next_part
            return replace(self, n_rows=shard.n_rows, first_part=first, n_parts=1, digest=digest)
        return replace(
            self, n_rows=before.n_rows + shard.n_rows, first_part=before.first_part,
            n_parts=before.n_parts + 1, digest=next_digest(before.digest, shard.to_json()),
            earlier=before.earlier,
        )  # fmt: skip


def part_name(number: int) -> str:
    """Name of the folder of a shard."""
    if number > _LAST_PART:
        raise InputError("the store has had too many shards; write its rows to another store.")
    return f"part-{number:05d}"


def next_digest(digest: str, content: bytes) -> str:
    """Digest of some shards and one more, whose ``shard.json`` has this content."""
    return hashlib.sha256(digest.encode() + content).hexdigest()


def describe(data: AnyRows, meta: StoreMeta | None = None) -> StoreMeta:
    """Properties of new rows, which are appended to the store ``meta`` if it is given."""
    stored = stored_arrays(data)
    return StoreMeta(
        columns={name: v.shape[1] if v.ndim == 2 else None for name, v in stored.items()},
        dtypes={name: v.dtype.str for name, v in stored.items()},
        name_types={array: _types(listed) for array, listed in listed_names(data).items()},
        class_names=None if data.class_names is None else list(data.class_names),
        feature_names=_feature_names(data, meta),
        provenance={
            key: value
            for key, value in data.provenance.items()
            if meta is None or (key in meta.provenance and meta.provenance[key] == value)
        },
    )


def stored_arrays(data: AnyRows) -> dict[str, Array | RowArray]:
    """Arrays of a shard: domains and groups are indices of :func:`listed_names`."""
    if isinstance(data, BlockedRows):
        found = {name: getattr(data, name, None) for name in ARRAYS}
        return {
            name: values.codes if isinstance(values, CodedRows) else values
            for name, values in found.items()
            if values is not None
        }
    codes = {"domains": data.domain_codes[0], "groups": data.group_codes[0]}
    return {name: codes.get(name, values) for name, values in arrays_of(data).items()}


def listed_names(data: AnyRows) -> dict[str, list[Any]]:
    """Names of the domains and groups of the rows."""
    found = {}
    for array in CODED:
        if getattr(data, array) is None:
            continue
        if isinstance(data, BlockedRows):
            names = getattr(data, array).names
        else:
            names = (data.domain_codes if array == "domains" else data.group_codes)[1]
        if names.dtype.kind == "u" and names.max() > _LARGEST_INTEGER:
            raise InputError(
                f"{array} contains {names.max()}, but a store has integers up to "
                f"{_LARGEST_INTEGER}; convert {array} to strings."
            )
        found[array] = names.tolist()
    return found


def _feature_names(data: AnyRows, meta: StoreMeta | None) -> list[str] | None:
    """Names of the features; rows that are appended to a store without names lose theirs."""
    if data.feature_names is None or (meta is not None and meta.feature_names is None):
        return None
    return list(data.feature_names)


def widened(data: AnyRows, meta: StoreMeta) -> AnyRows:
    """Convert numbers to the dtypes of the store where that is exact."""
    changed: dict[str, Any] = {}
    for name in ("logits", "labels", "features"):
        values, stored = getattr(data, name), meta.dtypes.get(name)
        if values is None or stored is None or values.dtype == stored:
            continue
        if not np.can_cast(values.dtype, stored):
            continue
        if isinstance(values, RowArray):
            changed[name] = ComputedRows(values.shape, stored, partial(_cast, values, stored))
        else:
            changed[name] = values.astype(stored)
    return replace(data, **changed) if changed else data


def _cast(values: RowArray, dtype: str, start: int, stop: int) -> Array:
    """Rows of another dtype."""
    return values.read(start, stop).astype(dtype)


def require_same(old: StoreMeta, new: StoreMeta, path: Path) -> None:
    """Raise InputError if rows to append differ from the store in arrays, classes or dtypes."""
    for what, before, after in (
        ("arrays", _described(old), _described(new)),
        ("class names", old.class_names, new.class_names),
        ("feature names", old.feature_names, new.feature_names),
        ("dtypes", old.dtypes, new.dtypes),
        ("type of domains", old.name_types.get("domains"), new.name_types.get("domains")),
        ("type of groups", old.name_types.get("groups"), new.name_types.get("groups")),
    ):
        if before != after:
            raise InputError(
                f"the rows to append and the store {path} differ in their {what}: {after} and "
                f"{before}; convert the rows, or write them to another store."
            )


def earlier_shards(content: bytes, path: Path) -> list[Shard]:
    """Shards that a ``meta.json`` of version 1 or 2 lists; they share the names of the store."""
    with decoding(path, CURE):
        _, entries, _ = _opened(content, path)
        names = {array: entries[key] for array, key in CODED.items() if array in entries["columns"]}
        return [Shard(**shard, names=names) for shard in entries["shards"]]


def _meta_of_earlier(entries: dict[str, Any], content: bytes) -> StoreMeta:
    """Properties of a store of version 1 or 2."""
    given = dict(entries)
    shards = [Shard(**shard, names={}) for shard in given.pop("shards")]
    names = {array: given.pop(key) for array, key in CODED.items()}
    names = {array: listed for array, listed in names.items() if array in given["columns"]}
    for listed in names.values():
        _check_listed(listed, ("int", "str"))
    types = {array: _types(listed) for array, listed in names.items()}
    earlier = hashlib.sha256(content).hexdigest()
    meta = StoreMeta(**given, name_types=types, earlier=earlier, digest=earlier)
    for shard in shards:
        _check_shard(shard, replace(meta, name_types={}))
    if len({shard.name for shard in shards}) < len(shards):
        raise ValueError("a shard is listed twice")
    last = max(int(shard.name.removeprefix("part-")) for shard in shards)
    return replace(meta, n_rows=sum(shard.n_rows for shard in shards), first_part=last + 1)


def _opened(content: bytes, path: Path) -> tuple[int, dict[str, Any], Any]:
    """Version, entries and checksum of a ``meta.json``."""
    found = json.loads(content)
    if not isinstance(found, dict) or found.pop("format", None) != FORMAT:
        raise FileFormatError(f"{path} is not the meta.json of a domaincal store.")
    version = found.pop("version", None)
    if not _is_count(version, VERSION):
        raise FileFormatError(
            f"{path} has version {str(version)[:20]} of the format, but this domaincal reads up "
            f"to version {VERSION}; upgrade domaincal."
        )
    return version, found, found.pop("sha256", None)


def _checksum(entries: Mapping[str, Any]) -> str:
    """Sha256 of the entries of a ``meta.json``."""
    return hashlib.sha256(json.dumps(entries).encode()).hexdigest()


def _lines(entries: Mapping[str, Any]) -> bytes:
    """JSON with one entry in each line."""
    lines = (f"{json.dumps(key)}: {json.dumps(value)}" for key, value in entries.items())
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def _described(meta: StoreMeta) -> str:
    return ", ".join(
        name if columns is None else f"{columns} columns of {name}"
        for name, columns in meta.columns.items()
    )


def _types(names: Iterable[Any]) -> str:
    return " and ".join(sorted({type(n).__name__ for n in names}))


# The checks raise ValueError, which `decoding` turns into the error that names the file.


def _check_meta(meta: StoreMeta) -> None:
    """Check the properties of the rows."""
    if not isinstance(meta.columns, dict) or not isinstance(meta.dtypes, dict):
        raise ValueError("columns and dtypes must be objects")
    if not set(meta.columns) <= set(ARRAYS) or set(meta.columns) != set(meta.dtypes):
        raise ValueError("unknown arrays")
    for name, columns in meta.columns.items():
        dtype = meta.dtypes[name]
        if not isinstance(dtype, str) or np.dtype(dtype).kind not in "fiu":
            raise ValueError(f"{name} has the dtype {str(dtype)[:20]}")
        if name in CODED and (columns is not None or np.dtype(dtype).kind == "f"):
            raise ValueError(f"{name} must be indices of names")
        if not (columns is None or _is_count(columns, _MOST_ROWS)):
            raise ValueError(f"{name} has {str(columns)[:20]} columns")
    if not isinstance(meta.name_types, dict) or set(meta.name_types) != set(CODED) & set(
        meta.columns
    ):
        raise ValueError("name_types must have the types of domains and groups")
    if not all(types in ("int", "str") for types in meta.name_types.values()):
        raise ValueError("names must be strings or integers")
    for listed in (meta.class_names, meta.feature_names):
        if listed is not None:
            _check_listed(listed, ("str",))
    if not isinstance(meta.provenance, dict):
        raise ValueError("provenance must be an object")


def _check_parts(meta: StoreMeta) -> None:
    """Check the numbers of shards and rows, and the digests."""
    numbers = (meta.n_rows, meta.n_parts, meta.first_part)
    if not (
        _is_count(meta.n_rows, _MOST_ROWS)
        and _is_count(meta.n_parts, meta.n_rows)
        and _is_count(meta.first_part, _LAST_PART + 1 - meta.n_parts, least=0)
    ):
        raise ValueError(f"n_rows, n_parts and first_part are {str(numbers)[:60]}")
    for digest in (meta.digest, meta.earlier or meta.digest):
        if not isinstance(digest, str) or not _SHA256.fullmatch(digest):
            raise ValueError(f"{str(digest)[:20]} is not a sha256")


def _check_shard(shard: Shard, meta: StoreMeta) -> None:
    """Check a shard; its name never points outside the store."""
    if not isinstance(shard.name, str) or not SHARD_NAME.fullmatch(shard.name):
        raise ValueError(f"{str(shard.name)[:40]!r} is not the name of a shard")
    if not _is_count(shard.n_rows, _MOST_ROWS):
        raise ValueError(f"{shard.name} has {str(shard.n_rows)[:20]} rows")
    if not isinstance(shard.files, dict) or set(shard.files) != set(meta.columns):
        raise ValueError(f"{shard.name} has other arrays than the store")
    if not isinstance(shard.names, dict) or set(shard.names) != set(meta.name_types):
        raise ValueError(f"{shard.name} has other names than the store")
    for name, listed in shard.names.items():
        _check_listed(listed, (meta.name_types[name],))


def _check_listed(listed: Any, types: tuple[str, ...]) -> None:
    """Check a list of different names."""
    if not isinstance(listed, list) or _types(listed) not in types:
        raise ValueError(f"names must be a list of {' or '.join(types)}")
    if len(set(listed)) < len(listed):
        raise ValueError("a name is listed twice")
    if isinstance(listed[0], int):
        if not -_LARGEST_INTEGER - 1 <= min(listed) <= max(listed) <= _LARGEST_INTEGER:
            raise ValueError("an integer among the names has more than 64 bits")
        return
    try:
        check_names(listed, "the list of names")
    except InputError as error:
        raise ValueError(str(error).rstrip(".")) from error


def _is_count(value: Any, most: int, least: int = 1) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
