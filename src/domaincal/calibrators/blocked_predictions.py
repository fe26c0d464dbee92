"""Predictions for rows that are read in blocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any, TypeVar

import numpy as np

from domaincal._row_arrays import sum_over_parts
from domaincal._typing import Array
from domaincal._warnings import handle_warnings, warn_caller
from domaincal.data import BlockedRows, CalibrationData
from domaincal.statistics.blas_threads import one_blas_thread
from domaincal.statistics.blocks import Workers, row_blocks

Result = TypeVar("Result")
Part = TypeVar("Part")


@dataclass(eq=False)
class BlockWarnings:
    """Warnings of a function of blocks of rows, which are issued once.

    Attributes
    ----------
    first : dict
        First message of each category.
    blocks : dict
        Number of blocks with a warning of each category.
    n_blocks : int
        Number of all blocks.
    """

    first: dict[type[Warning], str] = field(default_factory=dict)
    blocks: dict[type[Warning], int] = field(default_factory=dict)
    n_blocks: int = 0
    _in_block: set[type[Warning]] = field(default_factory=set)

    def start_block(self) -> None:
        """Count a block."""
        self.n_blocks += 1
        self._in_block.clear()

    def note(self, message: str, category: type[Warning]) -> None:
        """Handle a warning in the block that was started last."""
        self.first.setdefault(category, message)
        if category not in self._in_block:
            self._in_block.add(category)
            self.blocks[category] = self.blocks.get(category, 0) + 1

    def __add__(self, other: BlockWarnings) -> BlockWarnings:
        counts = Counter(self.blocks) + Counter(other.blocks)
        return BlockWarnings(
            {**other.first, **self.first}, dict(counts), self.n_blocks + other.n_blocks
        )

    def issue(self) -> None:
        """Issue the warnings."""
        for category, message in self.first.items():
            where = f" ({self.blocks[category]} of {self.n_blocks} blocks of rows)"
            warn_caller(message + (where if self.n_blocks > 1 else ""), category)


def each_block(
    rows: BlockedRows, function: Callable[[CalibrationData], Result], *, n_rows: int | None = None
) -> Iterator[Result]:
    """Results of a function for the blocks of rows; a warning of several blocks is issued once.

    The function runs in this process. ``n_rows`` is the number of rows of a block, by default that
    of fits.
    """
    size = rows.rows_of_block() if n_rows is None else n_rows
    starts = range(0, len(rows), size)
    found = (_on_block(rows, function, start, min(start + size, len(rows))) for start in starts)
    return _with_warnings(found)


def _with_warnings(found: Iterator[tuple[Result, BlockWarnings]]) -> Iterator[Result]:
    noted = BlockWarnings()
    for result, of_block in found:
        noted += of_block
        yield result
    noted.issue()


def _on_block(
    rows: BlockedRows, function: Callable[[CalibrationData], Result], start: int, stop: int
) -> tuple[Result, BlockWarnings]:
    """Result for a block of rows, and its warnings."""
    noted = BlockWarnings()
    noted.start_block()
    with handle_warnings(noted.note):
        return function(rows.read(start, stop)), noted


def sum_blocks(
    rows: BlockedRows,
    of_block: Callable[[CalibrationData], Part],
    add_up: Callable[[Iterator[Part]], Result],
) -> Result:
    """``add_up`` of the results of ``of_block`` for the blocks of rows, in their order.

    Worker threads compute the results; only a few of them exist at a time. For rows in several
    places, this happens in each of them, and the results of ``add_up`` are added. A warning of
    several blocks is issued once.
    """
    total, noted = sum_over_parts(_sum_with_warnings, rows, of_block, add_up)
    noted.issue()
    found: Result = total
    return found


def _sum_with_warnings(
    rows: BlockedRows,
    of_block: Callable[[CalibrationData], Part],
    add_up: Callable[[Iterator[Part]], Any],
) -> Any:
    """List of the result for the rows that this process reads, and of the warnings."""
    noted = []

    def compute(block: slice) -> tuple[Part, BlockWarnings]:
        return _on_block(rows, of_block, block.start, block.stop)

    def results(found: Iterator[tuple[Part, BlockWarnings]]) -> Iterator[Part]:
        for result, of_one in found:
            noted.append(of_one)
            yield result

    blocks = row_blocks(rows.row_range, rows.row_bytes)
    with one_blas_thread(), Workers() as workers:
        total = add_up(results(workers.map(compute, blocks)))
    return [total, reduce(add, noted)]


def predict_blocks(rows: BlockedRows, predict: Callable[[CalibrationData], Any]) -> Array:
    """Predictions of all rows, in one array; computed where the rows are."""
    out = np.empty(0)
    start = 0
    parts = rows.row_parts
    found = (
        each_block(rows, predict)
        if parts is None
        else _with_warnings(parts.map_blocks(_on_block, rows, predict, n_rows=rows.rows_of_block()))
    )
    for part in found:
        if start == 0:
            out = np.empty((len(rows), *part.shape[1:]), part.dtype)
        out[start : start + len(part)] = part
        start += len(part)
    return out
