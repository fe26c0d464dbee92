"""``.npz``: one file of named arrays, for small data sets."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from domaincal._files import DAMAGED, atomic_file, decoding
from domaincal._typing import Array
from domaincal.data import CalibrationData
from domaincal.errors import FileFormatError, InputError
from domaincal.io.npy import read_npy_header
from domaincal.io.raw_data import ARRAYS, RawData, arrays_of, require_plausible_size

_DESCRIBING = ("class_names", "feature_names", "provenance")


def read_npz(path: Path) -> RawData:
    """Arrays of an ``.npz`` file; the checksums of the zip format are always compared."""
    with open(path, "rb") as file, decoding(path, DAMAGED), zipfile.ZipFile(file) as archive:
        members = {entry.filename: entry for entry in archive.infolist()}
        if len(members) != len(archive.infolist()):
            raise FileFormatError(f"{path} holds two entries of the same name; write it again.")
        for name in members:
            if "/" in name or "\\" in name or name.startswith("."):
                raise FileFormatError(
                    f"{path} holds the entry {name!r}, which is not the name of an array."
                )
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
                read_npy_header(stream, entry.file_size, f"{name!r} of {path}")
            with archive.open(entry) as stream:
                arrays[name] = np.asarray(npy.read_array(stream, allow_pickle=False), order="C")
    class_names, feature_names, provenance = (arrays.pop(name, None) for name in _DESCRIBING)
    known = {f"{name}.npy" for name in wanted}
    return RawData(
        ".npz",
        arrays,
        class_names=None if class_names is None else _texts(class_names, "class_names"),
        feature_names=None if feature_names is None else _texts(feature_names, "feature_names"),
        provenance={} if provenance is None else _json(provenance),
        ignored=tuple(sorted(name.removesuffix(".npy") for name in members if name not in known)),
    )


def write_npz(data: CalibrationData, path: Path) -> None:
    """Write without compression: floats hardly shrink, and reading takes five times as long."""
    save_npz(path, {**arrays_of(data), **_description(data)})


def save_npz(path: Path, arrays: dict[str, Array]) -> None:
    """Write named arrays to an ``.npz`` file, atomically."""
    with atomic_file(path) as file:
        np.savez(file, allow_pickle=False, **arrays)


def _description(data: CalibrationData) -> dict[str, Array]:
    out = {}
    if data.class_names is not None:
        out["class_names"] = np.array(data.class_names)
    if data.feature_names is not None:
        out["feature_names"] = np.array(data.feature_names)
    if data.provenance:
        out["provenance"] = np.array(json.dumps(data.provenance))
    return out


def _texts(values: Array, name: str) -> tuple[str, ...]:
    if values.dtype.kind != "U" or values.ndim != 1:
        raise InputError(f"{name} must be a 1-D array of strings, got {values.dtype}.")
    return tuple(values.tolist())


def _json(values: Array) -> dict[str, object]:
    try:
        return dict(json.loads(str(values)))
    except (ValueError, TypeError) as error:
        raise InputError(f"provenance must be a JSON object ({error}).") from error
