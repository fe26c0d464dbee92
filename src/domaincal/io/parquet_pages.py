"""Row groups and pages of a parquet file: how large they are once they are decompressed.

Read from the footer and from the headers of the pages, before pyarrow allocates what they say.
pyarrow's own view of a damaged footer can end the process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

from domaincal._memory import MemoryLimit
from domaincal.io.compact_thrift import BINARY, INT32, INT64, CompactReader, Fields

# pyarrow checks neither the type of these lists nor that of their elements.
_STRING_LIST: Fields = {1: [BINARY]}
_STATISTICS: Fields = {16: {2: [INT64], 3: [INT64]}, 17: {2: [INT32]}}
_COLUMN: Fields = {
    2: [INT32], 3: [BINARY], 5: INT64, 7: INT64, 8: [{}], 9: INT64, 11: INT64, 13: [{}],
    **_STATISTICS,
}  # fmt: skip
_CHUNK: Fields = {3: _COLUMN, 8: {2: _STRING_LIST}}
_GROUP: Fields = {1: [_CHUNK], 3: INT64, 4: [{}]}
_FOOTER: Fields = {2: [{}], 3: INT64, 4: [_GROUP], 5: [{}], 7: [{}]}
# Bytes that pyarrow takes for a column or for a column of a row group.
_PER_STRUCT = 1500

# Headers of pages: data of version 1, a dictionary, data of version 2.
_PAGE: Fields = {1: INT32, 2: INT32, 3: INT32, 5: {1: INT32, 2: INT32}, 7: {1: INT32, 2: INT32},
                 8: {1: INT32, 4: INT32}}  # fmt: skip
_DICTIONARY_PAGE = 2
# Encodings of pages that hold indices of a dictionary.
_DICTIONARY_INDICES = (2, 8)
# Encoding in which a value repeats the start of the one before: short pages hold long texts.
_DELTA_BYTE_ARRAY = 7
_FIRST_BYTES, _MOST_BYTES = 1 << 12, 1 << 24
# Bytes that a text takes in pyarrow and as a Python object, and that each byte of a text takes.
_PER_TEXT = 160
_PER_BYTE = 10


class Chunk(NamedTuple):
    """A column in a row group: first byte, number of bytes and number of values."""

    start: int
    length: int
    n_values: int


@dataclass(frozen=True)
class RowGroup:
    """Number of rows, and a chunk for each column."""

    n_rows: int
    chunks: list[Chunk]


@dataclass(frozen=True)
class Page:
    """Type, decompressed bytes, number of values and encoding of a page."""

    type: int
    n_bytes: int
    n_values: int
    encoding: int

    def text_memory(self, n_rows: int) -> int:
        """Bytes that a page of texts takes, in a row group of ``n_rows`` rows."""
        if self.type == _DICTIONARY_PAGE:
            return self.n_values * _PER_TEXT + self.n_bytes * _PER_BYTE
        if self.encoding in _DICTIONARY_INDICES:
            return self.n_bytes
        n_values = min(self.n_values, n_rows)
        repeated = n_values if self.encoding == _DELTA_BYTE_ARRAY else 1
        return n_values * _PER_TEXT + self.n_bytes * _PER_BYTE * repeated


def read_footer(file: BinaryIO, limit: MemoryLimit) -> list[RowGroup]:
    """Row groups of a file, from the metadata at its end."""
    end = file.seek(0, os.SEEK_END) - 8
    file.seek(max(end, 0))
    last = file.read(8)
    length = int.from_bytes(last[:4], "little")
    if last[4:] != b"PAR1" or length > end:
        raise ValueError("it does not end like a parquet file")
    file.seek(end - length)
    n_structs = 0

    def count(n: int) -> None:
        nonlocal n_structs
        n_structs += n
        limit.require(_PER_STRUCT * n_structs)

    try:
        footer = CompactReader(file.read(length), count).struct(_FOOTER)
        groups = [RowGroup(group[3], list(map(_chunk, group[1]))) for group in footer[4]]
    except (IndexError, KeyError) as error:
        raise ValueError("its metadata are not complete") from error
    n_rows = [group.n_rows for group in groups]
    if min(n_rows, default=0) < 0 or sum(n_rows) != footer[3]:
        raise ValueError("its row groups do not have the rows that its metadata say")
    return groups


def _chunk(fields: dict[int, Any]) -> Chunk:
    """Place of a column chunk, found as pyarrow finds it."""
    column = fields[3]
    start = column[9]
    if 0 < column.get(11, 0) < start:  # the page with the dictionary
        start = column[11]
    if min(start, column[7]) < 0:
        raise ValueError("a column has no place in the file")
    return Chunk(start, column[7], column[5])


def read_pages(file: BinaryIO, chunk: Chunk) -> Iterator[Page]:
    """Pages of a column chunk, from their headers."""
    place, end = chunk.start, chunk.start + chunk.length
    while place < end:
        fields, n_header = _page_header(file, place)
        packed, unpacked = fields.get(3, -1), fields.get(2, -1)
        if min(packed, unpacked) < 0:
            raise ValueError(f"the page at byte {place} has no valid size")
        n_values, encoding = 0, -1
        for number, encoding_number in ((5, 2), (7, 2), (8, 4)):
            details = fields.get(number, {})
            n_values = max(n_values, details.get(1, 0))
            encoding = details.get(encoding_number, encoding)
        yield Page(fields.get(1, -1), unpacked, n_values, encoding)
        place += n_header + packed


def _page_header(file: BinaryIO, place: int) -> tuple[dict[int, Any], int]:
    """Fields of a page header, and its number of bytes."""
    n_bytes = _FIRST_BYTES
    while True:
        file.seek(place)
        content = file.read(n_bytes)
        reader = CompactReader(content)
        try:
            return reader.struct(_PAGE), reader.place
        except IndexError:
            if len(content) < n_bytes or n_bytes > _MOST_BYTES:
                raise ValueError(f"the page at byte {place} has no complete header") from None
            n_bytes *= 16
