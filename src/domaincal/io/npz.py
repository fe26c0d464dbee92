"""``.npz``: one file of named arrays, for small sets."""

import json
import zipfile
from pathlib import Path

import numpy as np

from domaincal._files import DAMAGED, atomic_file, decoding
from domaincal._typing import Array
from domaincal.data import CalibrationData
from domaincal.errors import FileFormatError, InputError
from domaincal.io.npy import read_npy
from domaincal.io.raw_data import ARRAYS, Contents, arrays_of, require_plausible_size

_DESCRIBING = ("class_names", "provenance")


def read_npz(path: Path) -> Contents:
    """Arrays of an ``.npz`` file; the zip's own checksums are always verified."""
    with open(path, "rb") as file, decoding(path, DAMAGED), zipfile.ZipFile(file) as archive:
        members = {entry.filename: entry for entry in archive.infolist()}
        if len(members) != len(archive.infolist()):
            raise FileFormatError(f"{path} holds a name twice; write it again.")
        for name in members:
            if "/" in name or "\\" in name or name.startswith("."):
                raise FileFormatError(f"{path} holds {name!r}, which is no name of an array.")
        wanted = {
            name: members[f"{name}.npy"]
            for name in (*ARRAYS, *_DESCRIBING)
            if f"{name}.npy" in members
        }
        unpacked = sum(entry.file_size for entry in wanted.values())
        require_plausible_size(path, unpacked, path.stat().st_size)
        arrays = {}
        for name, entry in wanted.items():
            with archive.open(entry) as stream:
                arrays[name] = read_npy(stream, entry.file_size, f"{name!r} of {path}")
                stream.read(1)  # the end of the entry: only there is its checksum compared
    class_names, provenance = (arrays.pop(name, None) for name in _DESCRIBING)
    known = {f"{name}.npy" for name in wanted}
    return Contents(
        ".npz",
        arrays,
        class_names=None if class_names is None else _texts(class_names),
        provenance={} if provenance is None else _json(provenance),
        ignored=tuple(sorted(name.removesuffix(".npy") for name in members if name not in known)),
    )


def write_npz(data: CalibrationData, path: Path) -> None:
    """Write the arrays uncompressed: floats hardly shrink, and reading would take five times."""
    save_npz(path, {**arrays_of(data), **_description(data)})


def save_npz(path: Path, arrays: dict[str, Array]) -> None:
    """``numpy.savez``, atomically."""
    with atomic_file(path) as file:
        np.savez(file, allow_pickle=False, **arrays)


def _description(data: CalibrationData) -> dict[str, Array]:
    out = {}
    if data.class_names is not None:
        out["class_names"] = np.array(data.class_names)
    if data.provenance:
        out["provenance"] = np.array(json.dumps(data.provenance))
    return out


def _texts(values: Array) -> tuple[str, ...]:
    if values.dtype.kind != "U" or values.ndim != 1:
        raise InputError(f"class_names must be a 1-D array of strings, got {values.dtype}.")
    return tuple(values.tolist())


def _json(values: Array) -> dict[str, object]:
    try:
        return dict(json.loads(str(values)))
    except (ValueError, TypeError) as error:
        raise InputError(f"provenance is no JSON object ({error}).") from error
