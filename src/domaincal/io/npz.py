"""``.npz``: one file of named arrays, for small data sets."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from domaincal._files import DAMAGED, atomic_file, decoding, open_file
from domaincal._memory import FREE_MEMORY, MemoryLimit, format_size
from domaincal._typing import Array
from domaincal.data import CalibrationData
from domaincal.data.column_choice import ColumnChoice
from domaincal.errors import FileFormatError, InputError
from domaincal.io.npy import NpyHeader, read_npy_header, read_values
from domaincal.io.raw_data import CODED, RawData, arrays_of, named_rows, sources_of

_TEXTS = ("class_names", "feature_names", *CODED.values())
_DESCRIPTION = ("class_names", "feature_names", "provenance")
# Those of numpy. The decoders of the others have no limit for what one call unpacks.
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# Memory of a Python string beside its text; and of decoded JSON, as a multiple of its text.
_STRING = 90
_TIMES_JSON = 20
# The end of a zip file: 22 bytes and a comment.
_LONGEST_END = 22 + 0xFFFF
# Names may take so many times their text when they are padded to the longest.
_TIMES_PADDED = 10


def read_npz(path: Path, limit: MemoryLimit, choice: ColumnChoice) -> RawData:
    """Arrays of an ``.npz`` file; the checksums of the zip format are always compared."""
    with open_file(path) as file, decoding(path, DAMAGED), zipfile.ZipFile(file) as archive:
        members = _members(path, archive)
        stored = {name[:-4]: entry for name, entry in members.items() if name.endswith(".npy")}
        names = choice.array_names(stored)
        places = {name: name for name in _DESCRIPTION if name in stored} | names
        for array in names.keys() & CODED.keys():
            listed = CODED[array] if names[array] == array else f"{names[array]}_names"
            if listed in stored:  # the array holds codes, which are indices of these names
                places[CODED[array]] = listed
        wanted = {array: stored[name] for array, name in places.items()}
        headers = {name: _header(path, archive, name, entry) for name, entry in wanted.items()}
        limit.require(_peak_bytes(headers))
        arrays = {name: _values(path, archive, name, entry) for name, entry in wanted.items()}
    provenance = arrays.pop("provenance", None)
    texts = {name: _texts(arrays.pop(name), name) for name in _TEXTS if name in arrays}
    for name, key in CODED.items():
        if key in texts and name in arrays and arrays[name].dtype.kind in "iu":
            arrays[name] = named_rows(arrays[name], texts[key], name)
    known = {f"{name}.npy" for name in places.values()}
    return RawData(
        ".npz",
        arrays,
        class_names=choice.of_classes() or texts.get("class_names"),
        feature_names=texts.get("feature_names"),
        provenance={} if provenance is None else _json(provenance),
        ignored=tuple(sorted(name.removesuffix(".npy") for name in members if name not in known)),
        sources=sources_of(names),
    )


def write_npz(data: CalibrationData, path: Path) -> None:
    """Write without compression: floats hardly shrink, and reading takes five times as long."""
    arrays = arrays_of(data)
    codes = {"domains": data.domain_codes, "groups": data.group_codes}
    for name, key in CODED.items():
        if name in arrays and arrays[name].dtype.kind == "O":
            arrays[name], names = codes[name]
            arrays[key] = text_array(names.tolist(), key)
    for key in ("class_names", "feature_names"):
        names = getattr(data, key)
        if names is not None:
            arrays[key] = text_array(names, key)
    if data.provenance:
        arrays["provenance"] = np.array(json.dumps(data.provenance))
    save_npz(path, arrays)


def save_npz(path: Path, arrays: dict[str, Array]) -> None:
    """Write named arrays to an ``.npz`` file, atomically."""
    with atomic_file(path) as file:
        np.savez(file, allow_pickle=False, **arrays)


def text_array(texts: Sequence[str], name: str) -> Array:
    """Array of numpy's string dtype; refuse texts of which a few are much longer than the rest."""
    longest = max(map(len, texts), default=0)
    padded, plain = 4 * longest * len(texts), 4 * sum(map(len, texts))
    if padded > max(FREE_MEMORY, _TIMES_PADDED * plain):
        raise InputError(
            f"{name} has {len(texts)} texts, which .npz pads to the longest, of {longest} "
            f"characters: that takes {format_size(padded)}; shorten it, or write .parquet."
        )
    return np.array(texts, dtype=str)


def _members(path: Path, archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Entries by name."""
    members = {entry.filename: entry for entry in archive.infolist()}
    if _listed_entries(archive) != len(archive.infolist()) & 0xFFFF:
        raise FileFormatError(f"{path} is damaged: its list of entries is not complete; {DAMAGED}.")
    if len(members) != len(archive.infolist()):
        raise FileFormatError(f"{path} holds two entries of the same name; write it again.")
    for name, entry in members.items():
        if "/" in name or "\\" in name or name.startswith("."):
            raise FileFormatError(
                f"{path} holds the entry {name!r}, which is not the name of an array."
            )
        if entry.compress_type not in _COMPRESSIONS:
            raise FileFormatError(
                f"{path} holds the entry {name!r}, which is compressed in a way that numpy does "
                "not write; write it again with numpy.savez_compressed."
            )
        # The list of entries has no checksum. Opening one compares its name with its own header:
        # a damaged name would look like another array, which is ignored.
        archive.open(entry).close()
    return members


def _listed_entries(archive: zipfile.ZipFile) -> int:
    """Number of entries that the end of a zip file names, in 16 bits; -1 if it has no end.

    ``zipfile`` does not compare it: a damaged length in the list can swallow the entries after it.
    """
    assert archive.fp is not None
    size = archive.fp.seek(0, 2)
    archive.fp.seek(max(0, size - _LONGEST_END))
    end = archive.fp.read(_LONGEST_END)
    place = end.rfind(b"PK\x05\x06")
    return int.from_bytes(end[place + 10 : place + 12], "little") if place >= 0 else -1


def _header(path: Path, archive: zipfile.ZipFile, name: str, entry: zipfile.ZipInfo) -> NpyHeader:
    with archive.open(entry) as stream:
        return read_npy_header(stream, entry.file_size, f"{name!r} of {path}")


def _values(path: Path, archive: zipfile.ZipFile, name: str, entry: zipfile.ZipInfo) -> Array:
    with archive.open(entry) as stream:
        header = read_npy_header(stream, entry.file_size, f"{name!r} of {path}")
        values = read_values(stream, header, f"{name!r} of {path}")
        stream.read(1)  # compares the checksum
    return values


def _peak_bytes(headers: dict[str, NpyHeader]) -> int:
    """Memory that reading and decoding the arrays takes, at most."""
    total = 0
    for name, header in headers.items():
        total += header.peak_bytes
        if name == "provenance":
            total += _TIMES_JSON * header.n_bytes
        elif name in _TEXTS:
            total += header.n_bytes + _STRING * (header.n_bytes // header.dtype.itemsize)
        elif CODED.get(name) in headers:
            total += 8 * header.n_bytes // header.dtype.itemsize
    return total


def _texts(values: Array, name: str) -> tuple[str, ...]:
    if values.dtype.kind != "U" or values.ndim != 1:
        raise InputError(f"{name} must be a 1-D array of strings, got {values.dtype}.")
    return tuple(values.tolist())


def _json(values: Array) -> dict[str, object]:
    try:
        return dict(json.loads(str(values)))
    except (ValueError, TypeError) as error:
        raise InputError(f"provenance must be a JSON object ({error}).") from error
