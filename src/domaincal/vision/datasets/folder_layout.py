"""What is in folders, and words for what is not."""

import os
from collections.abc import Iterable
from pathlib import Path

from domaincal._wording import few
from domaincal.errors import InputError


def entries(folder: Path) -> tuple[list[str], list[str]]:
    """Names of the folders and of the files in a folder, sorted, without hidden ones."""
    folders: list[str] = []
    files: list[str] = []
    with os.scandir(folder) as found:
        for entry in found:
            if not entry.name.startswith("."):
                (folders if entry.is_dir() else files).append(entry.name)
    return sorted(folders), sorted(files)


def require_folder(folder: str | os.PathLike[str], expected: str) -> Path:
    """The path of a folder that is there."""
    path = Path(folder)
    if not path.is_dir():
        kind = "a file" if path.exists() else "not there"
        raise InputError(f"folder={str(folder)!r} is {kind}; expected {expected}.")
    return path


def incomplete(folder: Path, expected: str, cure: str = "") -> InputError:
    """The error for a folder that is there and lacks something."""
    folders, files = entries(folder)
    found = few([f"{name}/" for name in folders] + files) or "nothing"
    return InputError(f"expected {expected} in {folder}, found {found}{cure and '; ' + cure}.")


def require_files(folder: Path, names: Iterable[str], named_by: str) -> None:
    """Refuse names of files that are not in the folder; each folder of theirs is listed once."""
    here: dict[str, set[str]] = {}
    missing: list[str] = []
    n = 0
    for name in names:
        n += 1
        parent, base = os.path.split(name)
        if parent not in here:
            path = folder / parent
            here[parent] = set(os.listdir(path)) if path.is_dir() else set()
        if base not in here[parent]:
            missing.append(name)
    if missing:
        raise InputError(
            f"{len(missing)} of the {n} images that {named_by} names are not in {folder}: "
            f"{few(missing)}; get them, or remove their rows."
        )
