"""List folders of data sets, read their texts, and check the names of their files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from domaincal._files import decoding, open_file
from domaincal._wording import few
from domaincal.errors import InputError

NOT_TEXT = "it must be text in UTF-8: get it again"


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
        raise InputError(f"folder={str(folder)!r} {missing_path(path)}; expected {expected}.")
    return path


def missing_path(path: Path) -> str:
    """What is in the place of an expected file or folder, as the predicate of a sentence."""
    if not path.exists():
        return "does not exist"
    if path.is_dir():
        return "is a folder"
    return "is a file" if path.is_file() else "is not a regular file"


def read_text(path: Path) -> str:
    """Content of a text file in UTF-8."""
    with open_file(path) as file, decoding(path, NOT_TEXT):
        return file.read().decode()


def incomplete(folder: Path, expected: str, cure: str = "") -> InputError:
    """Error for a folder that lacks some files."""
    folders, files = list_folder(folder)
    found = few([f"{name}/" for name in folders] + files) or "nothing"
    return InputError(f"expected {expected} in {folder}, found {found}{cure and '; ' + cure}.")


def require_inside(names: Iterable[str], named_by: str) -> None:
    """Raise an error if a path is absolute or leads upwards, out of the folder of the images.

    Links within the folder may lead anywhere: whoever made the folder made them.
    """
    for row, name in enumerate(names):
        outside = os.path.isabs(name) or os.path.splitdrive(name)[0]
        if outside or (".." in name and ".." in Path(name).parts) or "\0" in name:
            raise InputError(
                f"{named_by} names {name!r} in row {row}, which is not a path inside the folder of "
                "the images; give relative paths without '..', and the folder as folder=..."
            )


def require_plain_names(names: Iterable[str], column: str, named_by: str) -> None:
    """Raise an error if a text that becomes a part of a path could be more than one name."""
    for row, name in enumerate(names):
        if name in (".", "..") or any(mark in name for mark in "/\\\0"):
            raise InputError(
                f"the column {column!r} of {named_by} contains {name!r} in row {row}, which cannot "
                "be a part of a file name; correct it."
            )


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
            # os.path.isdir is False for names that are too long; Path.is_dir raises an OSError.
            listed[parent] = set(os.listdir(path)) if os.path.isdir(path) else set()
        if base not in listed[parent]:
            missing.append(name)
    if missing:
        raise InputError(
            f"{len(missing)} of the {n} images that {named_by} names are not in {folder}: "
            f"{few(missing)}; get them, or remove their rows."
        )
