"""``.csv``: columns ``logit_*`` or ``prob_*``, ``feature_*``, ``label``, ``domain``, ``group``."""

import csv
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from domaincal._files import atomic_file, decoding
from domaincal._typing import Array
from domaincal.data import CalibrationData
from domaincal.errors import FileFormatError, InputError
from domaincal.io.columns import (
    Layout,
    frame_of,
    layout_of,
    require_names_that_csv_can_hold,
)
from domaincal.io.raw_data import Contents

# With or without the mark that spreadsheets put in front.
_ENCODING = "utf-8-sig"
# How numbers that are missing are written; a domain may well be called NA.
_MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "None")


def read_csv(path: Path) -> Contents:
    """Columns of a csv file; a column of whole numbers holds integers, any other text strings."""
    with open(path, "rb"), decoding(path, "it needs a header, commas and UTF-8"):
        with open(path, encoding=_ENCODING, newline="") as file:
            columns = [name.lstrip() for name in next(csv.reader(file), [])]
        other = next((mark for mark in ";\t|" if len(columns) == 1 and mark in columns[0]), None)
        if other is not None:
            raise FileFormatError(f"{path} is separated by {other!r}; save it with commas.")
        layout = layout_of(columns)
        if not layout.blocks:
            return Contents(".csv", {}, ignored=tuple(columns))
        frame = _frame(path, columns, layout)
    arrays: dict[str, Array] = {
        array: frame[list(names)].to_numpy(np.float64) for array, names in layout.blocks.items()
    }
    for array, column in layout.single.items():
        if array == "labels" and (frame[column] == "").all():
            continue  # a column for labels that nobody knows yet
        texts = _texts(frame[column], column)
        if array == "labels":
            arrays[array] = _labels(texts, layout.class_names)
        else:
            arrays[array] = _numbers_or_texts(texts)
    return Contents(".csv", arrays, class_names=layout.class_names, ignored=layout.ignored)


def write_csv(data: CalibrationData, path: Path) -> None:
    """Write all rows; every number so that it is the same again in its own precision."""
    require_names_that_csv_can_hold(data.class_names)
    save_csv(path, frame_of(data))


def save_csv(path: Path, frame: pd.DataFrame) -> None:
    """Write a table, atomically; names that would not come back are refused."""
    for column in frame.select_dtypes(exclude="number"):
        texts = frame[column].astype(str)
        wrong = texts[(texts == "") | texts.str.contains("[\r\0]", regex=True)]
        if len(wrong):
            raise InputError(
                f"the column {column!r} holds {wrong.iloc[0]!r}, which a .csv file cannot; rename "
                "it, or write .npz or .parquet."
            )
    with atomic_file(path) as file:
        frame.to_csv(file, index=False, lineterminator="\n")


def _frame(path: Path, columns: list[str], layout: Layout) -> pd.DataFrame:
    numeric = [name for names in layout.blocks.values() for name in names]
    options: dict[str, Any] = {
        "encoding": _ENCODING, "index_col": False, "names": columns, "header": 0,
        "keep_default_na": False, "na_values": {name: list(_MISSING) for name in numeric},
    }  # fmt: skip
    if tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1):  # later ones always read exactly
        options["float_precision"] = "round_trip"
    # All columns, for only then are rows with more cells than the header an error.
    types = {**dict.fromkeys(columns, object), **dict.fromkeys(numeric, np.float64)}
    with warnings.catch_warnings():
        # A row with more cells than the header has.
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            frame: pd.DataFrame = pd.read_csv(path, dtype=types, **options)
            return frame
        except pd.errors.ParserWarning as error:
            raise FileFormatError(
                f"{path} has rows with more cells than its header, which has {len(columns)}; check "
                "the commas."
            ) from error
        except ValueError as error:
            if isinstance(error, UnicodeDecodeError | pd.errors.ParserError):
                raise
            cells = pd.read_csv(path, dtype=object, **options)
    for name in numeric:
        wrong = pd.to_numeric(cells[name], errors="coerce").isna() & cells[name].notna()
        if wrong.any():
            row = int(np.argmax(wrong))
            raise InputError(
                f"the column {name!r} contains {cells[name].iloc[row]!r} in row {row}; it must "
                "hold numbers."
            )
    raise FileFormatError(f"{path} is no readable .csv file.")


def _texts(cells: "pd.Series[Any]", column: str) -> "pd.Series[Any]":
    texts = cells.astype(object)
    empty = (texts.isna() | (texts == "")).to_numpy()
    if empty.any():
        raise InputError(
            f"the column {column!r} is empty in row {int(np.argmax(empty))}; fill it, or drop the "
            "row."
        )
    return texts


def _numbers_or_texts(texts: "pd.Series[Any]") -> Array:
    """Integers where all cells are whole numbers as one writes them (007 is a name), else texts."""
    if texts.str.fullmatch(r"0|-?[1-9][0-9]{0,17}").all():
        return texts.astype(np.int64).to_numpy()
    return texts.to_numpy(object)


def _labels(texts: "pd.Series[Any]", class_names: tuple[str, ...] | None) -> Array:
    """Class names where all of them are; a class may be called 3, but then its number is not 3."""
    named = texts.isin(class_names or ()).to_numpy()
    if named.all():
        return texts.to_numpy(object)
    if named.any() and texts[~named].str.fullmatch("[0-9.]+").any():
        raise InputError(
            f"the column 'label' holds names of classes ({texts[named].iloc[0]!r}) and others "
            f"({texts[~named].iloc[0]!r} in row {int(np.argmin(named))}); use one or the other."
        )
    # 9.0, as pandas writes whole numbers beside missing ones.
    return _numbers_or_texts(texts.str.replace(r"^([0-9]+)\.0*$", r"\1", regex=True))
