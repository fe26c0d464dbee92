"""List folders of data sets, and raise errors for missing files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from domaincal._wording import few
from domaincal.errors import InputError


def list_folder(folder: Path) -> tuple[list[str], list[str]]:
    """Sorted names of the subfolders and of the files of a folder, without hidden ones."""
    folders: list[str] = []
    files: list[str] = []
    with os.scandir(folder) as found:
        for entry in found:
            if not entry.name.startswith("."):
                (folders if entry.is_dir() else files).append(entry.name)
    return sorted(folders), sorted(files)


def require_folder(folder: str | os.PathLike[str], expected: str) -> Path:
    """Path of a folder; raise an error if it does not exist."""
    path = Path(folder)
    if not path.is_dir():
        problem = "is a file" if path.exists() else "does not exist"
        raise InputError(f"folder={str(folder)!r} {problem}; expected {expected}.")
    return path


def incomplete(folder: Path, expected: str, cure: str = "") -> InputError:
    """Error for a folder that lacks some files."""
    folders, files = list_folder(folder)
    found = few([f"{name}/" for name in folders] + files) or "nothing"
    return InputError(f"expected {expected} in {folder}, found {found}{cure and '; ' + cure}.")


def require_files(folder: Path, names: Iterable[str], named_by: str) -> None:
    """Raise an error if files are missing from a folder. Each subfolder is listed once."""
    listed: dict[str, set[str]] = {}
    missing: list[str] = []
    n = 0
    for name in names:
        n += 1
        parent, base = os.path.split(name)
        if parent not in listed:
            path = folder / parent
            listed[parent] = set(os.listdir(path)) if path.is_dir() else set()
        if base not in listed[parent]:
            missing.append(name)
    if missing:
        raise InputError(
            f"{len(missing)} of the {n} images that {named_by} names are not in {folder}: "
            f"{few(missing)}; get them, or remove their rows."
        )
