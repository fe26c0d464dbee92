"""A temporary copy of the rows of a file, which is then read in blocks any number of times."""

from __future__ import annotations

import errno
import io
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pandas as pd

from domaincal._files import DAMAGED, decoding
from domaincal._memory import format_size
from domaincal._row_arrays import CodedRows
from domaincal._typing import Array
from domaincal._validation import check_finite_features, check_finite_logits
from domaincal.data import BlockedRows, CalibrationData
from domaincal.data.column_values import (
    label_indices,
    logits_of,
    missing_id_error,
    repeated_id_error,
)
from domaincal.data.logits import ZeroCount
from domaincal.errors import FileFormatError, InputError
from domaincal.io.raw_data import CODED, TABLES
from domaincal.io.row_chunks import Cells, Distinct, RowChunks
from domaincal.io.stored_rows import ShardFile, StoredRows

# Codes of domains, groups and labels.
_CODE = np.dtype(np.int64)
# More different labels than this for each class cannot all be valid.
_NAMES_OF_A_CLASS = 4
# The two keys of the hashes by which ids are compared.
_HASH_KEYS = ("domaincal ids, a", "domaincal ids, b")


@contextmanager
def spooled_rows(
    chunks: RowChunks,
    *,
    floor: float | None,
    folder: str | os.PathLike[str] | None,
    check_finite: bool = True,
) -> Iterator[BlockedRows]:
    """Copy all rows to a temporary folder, checked as in memory; it is removed at the end."""
    where = Path(tempfile.gettempdir() if folder is None else folder)
    if not where.is_dir():
        raise InputError(f"there is no folder {where} for a temporary copy; create it.")
    _require_space(chunks, where)
    with tempfile.TemporaryDirectory(
        prefix="domaincal-", dir=where, ignore_cleanup_errors=True
    ) as place:
        with _naming_copy(chunks, where):
            rows = _Spool(chunks, Path(place), floor, check_finite=check_finite).copy()
        yield rows


def _require_space(chunks: RowChunks, where: Path) -> None:
    """Refuse a copy that is larger than the free space of a disk."""
    needed = chunks.n_rows * (chunks.row_bytes + _CODE.itemsize * len(CODED))
    free = shutil.disk_usage(where).free
    if needed > free:
        raise InputError(
            f"{chunks.path} needs a temporary copy of about {format_size(needed)}, but the disk of "
            f"{where} has {format_size(free)} free; free some space, set TMPDIR to a folder on "
            "another disk, or convert the file to a store there."
        )


