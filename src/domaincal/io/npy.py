"""Arrays in numpy's own format, read after their header was compared with their size."""

import hashlib
import os
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from domaincal._files import DAMAGED, decoding
from domaincal._typing import Array
from domaincal.errors import FileFormatError

_WRITTEN_AT_ONCE = 1 << 24


def read_npy_header(
    stream: IO[bytes], size: int, name: str
) -> tuple[tuple[int, ...], bool, "np.dtype[Any]"]:
    """Shape, Fortran order and type of an array of ``size`` bytes in all, header included."""
    try:
        version = npy.read_magic(stream)
        if version == (1, 0):
            shape, fortran, dtype = npy.read_array_header_1_0(stream)
        elif version == (2, 0):
            shape, fortran, dtype = npy.read_array_header_2_0(stream)
        else:
            raise ValueError(f"version {version[0]}.{version[1]} of the format")
    except Exception as error:  # numpy lets errors of its parser through
        raise FileFormatError(f"{name} is no readable .npy array ({error}).") from error
    if dtype.itemsize == 0:
        raise FileFormatError(f"{name} holds {dtype}, which has no content.")
    if dtype.hasobject or dtype.names is not None:
        raise FileFormatError(
            f"{name} holds Python objects or records ({dtype}), which are never read: they can "
            "execute code; convert it to numbers or strings first, e.g. with .astype(str)."
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


def read_npy(stream: IO[bytes], size: int, name: str) -> Array:
    """The array of a stream of ``size`` bytes."""
    shape, fortran, dtype = read_npy_header(stream, size, name)
    out = np.empty(shape[::-1] if fortran else shape, dtype)
    read_into(stream, out, name)
    return np.ascontiguousarray(out.T) if fortran else out


def read_into(stream: IO[bytes], out: Array, name: str) -> None:
    """Fill a contiguous array with the bytes that follow."""
    view = out.reshape(-1).view(np.uint8).data
    done = 0
    while done < len(view):
        got = stream.readinto(view[done : done + (1 << 26)])  # type: ignore[attr-defined]
        if not got:
            raise FileFormatError(f"{name} is truncated: {len(view) - done} bytes are missing.")
        done += got


def read_npy_file(path: Path) -> Array:
    """The array of a ``.npy`` file."""
    with open(path, "rb") as file, decoding(path, DAMAGED):
        return read_npy(file, path.stat().st_size, str(path))


def write_npy(path: Path, values: Array) -> str:
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
