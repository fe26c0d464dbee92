"""Disk cache of compiled kernels.

The entries are code: pickles with machine code, which runs when an entry is loaded. They are kept
in a folder that only the user can write to, never in the folder of the package. An entry starts
with a digest: damaged machine code could end the process. The cache is optional: if the folder or
an entry cannot be used, for whatever reason, the kernel is compiled again. The names of numba that
no documentation promises are used where an error of theirs has the same effect.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba

from domaincal._files import atomic_file, open_file

_DIGEST_BYTES = 32


class KernelCache:
    """Compiled versions of one function, with the methods that numba expects of a cache.

    An entry is found by the source of the kernels, the types of the arguments, the processor, and
    the versions of numba and Python.
    """

    def __init__(self, function: Callable[..., Any], folder: Path) -> None:
        self._folder = folder
        own = Path(function.__code__.co_filename)
        sources = sorted({own, *Path(__file__).parent.glob("numba_*.py")})
        digests = [hashlib.sha256(source.read_bytes()).hexdigest() for source in sources]
        self._key = (function.__qualname__, digests, numba.__version__, sys.version)

    @property
    def cache_path(self) -> str:
        """Folder of the entries."""
        return str(self._folder)

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Compiled function for these types; None if there is no intact entry."""
        try:
            from numba.core.compiler import CompileResult

            target_context.refresh()
            with open_file(self._path(signature, target_context.codegen())) as file:
                digest, content = file.read(_DIGEST_BYTES), file.read()
            if digest != hashlib.sha256(content).digest():
                return None
            parts = pickle.loads(content)
            return CompileResult._rebuild(target_context, *parts)  # type: ignore[no-untyped-call]
        except Exception:  # numba compiles the function then
            return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Write an entry, if that is possible."""
        try:
            from numba.core.serialize import dumps

            if compiled.lifted or compiled.library.has_dynamic_globals:
                return  # holds addresses of this process
            content = dumps(compiled._reduce())  # type: ignore[no-untyped-call]
            with atomic_file(self._path(signature, compiled.codegen)) as file:
                file.write(hashlib.sha256(content).digest() + content)
        except Exception:  # the next process compiles the function again
            return

    def enable(self) -> None:
        """Part of numba's interface; the cache is always enabled."""

    def disable(self) -> None:
        """Part of numba's interface; the cache is always enabled."""

    def flush(self) -> None:
        """Part of numba's interface; entries are replaced when they are written again."""

    def _path(self, signature: Any, codegen: Any) -> Path:
        key = repr((self._key, signature, codegen.magic_tuple()))
        return self._folder / f"{hashlib.sha256(key.encode()).hexdigest()}.kernel"


def kernel_cache(function: Callable[..., Any]) -> KernelCache | None:
    """Cache of a function in ``NUMBA_CACHE_DIR`` or the user's cache folder.

    None if the folder cannot be written, or others can write to it.
    """
    try:
        folder = _cache_folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return KernelCache(function, folder) if is_private(folder) else None
    except (OSError, RuntimeError):  # RuntimeError: the user has no home
        return None


def _cache_folder() -> Path:
    given = getattr(numba.config, "CACHE_DIR", None) or os.environ.get("XDG_CACHE_HOME")
    given = given or os.environ.get("LOCALAPPDATA")  # on Windows
    base = Path(given) if given else Path.home() / ".cache"
    return (base / "domaincal-kernels").resolve()


def is_private(folder: Path) -> bool:
    """Whether no other user can write to the folder, or replace it or a folder above it.

    Folders of the system and of the user are safe if only their owner can write to them, or if they
    are sticky, as ``/tmp`` is. Nobody else gets below a folder that only the user can enter.
    """
    if not hasattr(os, "geteuid"):
        return True  # Windows: the folder is in the profile of the user
    user = os.geteuid()
    for step in reversed([folder, *folder.parents]):
        found = step.stat()
        others_write = found.st_mode & 0o022 and not (found.st_mode & stat.S_ISVTX)
        if found.st_uid not in (0, user) or others_write:
            return False
        if found.st_uid == user and not found.st_mode & 0o077:
            return True
    return folder.stat().st_uid == user and not folder.stat().st_mode & 0o022
