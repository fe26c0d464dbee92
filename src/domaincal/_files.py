"""Atomic writes and safetensors helpers."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from filelock import FileLock

from domaincal._typing import Array
from domaincal.errors import DomaincalError, FileFormatError, InputError

#: Possible reasons why a file cannot be decoded, for error messages.
DAMAGED = "it may be truncated, damaged or of another format"
#: The entry ``format`` in the metadata of a network file.
NETWORK_FORMAT = "domaincal network"

_TENSOR_DTYPES = {
    "F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U64", "U32", "U16", "U8", "BOOL",
}  # fmt: skip


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces ``path`` at the end, or is removed after an error.

    The bytes are on the disk before the name changes. Temporary files that killed writers of the
    same path left behind are removed.
    """
    target = _target(path)
    if target.exists() and not target.is_file():
        found = "a folder" if target.is_dir() else "not a regular file"
        raise InputError(f"{path} is {found}; give the name of a file.")
    with _temporary(target) as name:
        with open(name, "x+b") as file:
            if target.exists():
                with suppress(OSError):  # keep the permissions of the replaced file
                    os.chmod(name, stat.S_IMODE(target.stat().st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, target)
    sync_folder(target.parent)


@contextmanager
def atomic_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Create a temporary folder that is renamed to ``path`` at the end, or removed after an error.

    The caller syncs the files in it, or writes them with :func:`atomic_file`.
    """
    target = _target(path)
    with _temporary(target) as name:
        name.mkdir()
        yield name
        sync_folder(name)
        os.rename(name, target)
    sync_folder(target.parent)


def sync_folder(path: Path) -> None:
    """Write the directory entries of a folder to the disk."""
    with suppress(OSError):  # not supported by some file systems, nor by Windows
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_tensors(
    path: str | os.PathLike[str], tensors: Mapping[str, Array], metadata: Mapping[str, str]
) -> None:
    """Write arrays and metadata to a ``.safetensors`` file, atomically."""
    from safetensors.numpy import save

    arrays = {name: np.asarray(values, order="C") for name, values in tensors.items()}
    content = save(arrays, dict(metadata))
    with atomic_file(path) as file:
        file.write(content)


def read_tensors(path: str | os.PathLike[str]) -> tuple[dict[str, Array], dict[str, str]]:
    """Arrays and metadata of a ``.safetensors`` file; bfloat16 becomes float32."""
    from safetensors import deserialize

    with open(path, "rb") as file, decoding(path, DAMAGED), _safe_open(path) as content:
        metadata = dict(content.metadata() or {})
        dtypes = {name: content.get_slice(name).get_dtype() for name in content.keys()}  # noqa: SIM118
        for name, dtype in dtypes.items():
            if dtype not in _TENSOR_DTYPES:
                raise FileFormatError(
                    f"{path} holds the tensor {name!r} of dtype {dtype}, which is not supported; "
                    "store it as float32."
                )
        tensors = {
            name: content.get_tensor(name) for name, dtype in dtypes.items() if dtype != "BF16"
        }
        if len(tensors) < len(dtypes):  # numpy has no bfloat16: take the bytes
            for name, entry in deserialize(file.read()):  # type: ignore[no-untyped-call]
                if entry["dtype"] == "BF16":
                    upper_half = np.frombuffer(entry["data"], "<u2").astype(np.uint32)
                    values = (upper_half << np.uint32(16)).view(np.float32)
                    tensors[name] = values.reshape(entry["shape"])
    return tensors, metadata


def read_tensor_metadata(path: str | os.PathLike[str]) -> dict[str, str]:
    """Metadata of a ``.safetensors`` file."""
    with open(path, "rb"), decoding(path, DAMAGED), _safe_open(path) as content:
        return dict(content.metadata() or {})


@contextmanager
def decoding(path: str | os.PathLike[str], cure: str) -> Iterator[None]:
    """Turn the many errors of decoders of damaged files into a FileFormatError."""
    try:
        yield
    except (DomaincalError, MemoryError):
        raise
    except Exception as error:
        # Decoders of damaged files seek before the start: EINVAL. Other numbers are I/O errors.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise FileFormatError(f"{path} cannot be read ({reason}); {cure}.") from error


def _safe_open(path: str | os.PathLike[str]) -> Any:
    """Open a ``.safetensors`` file; the library checks its header and its length."""
    from safetensors import safe_open

    return safe_open(os.fspath(path), framework="np")


def _target(path: str | os.PathLike[str]) -> Path:
    """Path to write to, with links resolved; its folder must exist."""
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise InputError(f"there is no folder {Path(path).parent} to write {path}; create it.")
    return target


@contextmanager
def _temporary(target: Path) -> Iterator[Path]:
    """Temporary name beside the target; what is left there at the end is removed.

    The writer holds a lock file of the same stem. A lock that is free belongs to a killed writer:
    what it left is removed.
    """
    # Of fixed length: the name of the target may have the maximal length already.
    stem = f".domaincal-{hashlib.sha256(os.fsencode(target.name)).hexdigest()[:12]}"
    for left in target.parent.glob(f"{stem}-*.lock"):
        with file_lock(left, timeout=0.0) as held:
            if held:
                _remove(left.with_suffix(".tmp"))
        if held:
            _remove(left)
    name = target.parent / f"{stem}-{secrets.token_hex(6)}.tmp"
    lock = name.with_suffix(".lock")
    try:
        with file_lock(lock, timeout=1.0):
            try:
                yield name
            except OSError as error:
                if str(error.filename) != str(name):
                    raise
                # The user knows the target only.
                raise OSError(error.errno, error.strerror, str(target)) from error
            finally:
                _remove(name)
    finally:
        _remove(lock)


@contextmanager
def file_lock(path: Path, timeout: float = -1.0) -> Iterator[bool]:
    """Hold a lock file; False if another process holds it or the file system has no locks.

    A negative ``timeout`` waits for the other process.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(FileLock(path, timeout=timeout))
            held = True
        except (OSError, NotImplementedError):  # filelock.Timeout is an OSError
            held = False
        yield held


def _remove(path: Path) -> None:
    """Remove a file or folder, if it exists and the system permits it."""
    with suppress(OSError):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
