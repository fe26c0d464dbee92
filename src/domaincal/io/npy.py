"""Arrays in ``.npy`` format, with a check of the header against the size of the file."""

from __future__ import annotations

import hashlib
import io
import os
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple, cast

import numpy as np
from numpy.lib import format as npy

from domaincal._files import DAMAGED, decoding, open_file
from domaincal._row_arrays import RowArray
from domaincal._typing import Array
from domaincal.errors import FileFormatError

_LONGEST_HEADER = 10_000
# Streams of zip files decompress what is asked for into a second buffer.
_CHUNK = 1 << 20
_BLOCK_BYTES = 1 << 24


class NpyHeader(NamedTuple):
    """Shape, order and dtype of an array."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]

    @property
    def n_bytes(self) -> int:
        """Bytes of the values."""
        total = self.dtype.itemsize
        for length in self.shape:
            total *= length
        return total

    @property
    def peak_bytes(self) -> int:
        """Memory that :func:`read_values` takes; a copy brings Fortran order into C order."""
        return self.n_bytes * (2 if self.fortran and len(self.shape) > 1 else 1)


def read_npy_header(stream: IO[bytes], size: int, name: str) -> NpyHeader:
    """Header of an array whose file or zip entry has ``size`` bytes; the values are next.

    numpy allocates whatever the header promises and ignores bytes beyond it, so that the size must
    be compared before.
    """
    try:
        found, length = _parsed_header(stream)
    except Exception as error:  # of many classes: numpy does not wrap those of its parser
        reason = " ".join(str(error).split())
        raise FileFormatError(f"{name} is not a readable .npy array ({reason}).") from error
    dtype = found.dtype
    if dtype.itemsize == 0:
        raise FileFormatError(f"{name} holds {dtype}, which has no bytes.")
    if dtype.hasobject or dtype.names is not None:
        raise FileFormatError(
            f"{name} holds Python objects or records ({dtype}), which are not read: they can run "
            "code; convert them to numbers or strings, e.g. with .astype(str)."
        )
    there = size - length
    if found.n_bytes != there or any(length < 0 for length in found.shape):
        raise FileFormatError(
            f"{name} is truncated or damaged: shape {found.shape} of {dtype} needs "
            f"{found.n_bytes} bytes, there are {there}."
        )
    return found


def _parsed_header(stream: IO[bytes]) -> tuple[NpyHeader, int]:
    """Header, and the number of its bytes."""
    start = stream.read(8)
    version = npy.read_magic(io.BytesIO(start))
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"version {version[0]}.{version[1]} of the format is unknown")
    start += stream.read(2 if version == (1, 0) else 4)
    length = int.from_bytes(start[8:], "little")
    if length > _LONGEST_HEADER:  # numpy would read up to 4 GB before it says so
        raise ValueError(f"its header has {length} bytes")
    content = io.BytesIO(start + stream.read(length))
    npy.read_magic(content)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    return NpyHeader(*read(content)), content.tell()


def read_values(stream: IO[bytes], header: NpyHeader, name: str) -> Array:
    """Values that follow the header, in C order."""
    shape = header.shape[::-1] if header.fortran else header.shape
    out = np.empty(shape, header.dtype)
    read_into(stream, out, name)
    return np.asarray(out.transpose(), order="C") if header.fortran else out


def header_of_file(path: Path) -> NpyHeader:
    """Header of a ``.npy`` file."""
    with open_file(path) as file, decoding(path, DAMAGED):
        return read_npy_header(file, os.fstat(file.fileno()).st_size, str(path))


def read_npy_file(path: Path) -> Array:
    """Array of a ``.npy`` file, in C order."""
    with open_file(path) as file, decoding(path, DAMAGED):
        header = read_npy_header(file, os.fstat(file.fileno()).st_size, str(path))
        return read_values(file, header, str(path))


def read_into(stream: IO[bytes], out: Array, name: str) -> None:
    """Read the bytes that follow into a contiguous array, without a temporary array."""
    view = out.reshape(-1).view(np.uint8).data
    position = 0
    while position < len(view):
        taken = stream.readinto(view[position : position + _CHUNK])  # type: ignore[attr-defined]
        if not taken:
            raise _truncated(name, len(view) - position)
        position += taken


def read_at(file: BinaryIO, out: Array, offset: int, name: str) -> None:
    """Read the bytes from ``offset`` on into a contiguous array.

    The position of the file is not used: forked processes share it.
    """
    if not hasattr(os, "preadv"):  # Windows, where processes are not forked
        file.seek(offset)
        read_into(file, out, name)
        return
    view = out.reshape(-1).view(np.uint8).data
    position = 0
    while position < len(view):
        part = view[position : position + _CHUNK]
        taken = os.preadv(file.fileno(), [part], offset + position)
        if not taken:
            raise _truncated(name, len(view) - position)
        position += taken


def _truncated(name: str, n_missing: int) -> FileFormatError:
    return FileFormatError(f"{name} is truncated: {n_missing} bytes are missing.")


def write_npy(path: Path, values: Array | RowArray) -> str:
    """Write an array and sync it to the disk; return the sha256 of the file."""
    with open(path, "wb") as file:
        hashing = _HashingFile(file)
        if isinstance(values, RowArray):
            _write_blocks(hashing, values)
        else:
            np.save(hashing, np.asarray(values, order="C"), allow_pickle=False)
        file.flush()
        os.fsync(file.fileno())
    return hashing.digest.hexdigest()


def _write_blocks(file: _HashingFile, values: RowArray) -> None:
    """Write an array that is read in blocks."""
    header = {
        "descr": npy.dtype_to_descr(values.dtype), "fortran_order": False, "shape": values.shape,
    }  # fmt: skip
    npy.write_array_header_1_0(cast(IO[bytes], file), header)
    size = max(1, _BLOCK_BYTES // max(1, values.row_bytes))
    for start in range(0, len(values), size):
        block = values.read(start, min(start + size, len(values)))
        file.write(np.ascontiguousarray(block, values.dtype).reshape(-1).view(np.uint8).data)


class _HashingFile:
    """File that hashes the bytes it writes.

    It also keeps the error number of a full disk, which :func:`numpy.save` drops for a plain file.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def write(self, data: bytes | memoryview) -> int:
        """Write and hash."""
        self.digest.update(data)
        return self._file.write(data)
