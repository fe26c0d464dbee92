"""Reader of ``.csv`` and ``.csv.gz``: columns of scores, features, labels, domains and groups."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from domaincal._memory import MemoryLimit
from domaincal._typing import Array
from domaincal.data.column_choice import ColumnChoice
from domaincal.data.column_layout import ColumnLayout, layout_of
from domaincal.errors import InputError
from domaincal.io.csv_columns import Wanted, read_csv_columns
from domaincal.io.kept_columns import Keep, kept_names
from domaincal.io.raw_data import RawData


def read_csv(
    path: Path,
    limit: MemoryLimit | None = None,
    choice: ColumnChoice | None = None,
    *,
    keep: Keep = "none",
    file: IO[bytes] | None = None,
) -> RawData:
    """Arrays of a csv file; columns of whole numbers become integers, other texts strings.

    ``file`` is an open file to read in place of the path.
    """
    layouts: list[ColumnLayout] = []
    kept: list[str] = []

    def choose(header: list[str]) -> Wanted:
        layout = layout_of(header, choice)
        layouts.append(layout)
        if not layout.blocks:
            return Wanted((), ())
        kept.extend(kept_names(header, layout, keep))
        numbers = [name for names in layout.blocks.values() for name in names]
        return Wanted(numbers, list(dict.fromkeys([*layout.single.values(), *kept])))

    header, numbers, texts = read_csv_columns(path, choose, limit=limit, file=file)
    (layout,) = layouts
    if not layout.blocks:
        return RawData(".csv", {}, ignored=tuple(header))
    arrays: dict[str, Array] = {
        array: numbers[list(names)].to_numpy(np.float64) for array, names in layout.blocks.items()
    }
    for array, column in layout.single.items():
        if array == "ids":
            arrays[array] = texts[column].to_numpy(object)
            continue
        if array == "labels" and (texts[column] == "").all():
            continue  # the rows are not labelled yet
        values = _texts(texts[column], column)
        if array == "labels":
            arrays[array] = labels_of_texts(values, column, layout.class_names)
        else:
            arrays[array] = integers_or_texts(values)
    return RawData(
        ".csv", arrays, class_names=layout.class_names, feature_names=layout.feature_names,
        ignored=layout.ignored, sources=layout.taken,
        kept=None if keep == "none" else texts[kept],
    )  # fmt: skip


def _texts(cells: pd.Series[Any], column: str) -> pd.Series[Any]:
    """Texts of the cells; an empty cell is an error."""
    texts = cells.astype(object)
    empty = (texts.isna() | (texts == "")).to_numpy()
    if empty.any():
        raise InputError(
            f"the column {column!r} is empty in row {int(np.argmax(empty))}; fill it, or drop the "
            "row."
        )
    return texts


def integers_or_texts(texts: pd.Series[Any]) -> Array:
    """Integers if all cells are integers in their usual form (so 007 is a text), else texts."""
    if texts.str.fullmatch(r"0|-?[1-9][0-9]{0,17}").all():
        return texts.astype(np.int64).to_numpy()
    return texts.to_numpy(object)


def labels_of_texts(
    texts: pd.Series[Any], column: str, class_names: tuple[str, ...] | None
) -> Array:
    """Labels as class names if all of them are, else as class indices.

    A mix is an error: with a class named ``3``, the label 3 would be ambiguous.
    """
    named = texts.isin(class_names or ()).to_numpy()
    if named.all():
        return texts.to_numpy(object)
    if named.any() and texts[~named].str.fullmatch("[0-9.]+").any():
        raise InputError(
            f"the column {column!r} mixes class names ({texts[named].iloc[0]!r}) and numbers "
            f"({texts[~named].iloc[0]!r} in row {int(np.argmin(named))}); use one of the two."
        )
    # pandas writes 9 as 9.0 if the column has missing values.
    return integers_or_texts(texts.str.replace(r"^([0-9]+)\.0*$", r"\1", regex=True))
