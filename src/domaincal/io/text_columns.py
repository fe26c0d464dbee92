"""Text columns of csv files that list the images of a data set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from domaincal._memory import MemoryLimit
from domaincal._typing import IntArray
from domaincal._wording import few
from domaincal.errors import InputError
from domaincal.io.csv_columns import Wanted, read_csv_columns

_WHOLE = "[0-9]{1,9}"


def read_texts(
    path: Path, columns: Sequence[str], optional: Sequence[str] = (), *, cure: str = ""
) -> pd.DataFrame:
    """Read columns as texts; an empty cell is an error.

    ``optional`` columns are read if the file has them. ``cure`` is added to the error for a missing
    column.
    """

    def choose(header: list[str]) -> Wanted:
        times = Counter(header)
        wanted = [name for name in times if name in {*columns, *optional}]
        twice = [name for name in wanted if times[name] > 1]
        if twice:
            raise InputError(f"{path} has the column {twice[0]!r} twice; remove one of them.")
        missing = [name for name in columns if name not in times]
        if missing:
            raise InputError(
                f"{path} lacks the column {missing[0]!r}; expected {', '.join(columns)}, found "
                f"{few(header)}{cure and '; ' + cure}."
            )
        return Wanted((), wanted)

    limit = replace(MemoryLimit.of(path), cure="split the table, or shorten its cells")
    frame = read_csv_columns(path, choose, limit=limit).texts
    if frame.empty:
        raise InputError(f"{path} has no rows; add one for each image.")
    for name in frame.columns:
        # pandas fills the missing cells of a short row with NaN.
        empty = (frame[name].isna() | (frame[name] == "")).to_numpy()
        if empty.any():
            raise InputError(
                f"the column {name!r} of {path} is empty in row {int(np.argmax(empty))}; fill it, "
                "or drop the row."
            )
    return frame


def are_whole(texts: pd.Series[str]) -> bool:
    """Whether all texts are integers >= 0."""
    return bool(texts.str.fullmatch(_WHOLE).all())


def whole_numbers(frame: pd.DataFrame, column: str, path: Path) -> IntArray:
    """Column of integers >= 0."""
    texts = frame[column]
    if not are_whole(texts):
        row = int(np.argmin(texts.str.fullmatch(_WHOLE)))
        raise InputError(
            f"the column {column!r} of {path} holds {texts.iloc[row]!r} in row {row}; expected "
            "whole numbers."
        )
    return np.asarray(texts.astype(np.int64))
