"""Writer of ``.csv`` and ``.csv.gz``, a table at once or in parts."""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

import pandas as pd

from domaincal._files import atomic_file
from domaincal.data import BlockedRows, CalibrationData
from domaincal.data.column_layout import SINGLE
from domaincal.errors import InputError
from domaincal.io.columns import frame_of, frames_of, require_names_that_csv_can_hold

_NOT_IN_CSV = re.compile("[\r\0]")
_READ_AS_NAMES = (*SINGLE.values(), "predicted")


def write_csv(data: CalibrationData | BlockedRows, path: Path) -> None:
    """Write all rows; numbers are exact when they are read as the dtype that they had."""
    require_names_that_csv_can_hold(data.class_names, "class_names")
    require_names_that_csv_can_hold(data.feature_names, "feature_names")
    save_csv_parts(path, [frame_of(data)] if isinstance(data, CalibrationData) else frames_of(data))


def save_csv(path: Path, frame: pd.DataFrame) -> None:
    """Write a table atomically, compressed if the path ends in .gz.

    Texts that would be different after reading are refused. Columns that are only kept may have
    empty cells, and line breaks of any kind.
    """
    save_csv_parts(path, [frame])


def save_csv_parts(path: Path, parts: Iterable[pd.DataFrame]) -> None:
    """:func:`save_csv` for a table that comes in parts, of consecutive rows."""
    n_written = n_without_label = 0
    with atomic_file(path) as file, _packed(path, file) as content:
        for frame in parts:
            quoting = _quoting(frame)
            if n_written == 0:
                frame.iloc[:0].to_csv(content, index=False, lineterminator="\n", quoting=quoting)
            n_without_label += "label" in frame and bool((frame["label"] == "").all())
            n_written += 1
            if 0 < n_without_label < n_written:  # empty in all rows of a part, but not of another
                raise _wrong_text("label", "")
            frame.to_csv(content, index=False, header=False, lineterminator="\n", quoting=quoting)


@contextmanager
def _packed(path: Path, file: IO[bytes]) -> Iterator[IO[bytes]]:
    """The file, or one that is compressed into it."""
    if path.suffix.lower() != ".gz":
        yield file
        return
    # Without a name and a time, equal tables are equal files.
    with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
        yield cast(IO[bytes], packed)


def _quoting(frame: pd.DataFrame) -> Any:
    """Rule of quotes that keeps the texts of a table; refuse texts that none keeps."""
    quoting: Any = csv.QUOTE_MINIMAL
    for column in frame.select_dtypes(exclude="number"):
        texts = [str(text) for text in frame[column].unique()]
        if column not in _READ_AS_NAMES and any("\r" in text for text in texts):
            quoting = csv.QUOTE_NONNUMERIC  # the writer quotes no '\r' otherwise
            texts = [text for text in texts if "\0" in text]
        elif column not in _READ_AS_NAMES or (column == "label" and texts == [""]):
            texts = [text for text in texts if text]
        wrong = next((text for text in texts if not text or _NOT_IN_CSV.search(text)), None)
        if wrong is not None:
            raise _wrong_text(column, wrong)
    return quoting


def _wrong_text(column: Any, text: str) -> InputError:
    return InputError(
        f"the column {column!r} contains {text!r}, which a .csv file cannot hold; rename it, or "
        "write .npz or .parquet instead."
    )
