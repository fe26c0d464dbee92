"""Reader of Thrift's compact protocol, in which parquet files describe themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

#: Types of fields. A boolean is part of its type.
BOOLEAN, INT32, INT64, BINARY, LIST, STRUCT = 1, 5, 6, 8, 9, 12
_FALSE, _BYTE, _INT16, _DOUBLE, _SET = 2, 3, 4, 7, 10

#: Fields of a struct by number: a type, a list (of one type or struct), or a struct.
Fields: TypeAlias = "dict[int, int | list[int | Fields] | Fields]"


class CompactReader:
    """Reads structs from bytes; raises an IndexError if they end too early.

    Other fields than those that are asked for are skipped. A struct that no writer writes is
    refused: parquet readers could understand it differently. ``count`` is called with the length of
    each list of structs, before it is read.
    """

    def __init__(self, content: bytes, count: Callable[[int], None] = lambda n: None) -> None:
        self.content = content
        self.place = 0
        self._count = count

    def struct(self, fields: Fields, depth: int = 0) -> dict[int, Any]:
        """Integers, lists and structs by the number of their field."""
        found: dict[int, Any] = {}
        last = 0
        while first := self._byte():
            number = last + (first >> 4) if first >> 4 else self._integer(32)
            kind = BOOLEAN if first & 15 == _FALSE else first & 15
            if not last < number < 1 << 15 or depth > 8:
                raise ValueError("a struct repeats a field, or is nested too deeply")
            wanted = fields.get(number)
            if wanted is None:
                self._value(kind, wanted, depth)
            elif kind == _kind_of(wanted):
                found[number] = None if kind == BOOLEAN else self._value(kind, wanted, depth)
            else:
                raise ValueError(f"a field has the type {kind}, not {_kind_of(wanted)}")
            last = number
        return found

    def _value(self, kind: int, wanted: Any, depth: int) -> Any:
        if kind in (_INT16, INT32):
            return self._integer(32)
        if kind == INT64:
            return self._integer(64)
        if kind == STRUCT:
            return self.struct(wanted or {}, depth + 1)
        if kind in (LIST, _SET):
            return self._list(wanted, depth)
        if kind == BINARY:
            length = self._varint(32)
            self.place += length
        elif kind in (_BYTE, _DOUBLE):
            self.place += 1 if kind == _BYTE else 8
        elif kind != BOOLEAN:
            raise ValueError(f"a field has the unknown type {kind}")
        return None

    def _list(self, wanted: Any, depth: int) -> list[Any]:
        first = self._byte()
        length = first >> 4 if first >> 4 < 15 else self._varint(32)
        kind = first & 15
        inner = None if wanted is None else wanted[0]
        if inner is not None and kind != _kind_of(inner):
            raise ValueError(f"a list has elements of the type {kind}, not {_kind_of(inner)}")
        if depth > 8 or length > len(self.content) - self.place:
            raise ValueError("a list is longer than the file, or nested too deeply")
        if kind == STRUCT:
            self._count(length)
        if kind in (BOOLEAN, _FALSE):
            self.place += length
            return []
        values = (self._value(kind, inner, depth + 1) for _ in range(length))
        if inner is not None:
            return list(values)
        for _ in values:  # skipped
            pass
        return []

    def _integer(self, n_bits: int) -> int:
        value = self._varint(n_bits)
        return (value >> 1) ^ -(value & 1)

    def _varint(self, n_bits: int) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128 and value < 1 << n_bits:
                return value
            if shift >= n_bits:
                raise ValueError(f"an integer has more than {n_bits} bits")

    def _byte(self) -> int:
        byte = self.content[self.place]
        self.place += 1
        return byte


def _kind_of(wanted: Any) -> int:
    """Type of a field that is asked for."""
    return wanted if isinstance(wanted, int) else LIST if isinstance(wanted, list) else STRUCT
