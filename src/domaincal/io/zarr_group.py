"""A Zarr group of arrays: opened, checked, and read in ranges of rows."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from domaincal._files import DAMAGED, decoding
from domaincal._memory import MemoryLimit, file_size
from domaincal._optional import require
from domaincal._row_arrays import RowArray
from domaincal._typing import Array, IntArray
from domaincal.errors import FileFormatError, MissingDependencyError
from domaincal.io.addresses import address_of, shown
from domaincal.io.raw_data import ARRAYS, CODED
from domaincal.io.thread_values import ThreadValues
from domaincal.io.zarr_changes import ChunkFiles, GroupAttributes

FORMAT = "domaincal zarr"
VERSION = 1
#: Attribute of the group with the names and the provenance.
KEY = "domaincal"
# Codecs whose decoding runs no code of the file. The codecs of version 2 have identifiers.
_CODECS = {
    "bytes", "blosc", "bz2", "crc32", "crc32c", "delta", "fixedscaleoffset", "gzip", "lz4", "lzma",
    "sharding_indexed", "shuffle", "transpose", "vlen-bytes", "vlen-utf8", "zlib", "zstd",
    "adler32", "fletcher32",
}  # fmt: skip
_CURE = "restore it, or write it again"


def require_zarr(path: Path) -> Any:
    """Import zarr, and fsspec for an address; or raise the error that says how to install it."""
    address = address_of(path)
    if address is not None:
        fsspec = require("fsspec", extra="zarr", purpose=f"the address {address}")
        protocol = address.partition(":")[0]
        try:
            fsspec.get_filesystem_class(protocol)
        except ValueError as error:
            raise MissingDependencyError(
                f"{address} has the protocol {protocol!r}, which fsspec does not know; install a "
                "package for it, or give a path or another address, such as "
                "s3://bucket/scores.zarr."
            ) from error
        except ImportError as error:  # names the package
            raise MissingDependencyError(f"{address} needs a package: {error}.") from error
    return require("zarr", extra="zarr", purpose=".zarr")


@dataclass(frozen=True)
class ZarrGroup:
    """A group with the arrays of rows.

    Attributes
    ----------
    path : Path
        Path, or address, in errors.
    arrays : mapping from names to arrays of zarr
    attributes : mapping
        Names and provenance, of a group that :func:`write_zarr` wrote; else empty.
    is_own : bool
        Whether :func:`write_zarr` wrote it.
    """

    path: Path
    arrays: Mapping[str, Any]
    attributes: Mapping[str, Any]
    is_own: bool

    @classmethod
    def open(cls, path: Path) -> ZarrGroup:
        """Open a group; nothing but its metadata is read."""
        zarr = require_zarr(path)
        name = shown(path)
        try:
            with decoding(name, DAMAGED):
                # The workers of a cluster have another folder.
                place = address_of(path) or os.path.abspath(path)
                group = zarr.open_group(place, mode="r")
                attributes = dict(group.attrs).get(KEY)
                arrays = dict(group.arrays())
        except FileFormatError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise FileFormatError(f"{name} is no group of Zarr; {DAMAGED}.") from error
            raise
        found = cls(path, arrays, _checked_attributes(attributes, name), attributes is not None)
        for array in arrays:
            found.require_safe(array)
        return found

    def label(self, array: str) -> str:
        """An array in errors."""
        return f"the array {array!r} of {shown(self.path)}"

    def require_safe(self, array: str) -> None:
        """Refuse codecs whose decoding could run code, such as pickle."""
        metadata = self.arrays[array].metadata
        codecs = [
            *(getattr(metadata, "filters", None) or ()),
            getattr(metadata, "compressor", None),
        ]
        for codec in [*codecs, *_nested(getattr(metadata, "codecs", ()))]:
            name = _codec_name(codec)
            if codec is not None and name not in _CODECS:
                raise FileFormatError(
                    f"{self.label(array)} has the codec {name!r}, which is not read: it could run "
                    "code; write it with another one, such as zstd."
                )

    def n_bytes(self) -> int:
        """Bytes of the stored chunks."""
        if address_of(self.path) is None:
            return file_size(self.path)
        return sum(int(array.nbytes_stored()) for array in self.arrays.values())

    def rows(self, array: str, codes: IntArray | None = None) -> ZarrRows:
        """An array that is read in ranges of rows; all of its chunks must be there."""
        values = self.arrays[array]
        # Other writers leave chunks out that hold nothing but the fill value, such as label 0.
        is_complete = self.is_own or np.dtype(values.dtype).kind not in "iub"
        rows = ZarrRows(
            values, self.label(array), codes, is_complete=is_complete, state=self._state(array)
        )
        rows.require_chunks()
        return rows

    def _state(self, array: str) -> ChunkFiles | GroupAttributes | None:
        """What tells that an array was changed; None for other groups than ours at an address."""
        address = address_of(self.path)
        if address is None:
            return ChunkFiles(self.arrays[array], self.label(array))
        return GroupAttributes(address, KEY, self.attributes) if self.is_own else None

    def require_equal_lengths(self, names: Sequence[str]) -> None:
        """Refuse arrays of different lengths, or without any dimension."""
        flat = next((name for name in names if not self.arrays[name].shape), None)
        if flat is not None:
            raise FileFormatError(f"{self.label(flat)} has no dimension; {_CURE}.")
        lengths = {name: self.arrays[name].shape[0] for name in names}
        first = names[0]
        other = next((name for name in names if lengths[name] != lengths[first]), None)
        if other is not None:
            raise FileFormatError(
                f"{self.label(other)} has {lengths[other]} rows, but {first!r} has "
                f"{lengths[first]}; {_CURE}."
            )

    def require_own_types(self) -> None:
        """Refuse arrays of another type or shape than :func:`write_zarr` gives them."""
        for name in ("logits", *(name for name in self.arrays if name in ARRAYS)):
            if name not in self.arrays:
                raise FileFormatError(f"{self.label(name)} is missing; {_CURE}.")
            values = self.arrays[name]
            kinds, n_dimensions = ("iu", 1) if name in ("labels", *CODED) else ("fiu", 2)
            dtype = np.dtype(values.dtype)
            if dtype.kind not in kinds or len(values.shape) != n_dimensions:
                numbers = "integers" if kinds == "iu" else "numbers"
                raise FileFormatError(
                    f"{self.label(name)} has the dtype {dtype} and the shape {values.shape}, not "
                    f"{numbers} in {n_dimensions} dimension{'s' * (n_dimensions > 1)}; {_CURE}."
                )
        for name, key in CODED.items():
            if name in self.arrays and self.attributes.get(key) is None:
                raise FileFormatError(
                    f"{self.label(name)} has codes, but the group has no {key}; {_CURE}."
                )
        for name, key in (("logits", "class_names"), ("features", "feature_names")):
            names = self.attributes.get(key)
            columns = self.arrays[name].shape[1] if name in self.arrays else 0
            if names is not None and len(names) != columns:
                raise FileFormatError(
                    f"{self.label(name)} has {columns} columns, but the group has {len(names)} "
                    f"{key}; {_CURE}."
                )

    def require_memory(self, names: Sequence[str], limit: MemoryLimit) -> None:
        """Refuse chunks that are larger than the memory that reading may take."""
        for name in names:
            values = self.arrays[name]
            size = np.dtype(values.dtype).itemsize
            limit.require(size * int(np.prod(values.chunks, dtype=object)))


class ZarrRows(RowArray):
    """An array of a Zarr group. Each thread keeps the chunk that it read last.

    Parameters
    ----------
    values : array of zarr
    label : str
        Name of the array in errors.
    codes : array, optional
        Number of the name for each code in the array.
    is_complete : bool, default True
        Whether a missing chunk is an error.
    state : ChunkFiles or GroupAttributes, optional
        What the array was when it was opened; a change is an error.
    """

    def __init__(
        self,
        values: Any,
        label: str,
        codes: IntArray | None = None,
        *,
        is_complete: bool = True,
        state: ChunkFiles | GroupAttributes | None = None,
    ) -> None:
        dtype = np.dtype(values.dtype)
        wide = dtype.kind == "f" and dtype.itemsize > 8
        native = np.dtype(np.float64) if wide else dtype.newbyteorder("=")
        super().__init__(tuple(values.shape), native if codes is None else codes.dtype)
        self._native = native
        self._values = values
        self._label = label
        self._codes = codes
        self._is_complete = is_complete
        self._state = state
        self._chunk_rows = max(1, int(values.chunks[0]))
        self._thread = ThreadValues()

    def read(self, start: int, stop: int) -> Array:
        """Rows from ``start`` to ``stop``."""
        out = np.empty((stop - start, *self.shape[1:]), self._native)
        low = start
        while low < stop:
            number = low // self._chunk_rows
            first = number * self._chunk_rows
            high = min(stop, first + self._chunk_rows)
            out[low - start : high - start] = self._chunk(number)[low - first : high - first]
            low = high
        return out if self._codes is None else self._numbered(out)

    def require_chunks(self) -> None:
        """Refuse an array of which a chunk is missing: zarr would return the fill value."""
        if not self._is_complete:
            return
        with decoding(self._label, DAMAGED):
            there, expected = self._values.nchunks_initialized, self._values.nchunks
        if there < expected:
            raise FileFormatError(
                f"{self._label} lacks {expected - there} of its {expected} chunks; {_CURE} "
                "(with write_empty_chunks=True, if its writer left them out)."
            )

    def _chunk(self, number: int) -> Array:
        """Rows of a chunk, and of the chunks with other columns of the same rows."""
        kept = getattr(self._thread, "chunk", None)
        if kept is not None and kept[0] == number:
            return np.asarray(kept[1])
        first = number * self._chunk_rows
        with decoding(self._label, DAMAGED):
            found = np.asarray(self._values[first : min(first + self._chunk_rows, len(self))])
        fill = self._values.fill_value
        if found.size and (found.flat[0] == fill or found.flat[0] != found.flat[0]):
            self.require_chunks()  # one could have been removed since
        if self._state is not None:
            self._state.require_unchanged(first)
        self._thread.chunk = number, found
        return found

    def _numbered(self, codes: Array) -> Array:
        assert self._codes is not None
        if codes.size and not 0 <= codes.min() <= codes.max() < len(self._codes):
            wrong = codes.min() if codes.min() < 0 else codes.max()
            raise FileFormatError(
                f"{self._label} contains the code {wrong}, but there are {len(self._codes)} names; "
                f"{_CURE}."
            )
        return np.asarray(self._codes[codes])


def _checked_attributes(attributes: Any, name: str) -> dict[str, Any]:
    """Names and provenance of a group of our own; empty for others."""
    if attributes is None:
        return {}
    if not isinstance(attributes, dict) or attributes.get("format") != FORMAT:
        raise FileFormatError(f"{name} has an attribute {KEY!r} that is not ours; {_CURE}.")
    version = attributes.get("version")
    if not isinstance(version, int) or not 1 <= version <= VERSION:
        raise FileFormatError(
            f"{name} has version {str(version)[:20]} of the format, but this domaincal reads up to "
            f"version {VERSION}; upgrade domaincal."
        )
    if attributes.get("complete") is not True:
        raise FileFormatError(f"{name} was not written to its end; write it again.")
    for key in ("class_names", "feature_names", *CODED.values()):
        listed = attributes.get(key)
        types = {type(value) for value in listed} if isinstance(listed, list) else {None}
        allowed = [{str}, {int}] if key in CODED.values() else [{str}]
        if listed is not None and types not in allowed:
            raise FileFormatError(f"the attribute {key} of {name} is no list of names; {_CURE}.")
        if listed is not None and len(set(listed)) < len(listed):
            raise FileFormatError(f"the attribute {key} of {name} has a name twice; {_CURE}.")
    if not isinstance(attributes.get("provenance", {}), dict):
        raise FileFormatError(f"the attribute provenance of {name} is no object; {_CURE}.")
    return attributes


def _nested(codecs: Sequence[Any]) -> list[Any]:
    """Codecs, and those inside of shards."""
    found: list[Any] = []
    for codec in codecs:
        found.append(codec)
        found += _nested(getattr(codec, "codecs", ()))
        found += _nested(getattr(codec, "index_codecs", ()))
    return found


def _codec_name(codec: Any) -> str:
    """Identifier of a codec of version 2 or 3."""
    if getattr(codec, "codec_id", None) is not None:
        return str(codec.codec_id)
    described = codec.to_dict() if hasattr(codec, "to_dict") else {}
    return str(described.get("name", type(codec).__name__)).removeprefix("numcodecs.")
