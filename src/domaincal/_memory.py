"""Limits of the memory that reading a file may take."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from domaincal.errors import FileFormatError, InputError

#: Memory that every file may take, in bytes.
FREE_MEMORY = 1 << 28
#: A larger file may take this many times its size. Outputs of networks compress by less.
TIMES_FILE_SIZE = 100

_UNITS = {
    "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
    "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40,
}  # fmt: skip
_SIZE = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?) ?((?:[kmgt]i?)?b)?")


@dataclass(frozen=True)
class MemoryLimit:
    """Largest memory that reading ``path`` may take; readers check it before they allocate."""

    path: Path
    size: int
    n_bytes: int
    cure: str | None = None  # of readers without max_memory, which the message else recommends

    @classmethod
    def of(
        cls,
        path: str | os.PathLike[str],
        max_memory: float | str | None = None,
        *,
        size: int | None = None,
    ) -> MemoryLimit:
        """Limit for a file or folder: ``max_memory`` if given, else a multiple of its size.

        ``size`` is the number of bytes on the disk, for callers that know it.
        """
        size = file_size(path) if size is None else size
        allowed = max(FREE_MEMORY, TIMES_FILE_SIZE * size)
        return cls(Path(path), size, allowed if max_memory is None else parse_size(max_memory))

    def require(self, needed: int, cure: str | None = None) -> None:
        """Raise FileFormatError if ``needed`` bytes are more than the limit.

        ``cure`` is for readers without ``max_memory``, which the message recommends by default.
        """
        if needed > self.n_bytes:
            allow = "if you trust the file, allow more with max_memory=... (--max-memory), e.g. "
            raise FileFormatError(
                f"{self.path} has {format_size(self.size)}, but reading it takes at least "
                f"{format_size(needed)} of memory, more than {format_size(self.n_bytes)}; "
                # Later steps of the reading may need more, and a limit reserves nothing.
                f"{cure or self.cure or allow + repr(format_size(_rounded_up(4 * needed)))}."
            )


def parse_size(value: float | str, name: str = "max_memory") -> int:
    """Number of bytes of a number, or of a text such as ``"4 GB"``.

    Examples
    --------
    >>> parse_size("4 GB"), parse_size("256 MiB"), parse_size(1e6)
    (4000000000, 268435456, 1000000)
    """
    number: object = value
    if isinstance(value, str):
        parts = _SIZE.fullmatch(value.strip().lower())
        number = None if parts is None else float(parts[1]) * _UNITS[parts[2] or "b"]
    if isinstance(number, bool) or not isinstance(number, int | float) or not 1 <= number < 1e18:
        raise InputError(
            f"{name}={value!r} is not a size; pass a number of bytes from 1 to 1e18, or a text "
            "such as '4 GB' or '512 MiB'."
        )
    return int(number)


def format_size(n_bytes: float) -> str:
    """Text of a number of bytes.

    Examples
    --------
    >>> format_size(258_000), format_size(12)
    ('258.0 kB', '12 bytes')
    """
    if n_bytes < 1000:
        return f"{n_bytes:.0f} bytes"
    for unit in ("kB", "MB", "GB"):
        n_bytes /= 1000
        if n_bytes < 1000:
            return f"{n_bytes:.1f} {unit}"
    return f"{n_bytes / 1000:.4g} TB"


def _rounded_up(n_bytes: int) -> int:
    """A round number of bytes above this one, of two digits."""
    step = int(10 ** max(len(str(n_bytes)) - 2, 0))
    return -(-n_bytes // step) * step


def file_size(path: str | os.PathLike[str]) -> int:
    """Bytes of a file, or of all files in a folder."""
    path = Path(path)
    if not path.is_dir():
        return path.stat().st_size
    total = 0
    for place, _, names in os.walk(path):
        for name in names:
            with suppress(OSError):  # a writer has removed it, or it is a broken link
                total += Path(place, name).stat().st_size
    return total
