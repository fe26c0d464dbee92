"""``.csv``: columns ``logit_*`` or ``prob_*``, ``feature_*``, ``label``, ``domain``, ``group``."""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import pandas as pd

from domaincal._files import atomic_file, decoding, open_file
from domaincal._memory import MemoryLimit
from domaincal._typing import Array
from domaincal._wording import few
from domaincal.data import CalibrationData
from domaincal.errors import FileFormatError, InputError
from domaincal.io.columns import (
    Layout,
    frame_of,
    layout_of,
    require_names_that_csv_can_hold,
)
from domaincal.io.csv_size import header_lines, measure, require_few_columns
from domaincal.io.raw_data import RawData

# With or without the byte order mark that spreadsheets write.
_ENCODING = "utf-8-sig"
# Texts for a missing number. Domains may have these names.
_MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "None")
_NOT_IN_CSV = re.compile("[\r\0]")
_OBJECT = np.dtype(object)

#: Maps the header to the columns to keep, each with its type, ``float`` or ``str``.
ChooseTypes = Callable[[list[str]], Mapping[str, type]]


def read_frame(
    path: Path, choose: ChooseTypes, *, cure: str = "", limit: MemoryLimit | None = None
) -> tuple[list[str], pd.DataFrame]:
    """Header and chosen columns of a csv file, plain or compressed by gzip.

    Columns of type ``float`` hold float64, with NaN for missing cells; columns of type ``str`` hold
    the text of each cell. ``cure`` is added to the error for a cell that is not a number. The file
    is opened once, and its lines are counted before any cell is kept.
    """
    limit = MemoryLimit.of(path) if limit is None else limit
    with (
        open_file(path) as stored,
        gzip.GzipFile(fileobj=stored) if path.suffix.lower() == ".gz" else nullcontext(stored) as f,
        decoding(path, "it needs a header, commas and UTF-8"),
    ):
        file = cast(IO[bytes], f)
        size = measure(file, limit)
        header = _header(path, file, limit)
        require_few_columns(header, limit)
        types = choose(header)
        if not types:
            return header, pd.DataFrame()
        n_numbers = sum(wanted is float for wanted in types.values())
        limit.require(size.memory(n_numbers, len(header) - n_numbers))
        return header, _columns(path, file, header, types, cure)


def read_csv(path: Path, limit: MemoryLimit | None = None) -> RawData:
    """Arrays of a csv file; columns of whole numbers become integers, other texts strings."""
    layouts: list[Layout] = []

    def choose(header: list[str]) -> dict[str, type]:
        layouts.append(layout_of(header))
        numbers = [name for names in layouts[0].blocks.values() for name in names]
        texts = layouts[0].single.values() if numbers else ()
        return {**dict.fromkeys(texts, str), **dict.fromkeys(numbers, float)}

    header, frame = read_frame(path, choose, limit=limit)
    (layout,) = layouts
    if not layout.blocks:
        return RawData(".csv", {}, ignored=tuple(header))
    arrays: dict[str, Array] = {
        array: frame[list(names)].to_numpy(np.float64) for array, names in layout.blocks.items()
    }
    for array, column in layout.single.items():
        if array == "labels" and (frame[column] == "").all():
            continue  # the rows are not labelled yet
        texts = _texts(frame[column], column)
        if array == "labels":
            arrays[array] = _labels(texts, layout.class_names)
        else:
            arrays[array] = _integers_or_texts(texts)
    return RawData(
        ".csv", arrays, class_names=layout.class_names, feature_names=layout.feature_names,
        ignored=layout.ignored,
    )  # fmt: skip


def write_csv(data: CalibrationData, path: Path) -> None:
    """Write all rows; numbers are exact when they are read as the dtype that they had."""
    require_names_that_csv_can_hold(data.class_names, "class_names")
    require_names_that_csv_can_hold(data.feature_names, "feature_names")
    save_csv(path, frame_of(data))


def save_csv(path: Path, frame: pd.DataFrame) -> None:
    """Write a table atomically; refuse texts that would be different after reading."""
    for column in frame.select_dtypes(exclude="number"):
        texts = map(str, frame[column].unique())
        wrong = next((text for text in texts if not text or _NOT_IN_CSV.search(text)), None)
        if wrong is not None:
            raise InputError(
                f"the column {column!r} contains {wrong!r}, which a .csv file cannot hold; "
                "rename it, or write .npz or .parquet instead."
            )
    with atomic_file(path) as file:
        frame.to_csv(file, index=False, lineterminator="\n")


