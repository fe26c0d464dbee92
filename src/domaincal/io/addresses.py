"""Addresses of storage, such as ``s3://bucket/scores.zarr``, beside paths."""

from __future__ import annotations

import os
import re
from pathlib import Path

# A path has lost one of the two slashes. Drives of Windows have one letter.
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.:-]+):/+(.*)", re.DOTALL)


def address_of(path: str | os.PathLike[str]) -> str | None:
    """The address that a path stands for, or None for a path on this machine.

    Examples
    --------
    >>> from pathlib import Path
    >>> address_of(Path("s3://bucket/scores.zarr")), address_of("scores.zarr")
    ('s3://bucket/scores.zarr', None)
    """
    found = _ADDRESS.fullmatch(os.fspath(path))
    if found is None or found[1].lower() == "file":
        return None
    return f"{found[1]}://{found[2]}"


def local_path(path: str | os.PathLike[str]) -> Path:
    """A path; of an address ``file://...`` the path in it.

    Examples
    --------
    >>> local_path("file:/data/scores.zarr").as_posix()
    '/data/scores.zarr'
    """
    found = _ADDRESS.fullmatch(os.fspath(path))
    if found is None or found[1].lower() != "file":
        return Path(path)
    return Path("/" + found[2])


def shown(path: str | os.PathLike[str]) -> str:
    """A path or address in messages."""
    return address_of(path) or str(local_path(path))
