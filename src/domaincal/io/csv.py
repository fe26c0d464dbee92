"""``.csv``: columns ``logit_*`` or ``prob_*``, ``feature_*``, ``label``, ``domain``, ``group``."""

import csv
import gzip
import io
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

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
from domaincal.io.raw_data import RawData

# With or without the byte order mark that spreadsheets write.
_ENCODING = "utf-8-sig"
# How missing numbers are written; a domain may well be called NA.
_MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "None")

#: From the header to the type, ``float`` or ``str``, of the columns to keep.
ChooseTypes = Callable[[list[str]], Mapping[str, type]]


def read_frame(
    path: Path, choose: ChooseTypes, *, cure: str = ""
) -> tuple[list[str], pd.DataFrame]:
    """Header of a csv file, compressed or not, and the columns that ``choose`` wants of it.

    Columns of type ``float`` hold float64, with NaN where a cell is missing; those of type ``str``
    the text of each cell, as it is written. The file is opened once.
    """
    opened: Any = gzip.open if path.suffix.lower() == ".gz" else open
    with opened(path, "rb") as file, decoding(path, "it needs a header, commas and UTF-8"):
        header = _header(path, file)
        types = choose(header)
        if not types:
            return header, pd.DataFrame()
        return header, _columns(path, file, header, types, cure)


def read_csv(path: Path) -> RawData:
    """Columns of a csv file; a column of whole numbers holds integers, any other text strings."""
    layouts: list[Layout] = []

    def choose(header: list[str]) -> dict[str, type]:
        layouts.append(layout_of(header))
        numbers = [name for names in layouts[0].blocks.values() for name in names]
        texts = layouts[0].single.values() if numbers else ()
        return {**dict.fromkeys(texts, str), **dict.fromkeys(numbers, float)}

    header, frame = read_frame(path, choose)
    (layout,) = layouts
    if not layout.blocks:
        return RawData(".csv", {}, ignored=tuple(header))
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
    return RawData(
        ".csv", arrays, class_names=layout.class_names, feature_names=layout.feature_names,
        ignored=layout.ignored,
    )  # fmt: skip


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


def _header(path: Path, file: IO[bytes]) -> list[str]:
    """Names of the columns; the file is left at its start."""
    text = io.TextIOWrapper(file, encoding=_ENCODING, newline="")
    columns = [name.strip() for name in next(csv.reader(text), [])]
    text.detach()
    file.seek(0)
    if not columns:
        raise FileFormatError(f"{path} is empty; it needs a header.")
    other = next((mark for mark in ";\t|" if len(columns) == 1 and mark in columns[0]), None)
    if other is not None:
        raise FileFormatError(f"{path} is separated by {other!r}; save it with commas.")
    return columns


def _different(header: list[str]) -> list[str]:
    """Names of which no two are the same, as pandas wants them: a repeated one gets a number."""
    seen: dict[str, int] = {}
    out = []
    for name in header:
        seen[name] = seen.get(name, -1) + 1
        out.append(f"{name}\0{seen[name]}" if seen[name] else name)
    return out


def _columns(
    path: Path, file: IO[bytes], header: list[str], types: Mapping[str, type], cure: str
) -> pd.DataFrame:
    numbers = [name for name, wanted in types.items() if wanted is float]
    header = _different(header)
    options: dict[str, Any] = {
        "encoding": _ENCODING, "index_col": False, "names": header, "header": 0,
        "keep_default_na": False, "na_values": {name: list(_MISSING) for name in numbers},
    }  # fmt: skip
    if tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1):  # later ones always read exactly
        options["float_precision"] = "round_trip"
    # All columns are read: only then are rows with more cells than the header an error.
    dtypes = {**dict.fromkeys(header, object), **dict.fromkeys(numbers, np.float64)}
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            frame: pd.DataFrame = pd.read_csv(file, dtype=dtypes, **options)
            return frame[list(types)]
        except pd.errors.ParserWarning as error:
            raise FileFormatError(
                f"{path} has rows with more cells than its header, which has {len(header)}; check "
                "the commas."
            ) from error
        except ValueError as error:
            if isinstance(error, UnicodeDecodeError | pd.errors.ParserError):
                raise
        file.seek(0)
        cells = pd.read_csv(file, dtype=object, **options)
    raise _not_a_number(path, cells, numbers, cure)


def _not_a_number(
    path: Path, cells: pd.DataFrame, numbers: list[str], cure: str
) -> FileFormatError | InputError:
    """The error for columns that should hold numbers: the first cell that is none."""
    for name in numbers:
        wrong = pd.to_numeric(cells[name], errors="coerce").isna() & cells[name].notna()
        if wrong.any():
            row = int(np.argmax(wrong))
            return InputError(
                f"the column {name!r} contains {cells[name].iloc[row]!r} in row {row}; it must "
                f"hold numbers{cure and ': ' + cure}."
            )
    return FileFormatError(f"{path} is no readable .csv file.")


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
    # pandas writes whole numbers beside missing ones as 9.0.
    return _numbers_or_texts(texts.str.replace(r"^([0-9]+)\.0*$", r"\1", regex=True))
