"""Memory that reading a csv file takes, from the number of its lines and separators."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, TextIO

from domaincal._memory import MemoryLimit
from domaincal.errors import FileFormatError

#: Separators of columns, in the order in which they are looked for in the header.
SEPARATORS = (",", ";", "\t")
_BLOCK = 1 << 20
# Bytes that pandas and the copies after it take at most, measured with pandas 3.1 and rounded up.
_PER_CELL = 32
_PER_TEXT = 120
_PER_COLUMN = 13_000
#: A line of commas takes 9 bytes for each, a text with an emoji 8 bytes for each character.
PER_BYTE = 10
_ONLY_A_PART = (
    "this is for a part of it; if you trust the file, allow more with max_memory=... (--max-memory)"
)
# A cell of one character in the header takes this much.
_PER_HEADER_CHARACTER = 64


@dataclass(frozen=True)
class CsvSize:
    """Number of bytes, lines and separators of each kind in a csv file, after decompression."""

    n_bytes: int
    n_lines: int
    n_separators: dict[str, int]

    def memory(self, n_numbers: int, n_others: int, separator: str) -> int:
        """Bytes that reading takes, with so many columns of numbers and so many others.

        pandas fills short rows, so every line counts with all columns of the header. Lines inside
        quotes count as well: what pandas takes for a quote is known after parsing only.
        """
        n_texts = min(self.n_lines * n_others, self.n_lines + self.n_separators[separator])
        return (
            _PER_CELL * self.n_lines * (n_numbers + n_others)
            + _PER_TEXT * n_texts
            + _PER_COLUMN * (n_numbers + n_others)
            + PER_BYTE * self.n_bytes
        )


def measure(file: IO[bytes], limit: MemoryLimit, *, whole: bool = True) -> CsvSize:
    """Read a file to its end, in blocks; stop as soon as it is too large for the limit.

    Without ``whole``, the file is then parsed in parts, and may have any size.
    """
    n_bytes = n_lines = 0
    n_separators = dict.fromkeys(SEPARATORS, 0)
    last = b""
    while block := file.read(_BLOCK):
        if b"\0" in block:  # pandas would end the cell there
            raise FileFormatError(f"{limit.path} has zero characters; save it as text in UTF-8.")
        n_bytes += len(block)
        if whole:
            limit.require(PER_BYTE * n_bytes, _ONLY_A_PART)
        for separator in SEPARATORS:
            n_separators[separator] += block.count(separator.encode())
        n_lines += block.count(b"\n") + block.count(b"\r") - block.count(b"\r\n")
        n_lines -= last == b"\r" and block[:1] == b"\n"
        last = block[-1:]
    return CsvSize(n_bytes, n_lines + (last not in b"\r\n"), n_separators)


def header_lines(text: TextIO, limit: MemoryLimit) -> Iterator[str]:
    """Lines of a file as long as their columns fit into memory."""
    n_characters = 0
    most = limit.n_bytes // _PER_HEADER_CHARACTER + 1
    while line := text.readline(most):
        n_characters += len(line)
        limit.require(_PER_HEADER_CHARACTER * n_characters)
        yield line


def require_few_columns(header: list[str], limit: MemoryLimit) -> None:
    """Refuse a header with too many columns for the limit."""
    limit.require(_PER_COLUMN * len(header))
