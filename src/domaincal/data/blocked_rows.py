"""Rows that are read in blocks, for data that fit no memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from domaincal._row_arrays import CodedRows, RowArray, RowParts, parts_of, row_range
from domaincal._typing import Array
from domaincal.data.calibration_data import CalibrationData
from domaincal.errors import InputError

#: Size of the logits and features of a block.
BLOCK_BYTES = 1 << 24


@dataclass(frozen=True, eq=False, repr=False)
class BlockedRows:
    """Aligned logits, labels, features and domains that are read when they are needed.

    ``Store.rows()`` returns one. Calibrators are fitted to it, and predict and score it, block by
    block: the memory does not grow with the number of rows.

    Attributes
    ----------
    logits : RowArray, shape (n, n_classes)
    labels : RowArray of class indices, shape (n,), or None
    features : RowArray, shape (n, n_features), or None
    domains, groups : CodedRows or None
        Number of the name of each row, and the sorted names.
    class_names, feature_names : tuple of str or None
    provenance : mapping

    Examples
    --------
    >>> import tempfile, domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=3, n_rows=100, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     dc.write(data, folder + "/scores")
    ...     rows = dc.Store(folder + "/scores").rows()
    ...     [len(block) for block in rows.blocks(n_rows=128)]
    [128, 128, 44]
    """

    logits: RowArray
    labels: RowArray | None = None
    features: RowArray | None = None
    domains: CodedRows | None = None
    groups: CodedRows | None = None
    class_names: tuple[str, ...] | None = None
    feature_names: tuple[str, ...] | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.logits)

    def __repr__(self) -> str:
        n, n_classes = self.logits.shape
        return f"{type(self).__name__}({n} rows, {n_classes} classes)"

    @property
    def domain_names(self) -> Array:
        """Sorted names of the domains."""
        if self.domains is None:
            raise InputError("these rows have no domains; write the data with domains.")
        return self.domains.names.copy()

    def blocks(self, n_rows: int | None = None) -> Iterator[CalibrationData]:
        """Blocks of consecutive rows, each in memory.

        Parameters
        ----------
        n_rows : int, optional
            Rows of a block; by default as many as take 16 MiB of logits and features.
        """
        size, rows = self.rows_of_block() if n_rows is None else n_rows, self.row_range
        for start in rows[::size]:
            yield self.read(start, min(start + size, rows.stop))

    @property
    def row_parts(self) -> RowParts | None:
        """Places where the rows are, if this process does not read them."""
        return parts_of(self.logits)

    @property
    def row_range(self) -> range:
        """Numbers of the rows that can be read."""
        return row_range(self.logits)

    def rows_of_block(self) -> int:
        """Number of rows that take 16 MiB of logits and features."""
        width = self.logits.row_bytes + (0 if self.features is None else self.features.row_bytes)
        return max(1, BLOCK_BYTES // max(width, 16))

    def read(self, start: int, stop: int) -> CalibrationData:
        """Rows from ``start`` to ``stop``, in memory."""

        def part(rows: RowArray | None) -> Array | None:
            return None if rows is None else rows.read(start, stop)

        def codes(rows: CodedRows | None) -> tuple[Array, Array] | None:
            return None if rows is None else (rows.codes.read(start, stop), rows.names)

        return CalibrationData.from_codes(
            self.logits.read(start, stop), labels=part(self.labels), features=part(self.features),
            domains=codes(self.domains), groups=codes(self.groups), class_names=self.class_names,
            feature_names=self.feature_names, provenance=self.provenance,
        )  # fmt: skip


@runtime_checkable
class RowSource(Protocol):
    """Something whose rows are read in blocks, such as a store on a disk."""

    def rows(self) -> BlockedRows:
        """The rows."""


def as_rows(data: Any) -> Any:
    """The rows of a source; anything else unchanged.

    Examples
    --------
    >>> as_rows([1.0])
    [1.0]
    """
    return data.rows() if isinstance(data, RowSource) else data


def domain_names_of(data: CalibrationData | BlockedRows) -> Array:
    """Sorted names of the domains; ``"all"`` for rows without domains."""
    if isinstance(data, CalibrationData):
        return data.domain_codes[1]
    return np.array(["all"]) if data.domains is None else data.domains.names
