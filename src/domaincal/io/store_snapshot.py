"""Rows of a store as one ``meta.json`` describes them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np

from domaincal._files import open_file
from domaincal._memory import MemoryLimit
from domaincal._typing import Array
from domaincal.errors import FileFormatError, InputError
from domaincal.io.npy import read_into, read_npy_header
from domaincal.io.raw_data import CODED, RawData, named_rows
from domaincal.io.store_meta import CURE, Shard, StoreMeta, earlier_shards, next_digest, part_name

META = "meta.json"
SHARD = "shard.json"
#: The ``meta.json`` of version 1 or 2 of a store to which rows were appended since.
EARLIER = "earlier.json"

# Decoded JSON takes at most so many times its size, which empty lists and objects do.
_JSON_TIMES = 32
# Bytes that a name of a domain or group takes while JSON is decoded: in lists, and its text.
_BYTES_OF_NAME = 150
_BYTES_OF_CHARACTER = 6


@dataclass(frozen=True)
class StoreSnapshot:
    """Rows that a ``meta.json`` lists; a file is missing once a writer has replaced the rows."""

    path: Path
    meta_content: bytes
    max_memory: float | str | None = None

    @classmethod
    def of(cls, path: Path, max_memory: float | str | None = None) -> StoreSnapshot:
        """Rows that the store has now."""
        return cls(path, _content(path, path / META, max_memory), max_memory)

    @cached_property
    def meta(self) -> StoreMeta:
        """Properties of the rows."""
        return StoreMeta.from_json(self.meta_content, self.path / META)

    @cached_property
    def shards(self) -> list[Shard]:
        """All shards."""
        return self._shards_and_size[0]

    @cached_property
    def _shards_and_size(self) -> tuple[list[Shard], int]:
        """All shards, and the bytes of their JSON files.

        A name that occurs in many shards takes memory once.
        """
        shards, size, digest = [], 0, self.meta.earlier or ""
        if self.meta.earlier is not None:
            content, path = self._earlier()
            shards, size = earlier_shards(content, path), len(content)
        known: dict[Any, Any] = {}
        for number in range(self.meta.first_part, self.meta.next_part):
            path = self.path / part_name(number) / SHARD
            content = _content(self.path, path, self.max_memory)
            size, digest = size + len(content), next_digest(digest, content)
            shard = Shard.from_json(content, path, self.meta)
            for listed in shard.names.values():
                listed[:] = [known.setdefault(name, name) for name in listed]
            shards.append(shard)
        found = sum(shard.n_rows for shard in shards)
        if digest != self.meta.digest or found != self.meta.n_rows:
            raise FileFormatError(
                f"{self.path} has changed since it was written: its {SHARD} files do not have the "
                f"checksum of {META}; {CURE}."
            )
        return shards, size

    def _earlier(self) -> tuple[bytes, Path]:
        """The ``meta.json`` of version 1 or 2, and its path."""
        if not self.meta.n_parts:
            return self.meta_content, self.path / META
        path = self.path / EARLIER
        content = _content(self.path, path, self.max_memory)
        if hashlib.sha256(content).hexdigest() != self.meta.earlier:
            raise FileFormatError(
                f"{path} has changed since it was written: its checksum differs; restore it."
            )
        return content, path

    def raw_data(self) -> RawData:
        """All rows as they are stored; the memory for them is checked first."""
        size = self.check() + self._shards_and_size[1]
        MemoryLimit.of(self.path, self.max_memory, size=size).require(self._memory_to_read())
        names = self.meta.class_names, self.meta.feature_names
        class_names, feature_names = (None if listed is None else tuple(listed) for listed in names)
        return RawData(
            "store", {name: self._array(name) for name in self.meta.columns},
            class_names=class_names, feature_names=feature_names, provenance=self.meta.provenance,
            has_indices=True,
        )  # fmt: skip

    def array(self, name: str) -> Array | None:
        """One array of all rows, or None."""
        if name not in self.meta.columns:
            return None
        self.check([name])
        return self._array(name)

    def check(self, names: Iterable[str] | None = None) -> int:
        """Compare the headers of the files with ``meta.json``; return the bytes of the files."""
        return sum(
            self._check_file(shard, name)
            for name in (self.meta.columns if names is None else names)
            for shard in self.shards
        )

    def verify(self) -> None:
        """Compare the checksums of the files."""
        for shard in self.shards:
            for name, expected in shard.files.items():
                path = self.path / shard.name / f"{name}.npy"
                with _open(self.path, path) as file:
                    found = hashlib.file_digest(file, "sha256").hexdigest()
                if found != expected:
                    raise FileFormatError(
                        f"{path} has changed since it was written: its checksum is {found[:12]}... "
                        f"instead of {str(expected)[:12]}...; {CURE}."
                    )

    def _array(self, name: str) -> Array:
        total, columns = self.meta.n_rows, self.meta.columns[name]
        dtype = np.dtype(self.meta.dtypes[name])
        coded = name in CODED
        out = np.empty(
            (total,) if columns is None else (total, columns), np.int64 if coded else dtype
        )
        start = first = 0
        names: list[Any] = []
        listed = None
        for shard in self.shards:
            rows = out[start : start + shard.n_rows]
            start += shard.n_rows
            if not coded:
                self._read_file(shard, name, rows)
                continue
            if listed is not shard.names[name]:  # shards of versions 1 and 2 share their names
                listed = shard.names[name]
                first = len(names)
                names += listed
            codes = np.empty(shard.n_rows, dtype)
            self._read_file(shard, name, codes)
            if not 0 <= codes.min() <= codes.max() < len(listed):
                raise FileFormatError(
                    f"{self.path / shard.name} has codes of {name} that have no name; restore it."
                )
            rows[:] = codes
            rows += first
        return named_rows(out, names, name) if coded else out

    def _memory_to_read(self) -> int:
        """Bytes that reading and checking all rows takes at its peak."""
        needed, arrays = 0, {}
        for name, columns in self.meta.columns.items():
            dtype = np.dtype(self.meta.dtypes[name])
            if name in CODED:
                dtype = np.dtype(np.int64)  # as large as the references to names
                needed += self._memory_of_names(name)
            shape = (self.meta.n_rows,) if columns is None else (self.meta.n_rows, columns)
            arrays[name] = np.broadcast_to(np.zeros((), dtype), shape)  # takes no memory
        return needed + RawData("store", arrays).peak_bytes()

    def _memory_of_names(self, name: str) -> int:
        """Bytes that the names of domains or groups take."""
        # Shards of versions 1 and 2 share one list.
        lists = {id(shard.names[name]): shard.names[name] for shard in self.shards}.values()
        is_text = self.meta.name_types[name] == "str"
        n_characters = sum(sum(map(len, listed)) for listed in lists) if is_text else 0
        n_names = sum(map(len, lists))
        return n_names * _BYTES_OF_NAME + n_characters * _BYTES_OF_CHARACTER

    def _check_file(self, shard: Shard, name: str) -> int:
        """Compare the header of a file with ``meta.json``; return the size of the file."""
        path = self.path / shard.name / f"{name}.npy"
        with _open(self.path, path) as file:
            size = os.fstat(file.fileno()).st_size
            shape, fortran, dtype = read_npy_header(file, size, str(path))
        columns = self.meta.columns[name]
        expected = (shard.n_rows,) if columns is None else (shard.n_rows, columns)
        if shape != expected or dtype != np.dtype(self.meta.dtypes[name]) or fortran:
            order = " in Fortran order" if fortran else ""
            raise FileFormatError(
                f"{path} holds {shape} of {dtype}{order}, but {META} says {expected} of "
                f"{self.meta.dtypes[name]}; {CURE}."
            )
        return size

    def _read_file(self, shard: Shard, name: str, out: Array) -> None:
        path = self.path / shard.name / f"{name}.npy"
        with _open(self.path, path) as file:
            file.seek(-out.nbytes, os.SEEK_END)  # check() has compared the header
            read_into(file, out, str(path))


def _content(store: Path, path: Path, max_memory: float | str | None) -> bytes:
    """Content of a JSON file of a store."""
    with _open(store, path) as file:
        size = os.fstat(file.fileno()).st_size
        MemoryLimit.of(path, max_memory, size=size).require(_JSON_TIMES * size)
        return file.read()


def _open(store: Path, path: Path) -> BufferedReader:
    try:
        return open_file(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        if not store.exists():
            raise FileNotFoundError(f"there is no store {store}.") from error
        if path.parent != store:
            raise FileFormatError(f"{path} is missing from the store; {CURE}.") from error
        raise FileFormatError(
            f"{path} is missing: {store} is neither a complete store nor a folder of "
            "logits.npy, labels.npy and so on; choose another folder."
        ) from error
    except InputError as error:  # a pipe or a folder
        raise FileFormatError(f"{path} is not a regular file; {CURE}.") from error