def _header(path: Path, file: IO[bytes], limit: MemoryLimit) -> list[str]:
    """Names of the columns; the file is rewound before and afterwards.

    A first row with more cells is refused here: pandas would take the surplus cells for an index,
    and fill the other rows to that width. It refuses other such rows.
    """
    file.seek(0)
    text = io.TextIOWrapper(file, encoding=_ENCODING, newline="")
    rows = csv.reader(header_lines(text, limit))
    # pandas skips lines of spaces and tabs.
    rows_with_cells = (row for row in rows if len(row) > 1 or "".join(row).strip(" \t"))
    columns = [name.strip() for name in next(rows_with_cells, [])]
    try:
        first_row = next(rows_with_cells, [])
    except csv.Error:  # a cell longer than the reader takes; pandas reads it
        first_row = []
    text.detach()
    file.seek(0)
    if not columns:
        raise FileFormatError(f"{path} is empty; the first line must be a header.")
    other = next((mark for mark in ";\t|" if len(columns) == 1 and mark in columns[0]), None)
    if other is not None:
        raise FileFormatError(f"{path} is separated by {other!r}; save it with commas.")
    if len(first_row) > len(columns):
        raise FileFormatError(
            f"{path} has rows with more cells than its header, which has {len(columns)}; check the "
            "commas."
        )
    return columns


def _unique_names(header: list[str]) -> list[str]:
    """Header in which repeated names get a number: pandas accepts no duplicates."""
    seen: dict[str, int] = {}
    out = []
    for name in header:
        seen[name] = seen.get(name, -1) + 1
        out.append(f"{name}\0{seen[name]}" if seen[name] else name)
    return out


def _columns(
    path: Path, file: IO[bytes], header: list[str], types: Mapping[str, type], cure: str
) -> pd.DataFrame:
    """Columns with the wanted types."""
    numbers = [name for name, wanted in types.items() if wanted is float]
    header = _unique_names(header)
    options: dict[str, Any] = {
        "encoding": _ENCODING, "names": header, "header": 0,
        "keep_default_na": False, "na_values": {name: list(_MISSING) for name in numbers},
    }  # fmt: skip
    if tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1):  # later versions are always exact
        options["float_precision"] = "round_trip"
    # Read all columns: otherwise pandas ignores rows with more cells than the header.
    dtypes: dict[str, Any] = dict.fromkeys(header, _OBJECT)
    try:
        frame: pd.DataFrame = pd.read_csv(
            file, dtype=dtypes | dict.fromkeys(numbers, np.float64), **options
        )
        return frame[list(types)]
    except ValueError as error:
        if isinstance(error, UnicodeDecodeError | pd.errors.ParserError):
            raise
    file.seek(0)
    # In parts: texts take more memory than numbers.
    rows = max((1 << 20) // len(header), 1)
    with pd.read_csv(file, dtype=dtypes, chunksize=rows, **options) as parts:
        raise _not_a_number(path, parts, numbers, cure)


def _not_a_number(
    path: Path, parts: Iterable[pd.DataFrame], numbers: list[str], cure: str
) -> FileFormatError | InputError:
    """Error that names the first cell that is not a number, and columns with others near it."""
    wrong: dict[str, tuple[int, str]] = {}
    for cells in parts:
        for name in numbers:
            bad = pd.to_numeric(cells[name], errors="coerce").isna() & cells[name].notna()
            if bad.any():
                row = int(np.argmax(bad))
                wrong[name] = int(cells.index[row]), cells[name].iloc[row][:40]
        if wrong:
            break
    else:
        return FileFormatError(f"{path} is not a readable .csv file.")
    name, (row, cell) = next(iter(wrong.items()))
    others = f" (other columns too: {few(map(repr, list(wrong)[1:]))})" if len(wrong) > 1 else ""
    return InputError(
        f"the column {name!r} contains {cell!r} in row {row}{others}; it must hold numbers"
        f"{cure and ': ' + cure}."
    )


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


def _integers_or_texts(texts: pd.Series[Any]) -> Array:
    """Integers if all cells are integers in their usual form (so 007 is a text), else texts."""
    if texts.str.fullmatch(r"0|-?[1-9][0-9]{0,17}").all():
        return texts.astype(np.int64).to_numpy()
    return texts.to_numpy(object)


def _labels(texts: pd.Series[Any], class_names: tuple[str, ...] | None) -> Array:
    """Labels as class names if all of them are, else as class indices.

    A mix is an error: with a class named ``3``, the label 3 would be ambiguous.
    """
    named = texts.isin(class_names or ()).to_numpy()
    if named.all():
        return texts.to_numpy(object)
    if named.any() and texts[~named].str.fullmatch("[0-9.]+").any():
        raise InputError(
            f"the column 'label' mixes class names ({texts[named].iloc[0]!r}) and numbers "
            f"({texts[~named].iloc[0]!r} in row {int(np.argmin(named))}); use one of the two."
        )
    # pandas writes 9 as 9.0 if the column has missing values.
    return _integers_or_texts(texts.str.replace(r"^([0-9]+)\.0*$", r"\1", regex=True))
