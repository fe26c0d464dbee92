"""Files: regular ones to read, atomic writes, safetensors."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from filelock import FileLock, Timeout

from domaincal.errors import DomaincalError, FileFormatError, InputError

#: Possible reasons why a file cannot be decoded, for error messages.
DAMAGED = "it may be truncated, damaged or of another format"
# Between two tries to get a lock. Writers that follow each other closely leave short gaps.
_POLL_SECONDS = 0.005
# Constants of Linux: paths are relative to the working folder, and two names are exchanged.
_HERE, _EXCHANGE = -100, 2


def open_file(path: str | os.PathLike[str]) -> BufferedReader:
    """Open a regular file for reading; refuse pipes and devices, which can wait for ever."""
    # Opening a pipe would wait for its writer; regular files ignore this flag.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    kind = os.fstat(handle).st_mode
    if not stat.S_ISREG(kind):
        os.close(handle)
        found = "a folder" if stat.S_ISDIR(kind) else "not a regular file"
        raise InputError(f"{path} is {found}; give the name of a file.")
    return open(handle, "rb")


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
    with _temporary(path, target) as name, replacing(target, name) as file:
        yield file


@contextmanager
def replacing(target: Path, name: Path) -> Iterator[BinaryIO]:
    """Open the new file ``name``, which replaces ``target`` at the end.

    The caller removes it after an error.
    """
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

    The caller syncs the files in it.
    """
    target = _target(path)
    with _temporary(path, target) as name:
        name.mkdir()
        yield name
        sync_folder(name)
        os.rename(name, target)
        sync_folder(target.parent)


@contextmanager
def replacing_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Create a temporary folder that takes the place of ``path``, an earlier folder or nothing.

    It is removed after an error. The caller syncs the files in it. On Linux both folders change
    their places at once; elsewhere a writer that is killed between two renames leaves none there.
    """
    target = _target(path)
    with _temporary(path, target) as name:
        name.mkdir()
        yield name
        sync_folder(name)
        if not _renamed(name, target) and not _exchanged(name, target):
            earlier = name.with_suffix(".old")
            os.rename(target, earlier)
            os.rename(name, target)
            remove(earlier)
        sync_folder(target.parent)


def _renamed(folder: Path, target: Path) -> bool:
    """Rename a folder; False where another one has the name, perhaps since a moment ago."""
    if target.exists():
        return False
    try:
        os.rename(folder, target)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return False
        raise
    return True


def _exchanged(one: Path, other: Path) -> bool:
    """Exchange two folders at once; False where the system cannot."""
    try:
        rename = ctypes.CDLL(None).renameat2
    except (OSError, AttributeError, TypeError):  # not Linux, or before glibc 2.28
        return False
    paths = os.fsencode(one), os.fsencode(other)
    return bool(rename(_HERE, paths[0], _HERE, paths[1], _EXCHANGE) == 0)


@contextmanager
def naming_path(
    path: str | os.PathLike[str], temporary: str | os.PathLike[str] | None = None
) -> Iterator[None]:
    """Name ``path`` in errors of a disk, such as a full one, that name no file.

    Errors that name ``temporary``, or a file whose name begins so, name ``path`` as well.
    """
    try:
        yield
    except OSError as error:
        named = error.filename
        known = named is None or (
            temporary is not None and os.fsdecode(named).startswith(os.fsdecode(temporary))
        )
        if error.errno is None or not known:
            raise
        raise OSError(error.errno, error.strerror, os.fsdecode(path)) from error


def sync_folder(path: Path) -> None:
    """Write the directory entries of a folder to the disk."""
    with suppress(OSError):  # not supported by some file systems, nor by Windows
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def decoding(path: str | os.PathLike[str], cure: str) -> Iterator[None]:
    """Turn the many errors of decoders of damaged files into a FileFormatError."""
    try:
        yield
    except DomaincalError:
        raise
    except MemoryError as error:
        raise FileFormatError(
            f"{path} takes more memory than there is; {cure}. Otherwise free some memory; "
            "max_memory=... (--max-memory) refuses such a file before it is read."
        ) from error
    except Exception as error:
        # Decoders of damaged files seek before the start: EINVAL. Other numbers are I/O errors.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise FileFormatError(f"{path} cannot be read ({reason}); {cure}.") from error


def _target(path: str | os.PathLike[str]) -> Path:
    """Path to write to, with links resolved; its folder must exist."""
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise InputError(f"there is no folder {Path(path).parent} to write {path}; create it.")
    return target


@contextmanager
def _temporary(path: str | os.PathLike[str], target: Path) -> Iterator[Path]:
    """Temporary name beside the target; what is left there at the end is removed.

    The writer holds a lock file of the same stem. A lock that is free belongs to a killed writer:
    what it left is removed. Errors name ``path``, which the user knows.
    """
    remove_leftovers(target)
    name = target.parent / f"{_stem(target)}{secrets.token_hex(6)}.tmp"
    lock = name.with_suffix(".lock")
    with naming_path(path, name.with_suffix("")):
        try:
            with file_lock(lock, timeout=1.0):
                try:
                    yield name
                finally:
                    remove(name)
        finally:
            remove(lock)


def hidden_stem(target: Path) -> str:
    """Beginning of the names of hidden files that belong to an output.

    It is of fixed length: the name of the output may have the maximal length already.
    """
    return f".domaincal-{hashlib.sha256(os.fsencode(target.name)).hexdigest()[:12]}"


def _stem(target: Path) -> str:
    """Beginning of the names of temporary files and locks of an output."""
    return hidden_stem(target) + "-"


def remove_leftovers(path: str | os.PathLike[str]) -> None:
    """Remove temporary files of killed writers of a path, whose locks are free."""
    target = Path(os.path.realpath(path))
    stem = _stem(target)
    with suppress(OSError), os.scandir(target.parent) as entries:
        for name in [e.name for e in entries if e.name.startswith(stem) and e.name[-5:] == ".lock"]:
            left = target.parent / name
            # What cannot be locked, such as a pipe of this name, is not of a writer.
            with suppress(OSError, InputError):
                with file_lock(left, timeout=0.0) as held:
                    if held:
                        remove(left.with_suffix(".tmp"))
                if held:
                    remove(left)


@contextmanager
def file_lock(path: Path, timeout: float = -1.0) -> Iterator[bool | None]:
    """Hold a lock file; False if another process holds it, None if the file system has no locks.

    A negative ``timeout`` waits for the other process.
    """
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(path.lstat().st_mode):  # some versions of filelock follow links
            raise InputError(f"{path} is not a regular file and cannot be locked; remove it.")
    held: bool | None = True
    with ExitStack() as stack:
        try:
            lock = FileLock(path)
            stack.enter_context(lock.acquire(timeout=timeout, poll_interval=_POLL_SECONDS))
        except Timeout:
            held = False
        except NotImplementedError:  # filelock's word for a file system without locks
            held = None
        except OSError as error:
            if error.filename is not None:
                raise  # the file cannot be opened; errors of locking name no file
            held = None
        yield held


def remove(path: Path) -> None:
    """Remove a file, link or folder, if it exists and the system permits it."""
    with suppress(OSError):
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
