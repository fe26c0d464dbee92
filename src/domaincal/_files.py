"""Files and folders that are the old ones or the new ones, never half of one; tensor files."""

import errno
import fcntl
import hashlib
import json
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from domaincal._typing import Array
from domaincal.errors import DomaincalError, FileFormatError, InputError

#: What may have happened to a file that is not what its suffix says.
DAMAGED = "it may be truncated, damaged or of another format"
#: The entry ``format`` in the metadata of a network file.
NETWORK_FORMAT = "domaincal network"

_TENSOR_TYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?", "BF16": "<u2",
}  # fmt: skip


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write: at the end it takes the place of ``path``; after an error there is no trace.

    The bytes are on the disk before the name changes. What a killed writer of the same path left
    behind is removed.
    """
    target = _target(path)
    if target.exists() and not target.is_file():
        kind = "a folder" if target.is_dir() else "no plain file"
        raise InputError(f"{path} is {kind}; give the name of a file.")
    name, handle = _new_temporary(target, _create_file)
    with open(handle, "w+b") as file:
        try:
            if target.exists():
                with suppress(OSError):  # the rights stay those of the file that is replaced
                    os.chmod(name, stat.S_IMODE(target.stat().st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
            os.replace(name, target)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(name)
            raise
    sync_folder(target.parent)


@contextmanager
def atomic_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A new folder to fill: at the end it gets the name ``path``; after an error there is no trace.

    Files in it are written with :func:`atomic_file` or synced by their writer.
    """
    target = _target(path)
    name, handle = _new_temporary(target, _create_folder)
    try:
        yield name
        sync_folder(name)
        os.rename(name, target)
    except BaseException:
        shutil.rmtree(name, ignore_errors=True)
        raise
    finally:
        os.close(handle)
    sync_folder(target.parent)


@contextmanager
def locked_folder(path: Path) -> Iterator[None]:
    """Nobody else who asks for it has the folder meanwhile, in whatever process."""
    handle = os.open(path, os.O_RDONLY)
    try:
        _lock(handle)
        yield
    finally:
        os.close(handle)


def sync_folder(path: Path) -> None:
    """Bring the names in a folder to the disk."""
    with suppress(OSError):  # some file systems cannot
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_tensors(
    path: str | os.PathLike[str], tensors: Mapping[str, Array], metadata: Mapping[str, str]
) -> None:
    """Write arrays and texts to a ``.safetensors`` file, atomically."""
    from safetensors.numpy import save

    arrays = {name: np.asarray(values, order="C") for name, values in tensors.items()}
    content = save(arrays, dict(metadata))
    with atomic_file(path) as file:
        file.write(content)


def read_tensors(path: str | os.PathLike[str]) -> tuple[dict[str, Array], dict[str, str]]:
    """Arrays and texts of a ``.safetensors`` file; bfloat16 becomes float32."""
    header, start = _tensor_header(path)
    metadata = header.pop("__metadata__", {})
    tensors = {}
    with open(path, "rb") as file, decoding(path, DAMAGED):
        for name, entry in header.items():
            kind = entry["dtype"]
            if kind not in _TENSOR_TYPES:
                raise FileFormatError(
                    f"{path} holds the tensor {name!r} of type {kind}, which is not supported; "
                    "store it as float32."
                )
            file.seek(start + entry["data_offsets"][0])
            dtype = np.dtype(_TENSOR_TYPES[kind])
            values = np.fromfile(file, dtype, int(np.prod(entry["shape"], dtype=object)))
            if kind == "BF16":  # the upper half of a float32
                values = (values.astype(np.uint32) << np.uint32(16)).view(np.float32)
            tensors[name] = values.reshape(entry["shape"])
    return tensors, metadata


def read_tensor_metadata(path: str | os.PathLike[str]) -> dict[str, str]:
    """Texts of a ``.safetensors`` file."""
    return dict(_tensor_header(path)[0].get("__metadata__", {}))


@contextmanager
def decoding(path: str | os.PathLike[str], cure: str) -> Iterator[None]:
    """Decoders fail on bad bytes with errors of many classes: here, with one."""
    try:
        yield
    except (DomaincalError, MemoryError):
        raise
    except Exception as error:
        # A damaged file makes them seek before its start; any other number is the disk's own.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise FileFormatError(f"{path} cannot be read ({reason}); {cure}.") from error


def _tensor_header(path: str | os.PathLike[str]) -> tuple[dict[str, Any], int]:
    """What the header says, and where the tensors start."""
    from safetensors import safe_open

    with open(path, "rb") as file, decoding(path, DAMAGED):
        # The library checks the header, the places of the tensors and the length of the file.
        with safe_open(os.fspath(path), framework="np"):
            pass
        length = int.from_bytes(file.read(8), "little")
        return dict(json.loads(file.read(length))), 8 + length


def _target(path: str | os.PathLike[str]) -> Path:
    """Where to write: links are followed, and the folder must be there."""
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise InputError(f"there is no folder {Path(path).parent} to write {path}; create it.")
    return target


def _new_temporary(target: Path, create: Callable[[Path], int]) -> tuple[Path, int]:
    """Something new beside the target, and locked; what killed writers left there is removed."""
    # Of fixed length: the target's own name may be as long as names can be.
    digest = hashlib.sha256(os.fsencode(target.name)).hexdigest()
    stem = f".domaincal-{digest[:12]}"
    for left in target.parent.glob(f"{stem}-*.tmp"):
        _remove_unless_locked(left)
    while True:
        name = target.parent / f"{stem}-{secrets.token_hex(6)}.tmp"
        try:
            handle = create(name)
        except FileNotFoundError:
            if target.parent.is_dir():
                continue  # another writer took the new folder for a leftover
            raise
        except OSError as error:  # the name that the user knows
            raise OSError(error.errno, error.strerror, str(target)) from error
        _lock(handle)
        if name.exists():
            return name, handle
        os.close(handle)  # another writer took it for a leftover before it was locked


def _create_file(name: Path) -> int:
    return os.open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666)


def _create_folder(name: Path) -> int:
    name.mkdir()
    return os.open(name, os.O_RDONLY)


def _remove_unless_locked(path: Path) -> None:
    """Remove what a killed writer left: a living one holds the lock."""
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        finally:
            os.close(handle)


def _lock(handle: int) -> None:
    with suppress(OSError):  # some file systems have no locks
        fcntl.flock(handle, fcntl.LOCK_EX)
