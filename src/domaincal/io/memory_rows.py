"""Rows in memory with the interface of rows that are read in blocks."""

from __future__ import annotations

from domaincal._row_arrays import CodedRows, RowArray
from domaincal._typing import Array
from domaincal.data import BlockedRows
from domaincal.data.blocked_rows import AnyRows


def rows_in_memory(data: AnyRows) -> BlockedRows:
    """Rows in memory with the interface of rows that are read in blocks."""
    if isinstance(data, BlockedRows):
        return data
    data = data.numpy()

    def coded(name: str, codes: tuple[Array, Array]) -> CodedRows | None:
        return None if getattr(data, name) is None else CodedRows(MemoryRows(codes[0]), codes[1])

    return BlockedRows(
        MemoryRows(data.logits),
        labels=None if data.labels is None else MemoryRows(data.labels),
        features=None if data.features is None else MemoryRows(data.features),
        domains=coded("domains", data.domain_codes), groups=coded("groups", data.group_codes),
        class_names=data.class_names, feature_names=data.feature_names,
        provenance=data.provenance,
    )  # fmt: skip


class MemoryRows(RowArray):
    """Rows of an array in memory."""

    def __init__(self, values: Array) -> None:
        super().__init__(values.shape, values.dtype)
        self._values = values

    def read(self, start: int, stop: int) -> Array:
        """Rows from ``start`` to ``stop``; a view."""
        return self._values[start:stop]
