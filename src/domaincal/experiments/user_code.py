"""Things that a user wrote in a Python file beside the experiment: ``mine.py:Mine``."""

import hashlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

from domaincal.errors import InputError


def from_file(text: str, folder: Path) -> Any:
    """What ``file.py:name`` names, the file being in a folder.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "mine.py").write_text("answer = 42")
    ...     from_file("mine.py:answer", Path(folder))
    42
    """
    path, name = _parts(text, folder)
    # The same text elsewhere is another module: it may read what lies beside it.
    place = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]
    label = f"_domaincal_file_{place}_{_digest(path)}"
    if label not in sys.modules:
        spec = importlib.util.spec_from_file_location(label, path)
        if spec is None or spec.loader is None:
            raise InputError(f"{path} is no Python file.")
        module = importlib.util.module_from_spec(spec)
        sys.modules[label] = module
        try:
            spec.loader.exec_module(module)
        except BaseException as error:
            del sys.modules[label]
            if isinstance(error, SyntaxError):
                raise InputError(f"{path} is no Python: {error}.") from error
            raise
    if not hasattr(sys.modules[label], name):
        raise InputError(f"{path} has no {name!r}, which {text!r} names.")
    return getattr(sys.modules[label], name)


def file_digest(text: str, folder: Path) -> str:
    """A short text that changes with the file."""
    return _digest(_parts(text, folder)[0])


def _parts(text: str, folder: Path) -> tuple[Path, str]:
    file, _, name = text.partition(":")
    path = folder / file
    if not name:
        raise InputError(f"{text!r} names a file only; write {file}:NAME.")
    if not path.is_file():
        raise InputError(f"there is no file {path}, which {text!r} names.")
    return path, name


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