@contextmanager
def _naming_copy(chunks: RowChunks, where: Path) -> Iterator[None]:
    """Errors of a full disk say what was written, and the cure."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
            raise
        reason = (
            f"{error.strerror}, while a temporary copy of {chunks.path} was written; to write it "
            "to another disk, set TMPDIR to a folder there"
        )
        raise OSError(error.errno, reason, str(where)) from error


class _Spool:
    """One file for each array, to which the chunks are appended."""

    def __init__(
        self, chunks: RowChunks, folder: Path, floor: float | None, *, check_finite: bool
    ) -> None:
        self._source = chunks
        self._check_finite = check_finite
        self._raw = chunks.raw
        self._folder = folder
        self._floor = floor
        self._scores = next((n for n in ("logits", "probabilities") if n in self._raw.sources), "")
        self._zeros = ZeroCount()
        self._is_binary = False
        self._n_rows = 0
        self._shapes: dict[str, tuple[int, np.dtype[np.generic]]] = {}
        self._distinct: dict[str, Distinct] = {}
        self._id_hashes: list[Array] = []

    def copy(self) -> BlockedRows:
        """Copy all chunks, and check what no chunk can tell."""
        with self._errors_name_file():
            if not self._scores:
                replace(self._raw, arrays={}).to_data()  # raises the error that lists what there is
            with ExitStack() as stack:
                files: dict[str, BinaryIO] = {}
                for chunk in self._source.chunks():
                    if not len(next(iter(chunk.numbers.values()))):
                        continue
                    for name, values in self._checked(chunk.numbers).items():
                        self._write(stack, files, name, values)
                    for name, cells in chunk.cells.items():
                        if name == "ids":
                            self._add_ids(cells)
                            continue
                        codes = self._distinct.setdefault(name, Distinct()).add(cells)
                        self._write(stack, files, name, codes)
                    self._n_rows += len(next(iter(chunk.numbers.values())))
                    self._stop_at_wrong_labels()
                for file in files.values():
                    file.flush()
            if not self._n_rows:
                first = "a header" if self._raw.format == ".csv" else "columns"
                raise InputError(
                    f"it has {first}, but no rows; check the program that wrote it."
                    if self._raw.format in TABLES
                    else "logits are empty; it has no rows."
                )
            self._zeros.warn()
            self._require_different_ids()
            return self._rows()

    @contextmanager
    def _errors_name_file(self) -> Iterator[None]:
        path = self._source.path
        try:
            with decoding(path, DAMAGED):
                yield
        except InputError as error:
            raise FileFormatError(f"{path}: {error}") from error

    def _checked(self, numbers: Mapping[str, Array]) -> dict[str, Array]:
        """Logits and features of a chunk."""
        given = numbers[self._scores]
        self._is_binary = given.size == len(given)
        columns = {
            array: self._raw.sources.get(array) if self._raw.format in TABLES else None
            for array in (self._scores, "features")
        }
        logits = logits_of(
            self._scores, given, self._label(self._scores), self._floor,
            columns=columns[self._scores], first_row=self._n_rows, zeros=self._zeros,
        )  # fmt: skip
        features = numbers.get("features")
        data = CalibrationData(
            logits, features=features, class_names=self._raw.class_names,
            feature_names=None if features is None else self._raw.feature_names,
        )  # fmt: skip
        if self._check_finite:
            check_finite_logits(data.logits, columns[self._scores], first_row=self._n_rows)
        found = {"logits": data.logits}
        if data.features is not None:
            if self._check_finite:
                check_finite_features(data.features, columns["features"], first_row=self._n_rows)
            found["features"] = data.features
        return found

    def _write(
        self, stack: ExitStack, files: dict[str, BinaryIO], name: str, values: Array
    ) -> None:
        """Append to the file of an array."""
        if name not in files:
            raw = io.FileIO(self._file(name), "x")
            files[name] = stack.enter_context(io.BufferedWriter(raw))
            self._shapes[name] = (values.shape[1] if values.ndim == 2 else 0, values.dtype)
        # A memoryview: nothing is copied.
        files[name].write(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data)

    def _file(self, name: str) -> Path:
        return self._folder / f"{name}.bin"

    def _label(self, array: str) -> str:
        """Name of an array, or of its column, in errors."""
        names = self._raw.sources.get(array, (array,))
        return f"the {'column' if self._raw.format in TABLES else 'array'} {names[0]!r}"

    # Labels, domains and groups: the checks see each different value once.

    def _stop_at_wrong_labels(self) -> None:
        """Raise the error for labels of which there are too many to be classes."""
        labels = self._distinct.get("labels")
        if labels is not None and len(labels) > _NAMES_OF_A_CLASS * self._n_classes + 100:
            self._label_indices(labels)

    @property
    def _n_classes(self) -> int:
        return self._shapes["logits"][0]

    def _rows(self) -> BlockedRows:
        """The copied rows."""
        coded: dict[str, CodedRows] = {}
        for name in CODED:
            if name in self._distinct:
                coded[name] = self._coded(name, self._distinct[name])
        labels = None
        known = self._distinct.get("labels")
        if known is not None and known.n_missing < self._n_rows:
            self._require_no_missing("labels", known)
            labels = self._stored("labels", self._label_indices(known))
        has_features = "features" in self._shapes
        return BlockedRows(
            self._stored("logits"), labels=labels,
            features=self._stored("features") if has_features else None, **coded,
            class_names=self._raw.class_names,
            feature_names=self._raw.feature_names if has_features else None,
            provenance=self._raw.provenance,
        )  # fmt: skip

    def _stored(self, name: str, codes: Array | None = None) -> StoredRows:
        """A file of the copy as an array."""
        width, dtype = self._shapes[name]
        shape = (self._n_rows, width) if width else (self._n_rows,)
        file = ShardFile.of(self._file(name), self._n_rows)
        return StoredRows(shape, dtype, [file], None if codes is None else [codes])

    def _coded(self, name: str, distinct: Distinct) -> CodedRows:
        """Domains or groups as codes of sorted names."""
        self._require_no_missing(name, distinct)

        def encode(values: Array) -> CalibrationData:
            logits = np.broadcast_to(0.0, (len(values), 2))
            given: Any = {name: self._source.decode(name, values)}
            return CalibrationData(logits, **given)

        data = self._of_distinct(distinct, name, encode)
        codes, names = data.domain_codes if name == "domains" else data.group_codes
        return CodedRows(self._stored(name, codes), names)

    def _label_indices(self, distinct: Distinct) -> Array:
        """Class of each different label."""

        def encode(values: Array) -> CalibrationData:
            indices = self._source.decode("labels", values)
            if not self._raw.has_indices:
                indices = label_indices(
                    indices,
                    self._label("labels"),
                    self._n_classes,
                    self._raw.class_names,
                    is_binary=self._is_binary,
                )
            logits = np.broadcast_to(0.0, (len(values), self._n_classes))
            return CalibrationData(logits, labels=indices, class_names=self._raw.class_names)

        labels = self._of_distinct(distinct, "labels", encode).labels
        assert labels is not None
        return labels

    def _of_distinct(
        self, distinct: Distinct, name: str, encode: Callable[[Array], CalibrationData]
    ) -> CalibrationData:
        """``encode`` of the different values; its errors name rows of the file."""
        values = distinct.values()
        try:
            return encode(values)
        except InputError:
            codes = np.fromfile(self._file(name), _CODE)
            encode(values[codes[codes >= 0]])
            raise

    def _require_no_missing(self, name: str, distinct: Distinct) -> None:
        if distinct.first_missing is None:
            return
        column = f"the column {self._raw.sources[name][0]!r}"
        if self._raw.format == ".parquet" and distinct.n_missing == self._n_rows:
            raise InputError(f"{column} has no value in any row; remove it.")
        raise InputError(
            f"{column} {self._source.no_value} in row {distinct.first_missing}; fill it, or drop "
            "the row."
        )

    # Ids are compared by hashes of 128 bits: 16 bytes for each row.

    def _add_ids(self, cells: Cells) -> None:
        empty = cells.missing.copy()
        values: pd.Series[Any] = pd.Series(cells.present)
        empty[~cells.missing] = (values.isna() | (values == "")).to_numpy()
        if empty.any():
            row = self._n_rows + int(np.argmax(empty))
            raise missing_id_error(row, self._label("ids"))
        present = np.asarray(cells.present)
        hashes = [pd.util.hash_array(present, hash_key=key, categorize=False) for key in _HASH_KEYS]
        self._id_hashes.append(np.column_stack(hashes))

    def _require_different_ids(self) -> None:
        """Refuse ids of several rows."""
        if not self._id_hashes:
            return
        hashes = np.concatenate(self._id_hashes)
        self._id_hashes.clear()
        order = np.lexsort((hashes[:, 1], hashes[:, 0]))  # stable: rows stay in their order
        again = (hashes[order[1:]] == hashes[order[:-1]]).all(axis=1)
        if not again.any():
            return
        places = np.flatnonzero(again) + 1
        place = int(places[np.argmin(order[places])])
        first = place
        while first > 0 and again[first - 1]:
            first -= 1
        row = int(order[place])
        raise repeated_id_error(self._id_of(row), int(order[first]), row, self._label("ids"))

    def _id_of(self, row: int) -> object:
        start = 0
        for chunk in self._source.chunks():
            ids = chunk.cells["ids"].present
            if row < start + len(ids):
                return ids[row - start]
            start += len(ids)
        raise FileFormatError(f"{self._source.path} was changed while it was read; run it again.")
