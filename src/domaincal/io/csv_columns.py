"""Columns of a csv file, plain or compressed by gzip, read within a memory limit."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import numpy as np
import pandas as pd

from domaincal._files import decoding, open_file
from domaincal._memory import MemoryLimit
from domaincal._wording import few
from domaincal.errors import DomaincalError, FileFormatError, InputError
from domaincal.io.csv_size import SEPARATORS, CsvSize, header_lines, measure, require_few_columns
from domaincal.io.standard_input import STDIN_NAME

# With or without the byte order mark that spreadsheets write.
_ENCODING = "utf-8-sig"
# Texts for a missing number. Domains may have these names.
_MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "None")
_DECIMAL_COMMA = re.compile(r"\s*[-+]?[0-9]*,[0-9]+([eE][-+]?[0-9]+)?\s*")
_OBJECT = np.dtype(object)
# First bytes of files.
_GZIP, _PARQUET = b"\x1f\x8b", b"PAR1"


class Wanted(NamedTuple):
    """Columns to read as numbers, and columns to read as texts; a column may be among both."""

    numbers: Sequence[str]
    texts: Sequence[str]


class CsvColumns(NamedTuple):
    """Columns of a csv file.

    Numbers are float64, with NaN for missing cells; texts are those of the cells, with NaN for
    cells that a short row does not have.
    """

    header: list[str]
    numbers: pd.DataFrame
    texts: pd.DataFrame


#: Maps the header to the columns to read.
Choose = Callable[[list[str]], Wanted]


class Header(NamedTuple):
    """Names of the columns, and the character between them."""

    columns: list[str]
    separator: str


def read_csv_columns(
    path: Path,
    choose: Choose,
    *,
    cure: str = "",
    limit: MemoryLimit | None = None,
    file: IO[bytes] | None = None,
) -> CsvColumns:
    """Header and chosen columns of a csv file.

    ``cure`` is added to the error for a cell that is not a number. The file is opened once, and its
    lines are counted before any cell is kept. ``file`` is an open file to read in its place; the
    path is then its name in errors.
    """
    limit = MemoryLimit.of(path) if limit is None else limit
    with decoding(path, "it needs a header and UTF-8"), opened_csv(path, file) as content:
        _require_text(path, content)
        size = measure(content, limit)
        header = _header(path, content, limit)
        require_few_columns(header.columns, limit)
        wanted = choose(header.columns)
        if not wanted.numbers and not wanted.texts:
            return CsvColumns(header.columns, pd.DataFrame(), pd.DataFrame())
        n_numbers = len(wanted.numbers)
        n_both = len(set(wanted.numbers) & set(wanted.texts))
        n_others = len(header.columns) - n_numbers + n_both
        limit.require(size.memory(n_numbers, n_others, header.separator))
        return _columns(path, content, header, wanted, cure)


@contextmanager
def measured_csv(path: Path, limit: MemoryLimit) -> Iterator[tuple[Header, CsvSize]]:
    """Header and size of a csv file that is then parsed in parts."""
    with decoding(path, "it needs a header and UTF-8"), opened_csv(path, None) as content:
        _require_text(path, content)
        size = measure(content, limit, whole=False)
        header = _header(path, content, limit)
        require_few_columns(header.columns, limit)
        yield header, size


@contextmanager
def opened_csv(path: Path, file: IO[bytes] | None) -> Iterator[IO[bytes]]:
    """The bytes of the table, decompressed."""
    if file is not None:
        yield file
        return
    with open_file(path) as stored:
        if path.suffix.lower() != ".gz":
            yield stored
            return
        if stored.read(len(_GZIP)) != _GZIP:
            raise FileFormatError(
                f"{path} is not compressed by gzip; if it is a plain csv, name it .csv."
            )
        stored.seek(0)
        with gzip.GzipFile(fileobj=stored) as unpacked, _unpacking(path):
            yield cast(IO[bytes], unpacked)


@contextmanager
def _unpacking(path: Path) -> Iterator[None]:
    """Errors of gzip in words of a user."""
    try:
        yield
    except EOFError as error:
        raise FileFormatError(f"{path} is cut off; copy or compress it again.") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise FileFormatError(f"{path} is damaged ({error}); copy or compress it again.") from error


def _require_text(path: Path, file: IO[bytes]) -> None:
    """Refuse files of other kinds, which their first bytes tell; the file is rewound."""
    start = file.read(len(_PARQUET))
    file.seek(0)
    piped = path == STDIN_NAME
    if start.startswith(_GZIP):
        cure = (
            "unpack it, as in zcat FILE.csv.gz | domaincal inspect -"
            if piped
            else "name it .csv.gz"
        )
        if path.suffix.lower() == ".gz":
            cure = "unpack it once with zcat: it was compressed twice"
        raise FileFormatError(f"{path} is compressed by gzip; {cure}.")
    if start == _PARQUET:
        cure = "give the name of the file in place of -" if piped else "name it .parquet"
        raise FileFormatError(f"{path} is a parquet file; {cure}.")
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise FileFormatError(f"{path} is text in UTF-16; save it in UTF-8.")


def _header(path: Path, file: IO[bytes], limit: MemoryLimit) -> Header:
    """Header; the separator is the first one that divides it.

    A first row with more cells is refused here: pandas would take the surplus cells for an index,
    and fill the other rows to that width. It refuses other such rows.
    """
    for separator in SEPARATORS:
        columns, first_row = _first_rows(file, limit, separator)
        if not columns:
            raise FileFormatError(f"{path} is empty; the first line must be a header.")
        if len(columns) > 1:
            break
    else:
        separator = SEPARATORS[0]
        columns, first_row = _first_rows(file, limit, separator)
        if "|" in columns[0]:
            raise FileFormatError(
                f"{path} is separated by '|'; save it with commas, semicolons or tabs."
            )
    if len(first_row) > len(columns):
        raise FileFormatError(
            f"{path} has rows with more cells than its header, which has {len(columns)}; check the "
            "separators (commas, unless the header has semicolons or tabs instead)."
        )
    return Header(columns, separator)


def _first_rows(file: IO[bytes], limit: MemoryLimit, separator: str) -> tuple[list[str], list[str]]:
    """Cells of the header and of the first row; the file is rewound before and afterwards."""
    file.seek(0)
    text = io.TextIOWrapper(file, encoding=_ENCODING, newline="")
    rows = csv.reader(header_lines(text, limit), delimiter=separator)
    # pandas skips lines of spaces and tabs.
    rows_with_cells = (row for row in rows if len(row) > 1 or "".join(row).strip(" \t"))
    columns = [name.strip() for name in next(rows_with_cells, [])]
    try:
        first_row = next(rows_with_cells, [])
    except csv.Error:  # a cell longer than the reader takes; pandas reads it
        first_row = []
    text.detach()
    file.seek(0)
    return columns, first_row


def _unique_names(header: list[str]) -> list[str]:
    """Header in which repeated names get a number: pandas accepts no duplicates."""
    seen: dict[str, int] = {}
    out = []
    for name in header:
        seen[name] = seen.get(name, -1) + 1
        out.append(f"{name}\0{seen[name]}" if seen[name] else name)
    return out


def _columns(path: Path, file: IO[bytes], header: Header, wanted: Wanted, cure: str) -> CsvColumns:
    """Columns with the wanted types."""
    names, options = parser_options(header, wanted.numbers)
    # Read all columns: otherwise pandas ignores rows with more cells than the header.
    dtypes: dict[str, Any] = dict.fromkeys(names, _OBJECT)
    with naming_cells(path, file, header, wanted.numbers, cure):
        frame: pd.DataFrame = pd.read_csv(
            file, dtype=dtypes | dict.fromkeys(wanted.numbers, np.float64), **options
        )
    texts = frame[[name for name in wanted.texts if name not in set(wanted.numbers)]]
    both = [name for name in wanted.texts if name in set(wanted.numbers)]
    if both:
        file.seek(0)
        again: pd.DataFrame = pd.read_csv(
            file, dtype=dtypes, usecols=both, **{**options, "na_values": {}}
        )
        texts = pd.concat([texts, again], axis=1)[list(wanted.texts)]
    return CsvColumns(header.columns, frame[list(wanted.numbers)], texts)


def parser_options(header: Header, numbers: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """Names of the columns for pandas, and how it reads them."""
    names = _unique_names(header.columns)
    options: dict[str, Any] = {
        "encoding": _ENCODING, "names": names, "header": 0, "sep": header.separator,
        "keep_default_na": False, "na_values": {name: list(_MISSING) for name in numbers},
    }  # fmt: skip
    if tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1):  # later versions are always exact
        options["float_precision"] = "round_trip"
    return names, options


@contextmanager
def naming_cells(
    path: Path, file: IO[bytes], header: Header, numbers: Sequence[str], cure: str
) -> Iterator[None]:
    """Errors of pandas name the first cell that is not a number; the file is then read again."""
    try:
        yield
    except ValueError as error:
        if isinstance(error, UnicodeDecodeError | pd.errors.ParserError | DomaincalError):
            raise
        file.seek(0)
        names, options = parser_options(header, numbers)
        # In parts: texts take more memory than numbers.
        rows = max((1 << 20) // len(names), 1)
        dtypes: dict[str, Any] = dict.fromkeys(names, _OBJECT)
        with pd.read_csv(file, dtype=dtypes, chunksize=rows, **options) as parts:
            raise _not_a_number(path, parts, numbers, cure) from None


def _not_a_number(
    path: Path, parts: Iterable[pd.DataFrame], numbers: Sequence[str], cure: str
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
    if _DECIMAL_COMMA.fullmatch(cell):
        return InputError(
            f"the column {name!r} contains {cell!r} in row {row}{others}, a number with a decimal "
            f"comma; save the table with decimal points, such as {cell.strip().replace(',', '.')}."
        )
    return InputError(
        f"the column {name!r} contains {cell!r} in row {row}{others}; it must hold numbers"
        f"{cure and ': ' + cure}."
    )
