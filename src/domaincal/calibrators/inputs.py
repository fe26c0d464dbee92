"""Arguments of fit and predict: arrays, data frames, or a CalibrationData as first argument."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pandas as pd

from domaincal._row_arrays import CodedRows, ComputedRows, is_row_array
from domaincal._tensors import select_columns
from domaincal._typing import Array, FloatArray, IntArray
from domaincal._validation import check_class_columns, check_domains, check_names, column_names
from domaincal._wording import few
from domaincal.data import BlockedRows, CalibrationData
from domaincal.data.blocked_rows import as_rows
from domaincal.errors import InputError


@dataclass(frozen=True, eq=False)
class Inputs:
    """Arguments of a call before they are checked.

    Attributes
    ----------
    logits, y, features, domains : array-like or None
        As given, or the arrays of a CalibrationData.
    class_names, feature_names : tuple of str or None
        Columns of data frames, or the names of a CalibrationData.
    """

    logits: Any
    y: Any
    features: Any
    domains: Any
    class_names: tuple[str, ...] | None
    feature_names: tuple[str, ...] | None


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Rows to fit. Features and domains are checked by the methods that use them.

    Attributes
    ----------
    logits : array of shape (n, n_classes)
    labels : array of shape (n,)
    features, domains : array-like or None
        As given.
    weight : array of shape (n,), or None
    """

    logits: Array
    labels: Array
    features: Any
    domains: Any
    weight: FloatArray | None

    @property
    def streamed(self) -> bool:
        """Whether the rows are read in blocks."""
        return is_row_array(self.logits)

    def domain_codes(self, *, needed_by: str) -> tuple[IntArray, Array]:
        """Number of the domain of each row, and the sorted names; "all" without domains."""
        n = len(self.logits)
        if self.domains is not None:
            return check_domains(self.domains, n_rows=n, needed_by=needed_by)
        names = np.array(["all"], object)
        if self.streamed:
            codes = ComputedRows((n,), np.int64, _zeros)
            return cast(IntArray, codes), names
        return np.zeros(n, np.int64), names

    def select(self, numbers: IntArray) -> TrainingRows:
        """Some of the rows, in memory."""
        domains = self.domains
        if isinstance(domains, CodedRows):
            domains = domains.names[domains.codes[numbers]]
        elif domains is not None:
            domains = np.asarray(domains)[numbers]
        return TrainingRows(
            self.logits[numbers],
            self.labels[numbers],
            None if self.features is None else self.features[numbers],
            domains,
            None if self.weight is None else self.weight[numbers],
        )

    def as_source(self) -> BlockedRows:
        """Rows that are read in blocks, as an argument of ``fit``."""
        return BlockedRows(
            cast(Any, self.logits), labels=cast(Any, self.labels), features=self.features,
            domains=self.domains,
        )  # fmt: skip


def _zeros(start: int, stop: int) -> IntArray:
    return np.zeros(stop - start, np.int64)


def unpack_arguments(
    method: str, logits: Any, *, y: Any = None, features: Any, domains: Any
) -> Inputs:
    """Arguments of a call; CalibrationData or a store replace logits, y, features and domains.

    ``method`` is the name of the called method, for the error if both are given.
    """
    logits = as_rows(logits)
    if not isinstance(logits, CalibrationData | BlockedRows):
        return Inputs(
            logits, y, features, domains, _class_columns(logits), _frame_columns(features)
        )
    data = logits
    arrays = {"y": y, "features": features, "domains": domains}
    duplicates = [name for name, value in arrays.items() if value is not None]
    if duplicates:
        raise InputError(
            f"{method} got a {type(data).__name__}, which already holds all arrays, and "
            f"{few(duplicates)} as well; pass either the data or arrays."
        )
    if method == "fit" and data.labels is None:
        raise InputError("the data have no labels, which fit needs; pass labels=... to them.")
    return Inputs(
        data.logits, data.labels, data.features, data.domains, data.class_names, data.feature_names
    )


def check_same_classes(fitted: tuple[str, ...] | None, given: tuple[str, ...] | None) -> None:
    """Raise InputError if class names are known and differ from those of the fit."""
    # Every prediction checks the number of classes itself.
    if fitted is None or given is None or len(fitted) != len(given):
        return
    for fitted_name, name in zip(fitted, given, strict=True):
        if fitted_name != name:
            raise InputError(
                "the classes of the data differ from those of the fit, or are in another order, "
                f"e.g. {name!r} in place of {fitted_name!r}; bring the columns of the logits into "
                "the order of the fit."
            )


def check_feature_names(names: tuple[str, ...]) -> None:
    """Raise InputError if two features have the same name, or one a name that no file can hold."""
    check_names(names, "the names of the features")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"features have the column {twice!r} twice; rename one of them.")


def order_features(
    features: Any, given: tuple[str, ...] | None, fitted: tuple[str, ...] | None
) -> Any:
    """Features with their columns in the order of the fit, if the names are known for both.

    Columns without names were numbered from 0 in the fit: the same numbers in another order are
    put right, too.
    """
    if features is None or given is None or given == fitted:
        return features
    check_feature_names(given)
    if fitted is None:
        fitted = tuple(map(str, range(len(given))))
        if set(given) != set(fitted):
            return features
    column_numbers = {name: k for k, name in enumerate(given)}
    missing = [name for name in fitted if name not in column_numbers]
    unknown = [name for name in given if name not in fitted]
    if missing or unknown:
        problems = []
        if missing:
            problems.append(f"lack {few(map(repr, missing))}")
        if unknown:
            problems.append(f"have {few(map(repr, unknown))}, which the fit did not have")
        raise InputError(
            f"features {' and '.join(problems)}; pass the {len(fitted)} columns of the fit, in "
            "any order."
        )
    return select_columns(features, [column_numbers[name] for name in fitted])


def _frame_columns(values: Any) -> tuple[str, ...] | None:
    return column_names(values) if isinstance(values, pd.DataFrame) else None


def _class_columns(logits: Any) -> tuple[str, ...] | None:
    """Class names of a data frame of logits."""
    if isinstance(logits, pd.DataFrame):
        check_class_columns(logits)
    return _frame_columns(logits)
