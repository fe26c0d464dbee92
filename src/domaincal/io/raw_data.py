"""Arrays of a file before validation."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from domaincal._files import DAMAGED, decoding
from domaincal._memory import MemoryLimit
from domaincal._typing import Array
from domaincal._validation import check_finite_features, check_finite_logits
from domaincal._wording import few
from domaincal.data import CalibrationData
from domaincal.data.column_choice import ColumnChoice, said
from domaincal.data.column_values import label_indices, logits_of, require_ids
from domaincal.errors import FileFormatError, InputError

#: Names of the arrays of a file; ``probabilities`` may replace ``logits``.
ARRAYS = ("logits", "probabilities", "labels", "features", "domains", "groups")

#: Arrays of names, which files hold as codes, and the entries that list the names.
CODED = {"domains": "domain_names", "groups": "group_names"}

#: Formats that are tables.
TABLES = (".csv", ".parquet")
_SCORES = ("logits", "probabilities")

# Memory that the checks of CalibrationData take for each row, in bytes: for domains or groups that
# are all different, for labels that are not integers, and for a Python string without its text.
_CHECKED_NAME = 150
_CHECKED_LABEL = 80
_STRING = 90


@dataclass(frozen=True, eq=False)
class RawData:
    """Arrays of a file by name, with names of classes and features and provenance.

    Attributes
    ----------
    format : str
        Format of the file, such as ``".npz"`` or ``"store"``.
    arrays : mapping from some of ``ARRAYS``
    class_names, feature_names, provenance
        As in :class:`CalibrationData`.
    ignored : tuple of str
        Names of the other arrays or columns of the file.
    sources : mapping from arrays to tuples of str
        Columns of a table, or the array of a file, that hold each array.
    kept : DataFrame, optional
        Columns that a table of predictions repeats.
    has_indices : bool, default False
        Whether labels are indices of classes, in a file that is written from CalibrationData alone.
        Elsewhere, numbers can be names of classes.
    """

    format: str
    arrays: Mapping[str, Array]
    class_names: tuple[str, ...] | None = None
    feature_names: tuple[str, ...] | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    kept: pd.DataFrame | None = None
    has_indices: bool = False

    def peak_bytes(self) -> int:
        """Memory that the arrays, kept columns and :meth:`to_data` take together, at most."""
        total = 0
        if self.kept is not None:
            total += int(self.kept.memory_usage(index=False, deep=True).sum())
        for name, values in self.arrays.items():
            total += values.nbytes
            if not values.dtype.isnative or values.dtype.itemsize > 8:
                total += values.nbytes
            if values.dtype.kind not in "fiubO":
                # Rows of text become Python strings, which pandas also encodes.
                total += 2 * values.nbytes + values.size * _STRING
            if name == "probabilities":
                total += 8 * values.size + 16 * math.prod(values.shape[:1])
            if name in _SCORES and values.size == math.prod(values.shape[:1]):  # a binary score
                total += 64 * values.size
            if name in CODED:
                total += values.size * _CHECKED_NAME
            if name == "labels" and values.dtype.kind not in "iu":
                total += values.size * _CHECKED_LABEL
        return total

    def to_data(self, *, floor: float | None = None, check_finite: bool = True) -> CalibrationData:
        """Validated rows; ``floor`` stands in place of smaller probabilities."""
        given = {name: _native(values) for name, values in self.arrays.items()}
        scores = next((name for name in _SCORES if name in given), None)
        if scores is None:
            found = few(map(repr, [*given, *self.ignored]), 12)
            raise InputError(
                f"it has no logits (found: {found or 'nothing'}); name the scores of the classes "
                "'logits' (columns 'logit_*') or 'probabilities' (columns 'prob_*'), or say which "
                f"they are with {said('logits')} or {said('probabilities')}."
            )
        if self.format in TABLES and len(given[scores]) == 0:
            first = "a header" if self.format == ".csv" else "columns"
            raise InputError(f"it has {first}, but no rows; check the program that wrote it.")
        logits = logits_of(
            scores, given[scores], self._source(scores), floor, columns=self._columns(scores)
        )
        labels = given.get("labels")
        has_vector = labels is not None and labels.ndim == 1 and logits.ndim == 2
        if labels is not None and has_vector and not self.has_indices:
            labels = label_indices(
                labels, self._source("labels"), logits.shape[1], self.class_names,
                is_binary=given[scores].size == len(given[scores]),
            )  # fmt: skip
        if "ids" in given:
            require_ids(given["ids"], self._source("ids"))
        data = CalibrationData(
            logits, labels=labels,
            **{name: given[name] for name in ("features", "domains", "groups") if name in given},
            class_names=self.class_names, provenance=self.provenance,
            feature_names=self.feature_names if "features" in given else None,
        )  # fmt: skip
        if check_finite:
            check_finite_logits(data.logits, self._columns(scores))
            if data.features is not None:
                check_finite_features(data.features, self._columns("features"))
        return data

    def _columns(self, array: str) -> tuple[str, ...] | None:
        """Columns of a table that hold an array; None for a file of arrays."""
        return self.sources.get(array) if self.format in TABLES else None

    def _source(self, array: str) -> str:
        """Name of an array, or of its first column, in errors."""
        names = self.sources.get(array, (array,))
        kind = "column" if self.format in TABLES else "array"
        return f"the {kind} {names[0]!r}"


def checked(
    path: str | os.PathLike[str],
    raw: RawData,
    *,
    limit: MemoryLimit,
    floor: float | None = None,
    check_finite: bool = True,
) -> CalibrationData:
    """Validated rows of a file; errors name the file."""
    limit.require(raw.peak_bytes())
    try:
        with decoding(path, DAMAGED):
            return raw.to_data(floor=floor, check_finite=check_finite)
    except InputError as error:
        raise FileFormatError(f"{path}: {error}") from error


def chosen_arrays(raw: RawData, choice: ColumnChoice) -> RawData:
    """The arrays of a file that holds ``ARRAYS`` under their own names, as the user names them."""
    names = choice.array_names(raw.arrays)
    left = tuple(name for name in raw.arrays if name not in names.values())
    return replace(
        raw, arrays={array: raw.arrays[name] for array, name in names.items()},
        class_names=choice.of_classes() or raw.class_names, ignored=(*raw.ignored, *left),
        sources=sources_of(names),
    )  # fmt: skip


def sources_of(names: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """``RawData.sources`` of arrays with these names in the file."""
    return {array: (name,) for array, name in names.items()}


def arrays_of(data: CalibrationData) -> dict[str, Array]:
    """Arrays of the data by name, without those that are None."""
    if not isinstance(data, CalibrationData):
        raise InputError(f"data must be CalibrationData, got {type(data).__name__}.")
    given = {name: getattr(data, name, None) for name in ARRAYS}
    return {name: values for name, values in given.items() if values is not None}


def named_rows(codes: Array, names: Sequence[Any], array: str) -> Array:
    """The name of each row; a name that occurs in many rows takes memory once."""
    if codes.dtype.kind not in "iu" or codes.ndim != 1:
        raise InputError(f"{array} must be codes, which are indices of names; write it again.")
    if codes.size and not 0 <= codes.min() <= codes.max() < len(names):
        wrong = codes.min() if codes.min() < 0 else codes.max()
        raise InputError(f"{array} contains {wrong}, but there are {len(names)} names.")
    is_integer = all(isinstance(name, int) for name in names)
    return np.array(names, dtype=np.int64 if is_integer else object)[codes]


def _native(values: Array) -> Array:
    """Array in the byte order of this machine."""
    return values if values.dtype.isnative else values.astype(values.dtype.newbyteorder("="))
