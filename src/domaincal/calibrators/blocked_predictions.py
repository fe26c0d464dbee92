"""Predictions for rows that are read in blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

import numpy as np

from domaincal._typing import Array
from domaincal._warnings import handle_warnings, warn_caller
from domaincal.data import BlockedRows, CalibrationData

Result = TypeVar("Result")


def each_block(
    rows: BlockedRows, function: Callable[[CalibrationData], Result], *, n_rows: int | None = None
) -> Iterator[Result]:
    """Results of a function for the blocks of rows; a warning of several blocks is issued once.

    ``n_rows`` is the number of rows of a block, by default that of fits.
    """
    first: dict[type[Warning], str] = {}
    blocks: dict[type[Warning], int] = {}
    n_blocks = 0
    for block in rows.blocks(n_rows):
        warned: list[tuple[str, type[Warning]]] = []
        with handle_warnings(partial(_note, warned)):
            result = function(block)
        n_blocks += 1
        for message, category in warned:
            first.setdefault(category, message)
        for category in {category for _, category in warned}:
            blocks[category] = blocks.get(category, 0) + 1
        yield result
    for category, message in first.items():
        where = f" ({blocks[category]} of {n_blocks} blocks of rows)" if n_blocks > 1 else ""
        warn_caller(message + where, category)


def _note(warned: list[tuple[str, type[Warning]]], message: str, category: type[Warning]) -> None:
    warned.append((message, category))


def predict_blocks(rows: BlockedRows, predict: Callable[[CalibrationData], Any]) -> Array:
    """Predictions of all rows, in one array."""
    out = np.empty(0)
    start = 0
    for part in each_block(rows, predict):
        if start == 0:
            out = np.empty((len(rows), *part.shape[1:]), part.dtype)
        out[start : start + len(part)] = part
        start += len(part)
    return out
