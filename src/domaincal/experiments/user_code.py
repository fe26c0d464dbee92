"""Objects in a user's Python file beside the experiment, e.g. ``mine.py:Mine``."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from domaincal.errors import InputError


def load_object(text: str, folder: Path) -> Any:
    """The object that ``file.py:name`` names; the file is in ``folder``.

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


def code_digest(text: str, folder: Path) -> str:
    """Digest of the file that ``file.py:name`` names: it changes with the file."""
    return _digest(_parts(text, folder)[0])


def _module(path: Path) -> ModuleType:
    """The module of a file, imported once for each content."""
    # The folder is part of the label: the same code elsewhere may read other files beside it.
    place = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]
    label = f"_domaincal_file_{place}_{_digest(path)}"
    if label not in sys.modules:
        spec = importlib.util.spec_from_file_location(label, path)
        if spec is None or spec.loader is None:
            raise InputError(f"{path} is not a Python file; its name must end in .py.")
        module = importlib.util.module_from_spec(spec)
        sys.modules[label] = module
        try:
            spec.loader.exec_module(module)
        except BaseException as error:
            del sys.modules[label]
            if isinstance(error, SyntaxError):
                raise InputError(f"{path} is not valid Python: {error}.") from error
            raise
    return sys.modules[label]


def _parts(text: str, folder: Path) -> tuple[Path, str]:
    """The path and the name of ``file.py:name``."""
    file, _, name = text.partition(":")
    path = folder / file
    if not name:
        raise InputError(f"{text!r} names a file only; write {file}:NAME.")
    if not path.is_file():
        raise InputError(f"there is no file {path}, which {text!r} names.")
    return path, name


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
