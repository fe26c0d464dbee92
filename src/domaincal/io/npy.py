"""Arrays in ``.npy`` format, with a check of the header against the size of the file."""

from __future__ import annotations

import hashlib
import os
from io import BufferedReader
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np
from numpy.lib import format as npy

from domaincal._files import DAMAGED, decoding
from domaincal._typing import Array
from domaincal.errors import FileFormatError


def read_npy_header(
    stream: IO[bytes], size: int, name: str
) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, Fortran order and dtype of an array whose file or zip entry has ``size`` bytes.

    numpy allocates whatever the header promises and ignores bytes beyond it, so that the size must
    be compared before :func:`numpy.lib.format.read_array` is called.
    """
    try:
        version = npy.read_magic(stream)
        if version == (1, 0):
            shape, fortran, dtype = npy.read_array_header_1_0(stream)
        elif version == (2, 0):
            shape, fortran, dtype = npy.read_array_header_2_0(stream)
        else:
            raise ValueError(f"version {version[0]}.{version[1]} of the format is unknown")
    except Exception as error:  # of many classes: numpy does not wrap those of its parser
        raise FileFormatError(f"{name} is not a readable .npy array ({error}).") from error
    if dtype.itemsize == 0:
        raise FileFormatError(f"{name} holds {dtype}, which has no bytes.")
    if dtype.hasobject or dtype.names is not None:
        raise FileFormatError(
            f"{name} holds Python objects or records ({dtype}), which are not read: they can run "
            "code; convert them to numbers or strings, e.g. with .astype(str)."
        )
    expected = dtype.itemsize
    for length in shape:
        expected *= length
    if expected != size - stream.tell():
        raise FileFormatError(
            f"{name} is truncated or damaged: shape {shape} of {dtype} needs {expected} bytes, "
            f"there are {size - stream.tell()}."
        )
    return shape, fortran, dtype


def read_npy_file(path: Path) -> Array:
    """Array of a ``.npy`` file, in C order."""
    with open(path, "rb") as file, decoding(path, DAMAGED):
        read_npy_header(file, path.stat().st_size, str(path))
        file.seek(0)
        return np.asarray(npy.read_array(file, allow_pickle=False), order="C")


def read_into(file: BufferedReader, out: Array, name: str) -> None:
    """Read the bytes that follow into a contiguous array, without a temporary array."""
    view = out.reshape(-1).view(np.uint8).data
    missing = len(view) - file.readinto(view)
    if missing:
        raise FileFormatError(f"{name} is truncated: {missing} bytes are missing.")


def write_npy(path: Path, values: Array) -> str:
    """Write an array and sync it to the disk; return the sha256 of the file."""
    with open(path, "wb") as file:
        hashing = _HashingFile(file)
        np.save(hashing, np.asarray(values, order="C"), allow_pickle=False)
        file.flush()
        os.fsync(file.fileno())
    return hashing.digest.hexdigest()


class _HashingFile:
    """File that hashes the bytes it writes.

    It also keeps the error number of a full disk, which :func:`numpy.save` drops for a plain file.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def write(self, data: bytes) -> int:
        """Write and hash."""
        self.digest.update(data)
        return self._file.write(data)
