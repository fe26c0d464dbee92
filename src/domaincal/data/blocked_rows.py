"""Rows that are read in blocks, for data that fit no memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np

from domaincal._row_arrays import (
    CodedRows,
    RowArray,
    RowParts,
    WatchedRows,
    parts_of,
    row_range,
)
from domaincal._typing import Array, IntArray
from domaincal.data.calibration_data import CalibrationData
from domaincal.data.fingerprint import fingerprint
from domaincal.errors import InputError

#: Rows in memory, or rows that are read in blocks.
AnyRows: TypeAlias = "CalibrationData | BlockedRows"
#: The same, or what has rows to read, such as a store.
AnyData: TypeAlias = "CalibrationData | BlockedRows | RowSource"
Rows = TypeVar("Rows", bound=AnyRows)

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

    @property
    def domain_codes(self) -> tuple[IntArray, Array]:
        """Number of each row's domain, in memory, and the sorted names, as in CalibrationData."""
        if self.domains is None:
            return np.zeros(len(self), np.int64), domain_names_of(self)
        return self.domains.codes[:], self.domains.names

    @property
    def group_codes(self) -> tuple[IntArray, Array]:
        """Number of each row's group, in memory, and the sorted names, as in CalibrationData."""
        if self.groups is None:
            return np.arange(len(self)), np.arange(len(self))
        return self.groups.codes[:], self.groups.names

    def fingerprint(self) -> str:
        """Short digest of the logits and labels, which fitted calibrators store."""
        return fingerprint(cast(Array, self.logits), cast(Array, self.labels))

    def where(self, mask: Array) -> BlockedRows:
        """Rows of a mask, which are read when they are needed."""
        if not mask.any():
            raise InputError("no row is selected; select at least one.")

        def part(array: RowArray | None) -> RowArray | None:
            return None if array is None else array.where(mask)

        return replace(
            self, logits=self.logits.where(mask), labels=part(self.labels),
            features=part(self.features),
            domains=None if self.domains is None else self.domains.where(mask),
            groups=None if self.groups is None else self.groups.where(mask),
        )  # fmt: skip

    def watched(self, report: Callable[[int], object]) -> BlockedRows:
        """The same rows; ``report`` gets the number of bytes of each read of logits or features.

        Reads of the workers of a cluster are not reported.
        """
        if self.row_parts is not None:
            return self
        features = None if self.features is None else WatchedRows(self.features, report)
        return replace(self, logits=WatchedRows(self.logits, report), features=features)

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

    @property
    def row_bytes(self) -> int:
        """Size of a row of logits and features; at least 16, for what else belongs to a row."""
        features = 0 if self.features is None else self.features.row_bytes
        return max(self.logits.row_bytes + features, 16)

    def rows_of_block(self) -> int:
        """Number of rows that take 16 MiB of logits and features."""
        return max(1, BLOCK_BYTES // self.row_bytes)

    def read(self, start: int, stop: int) -> CalibrationData:
        """Rows from ``start`` to ``stop``, in memory."""
        return self.select(slice(start, stop))

    def select(self, rows: slice | IntArray) -> CalibrationData:
        """Some of the rows, in memory, by a slice or by their numbers."""

        def part(array: RowArray | None) -> Array | None:
            return None if array is None else array[rows]

        def codes(coded: CodedRows | None) -> tuple[Array, Array] | None:
            return None if coded is None else (coded.codes[rows], coded.names)

        return CalibrationData.from_codes(
            self.logits[rows], labels=part(self.labels), features=part(self.features),
            domains=codes(self.domains), groups=codes(self.groups), class_names=self.class_names,
            feature_names=self.feature_names, provenance=self.provenance,
        )  # fmt: skip


class RowSource(ABC):
    """Base class of what has rows to read in blocks, such as a store on a disk.

    A base class, and no protocol: sparse matrices of scipy have an attribute ``rows``, too.
    """

    @abstractmethod
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


def rows_where(data: Rows, mask: Array) -> Rows:
    """Rows of a mask: in memory, or read when they are needed, as the data are."""
    return cast(Rows, data.where(mask) if isinstance(data, BlockedRows) else data.select(mask))


def domain_names_of(data: AnyRows) -> Array:
    """Sorted names of the domains; ``"all"`` for rows without domains."""
    if isinstance(data, CalibrationData):
        return data.domain_codes[1]
    return np.array(["all"]) if data.domains is None else data.domains.names
