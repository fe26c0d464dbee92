"""Rows as columns of a table: one column for each class, feature, label, domain and group."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from domaincal._typing import Array
from domaincal._wording import few
from domaincal.data import BlockedRows, CalibrationData
from domaincal.data.column_layout import PREFIXES, SINGLE, all_numbers
from domaincal.errors import InputError

_TIMES_SMALLER = 4


def frame_of(data: CalibrationData) -> pd.DataFrame:
    """Table of the rows, with the default columns of :func:`layout_of`."""
    names = data.class_names
    parts = [single_columns(data, names), block_frame("logits", data.logits, names)]
    if data.features is not None:
        parts.append(block_frame("features", data.features, data.feature_names))
    return pd.concat(parts, axis=1)


def frames_of(rows: BlockedRows) -> Iterator[pd.DataFrame]:
    """:func:`frame_of` for rows that are read in blocks."""
    for block in rows.blocks(rows_of_part(rows)):
        yield frame_of(block)


def rows_of_part(rows: BlockedRows) -> int:
    """Number of rows of a part of a table, which is smaller than a block of a fit.

    Texts of numbers, and the columns of a table, take several times the memory of an array.
    """
    return max(1, rows.rows_of_block() // _TIMES_SMALLER)


def single_columns(data: CalibrationData, names: tuple[str, ...] | None) -> pd.DataFrame:
    """Columns label, domain and group, if the data have them; labels by name if ``names`` are."""
    given = {column: getattr(data, array) for array, column in SINGLE.items()}
    if names is not None and data.labels is not None:
        # Objects: numpy's strings are padded to the longest, and lose zero characters at the end.
        given["label"] = np.array(names, object)[data.labels]
    known = {column: values for column, values in given.items() if values is not None}
    return pd.DataFrame(known, index=pd.RangeIndex(len(data)))


def block_frame(array: str, values: Array, names: tuple[str, ...] | None = None) -> pd.DataFrame:
    """Table with one column for each column of a two-dimensional array."""
    suffixes = names if names is not None else map(str, range(values.shape[1]))
    return pd.DataFrame(values, columns=[PREFIXES[array] + suffix for suffix in suffixes])


def require_names_that_csv_can_hold(names: tuple[str, ...] | None, argument: str) -> None:
    """Refuse names of classes or features that would be different after reading."""
    if names is None or names == tuple(map(str, range(len(names)))):
        return
    if all_numbers(names) or {"0", "1"} <= set(names):
        raise InputError(
            f"{argument} are numbers ({few(names)}), which a .csv file cannot tell from the "
            "numbers of its columns; write .npz or .parquet instead."
        )
    wrong = [name for name in names if name != name.rstrip() or "\r" in name or "\0" in name]
    if wrong:
        raise InputError(
            f"{argument} contains {wrong[0]!r}, which a .csv file cannot hold; rename it, or write "
            ".npz or .parquet instead."
        )
