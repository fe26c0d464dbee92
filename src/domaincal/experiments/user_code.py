"""Python files that an experiment names, e.g. ``mine.py:Mine``, and their objects."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import Any

from domaincal._files import open_file
from domaincal.errors import InputError

_importing = RLock()


def load_object(text: str, folder: Path | None) -> Any:
    """Run the file that ``file.py:name`` names, and return its object ``name``.

    The file is below ``folder``. None means that no code may run.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "mine.py").write_text("answer = 42")
    ...     load_object("mine.py:answer", Path(folder))
    42
    """
    path, name = _parts(text, folder)
    module = _module(path)
    if not hasattr(module, name):
        raise InputError(f"{path} has no {name!r}, which {text!r} names; correct the name.")
    return getattr(module, name)


def code_path(text: str, folder: Path | None) -> Path:
    """Path of the file that ``file.py:name`` names; the file is not run."""
    return _parts(text, folder)[0]


def code_digest(text: str, folder: Path | None) -> str:
    """Digest of the file that ``file.py:name`` names: it changes with the file."""
    return _digest(_content(code_path(text, folder)))


def _module(path: Path) -> ModuleType:
    """The module of a file, run once for each content."""
    content = _content(path)
    # The folder is part of the label: the same code elsewhere may read other files beside it.
    place = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]
    label = f"_domaincal_file_{place}_{_digest(content)}"
    with _importing:
        if label not in sys.modules:
            # importlib would run a .pyc file in __pycache__, which nobody has read, instead.
            code = _compiled(path, content)
            module = ModuleType(label)
            module.__file__ = str(path)
            sys.modules[label] = module
            try:
                exec(code, vars(module))
            except BaseException:
                del sys.modules[label]
                raise
        return sys.modules[label]


def _compiled(path: Path, content: bytes) -> Any:
    try:
        return compile(content, str(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise InputError(f"{path} is not valid Python: {error}.") from error


def _parts(text: str, folder: Path | None) -> tuple[Path, str]:
    """The path and the name of ``file.py:name``; the file must be below the folder."""
    if folder is None:
        raise InputError(f"{text!r} is code, which may not run; pass the folder of the file.")
    file, _, name = text.partition(":")
    path = folder / file
    if not name:
        raise InputError(f"{text!r} names a file only; write {file}:NAME.")
    if not _is_below(file, folder):
        raise InputError(
            f"{text!r} names a file outside of the folder of the experiment; copy the file to "
            f"{folder}, and write its name."
        )
    if not os.path.isfile(path):
        raise InputError(f"there is no file {path}, which {text!r} names.")
    return path, name


def _is_below(file: str, folder: Path) -> bool:
    """Whether a relative path stays below the folder, with links resolved."""
    if not file.isprintable() or Path(file).is_absolute() or ".." in Path(file).parts:
        return False
    return Path(os.path.realpath(folder / file)).is_relative_to(os.path.realpath(folder))


def _content(path: Path) -> bytes:
    with open_file(path) as file:
        return file.read()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
