"""Checks of the rows of a data set: logits, labels, features and domains."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, cast

import numpy as np
import pandas as pd

from domaincal._row_arrays import CodedRows, MappedRows, is_row_array, parts_of, row_range
from domaincal._tensors import (
    as_array,
    holds_integers_on_device,
    host_array,
    integer_codes,
    is_tensor,
    on_device,
)
from domaincal._typing import Array, ArrayLike, FeatureMatrix, IntArray
from domaincal._validation.arrays import (
    check_n_rows,
    check_not_empty,
    check_not_masked,
    check_real_array,
    first_non_integer,
    non_finite_error,
)
from domaincal._validation.parameters import is_integer
from domaincal._wording import few
from domaincal.errors import InputError

#: Longest name of a domain, group, class or feature, in characters.
MAX_NAME_LENGTH = 1000

# Halves of characters (surrogates), and numbers beyond the last character, which numpy accepts.
_NO_CHARACTER = re.compile("[^\x00-\ud7ff\ue000-\U0010ffff]")
_NON_FINITE_LOGITS_CURE = (
    "drop those rows, or raise masked logits (-inf) to about the smallest finite logit"
)
_NON_FINITE_FEATURES_CURE = "drop or impute those rows"


def check_logits(logits: ArrayLike, *, n_classes: int | None = None) -> Array:
    """Check a real 2-D array with at least one row and two columns; the dtype is kept.

    Finite values are not checked here, which would read large inputs once more. The sums of the
    first pass over the logits are NaN or infinite if a logit is; :func:`non_finite_logits_error`
    then makes the error.
    """
    z = check_real_array(logits, "logits", keep_device=True)
    if z.ndim != 2:
        raise InputError(
            f"logits must have two dimensions (rows, classes), got shape {z.shape}. Reshape your "
            "data; for a 1-D score of a binary classifier use domaincal.logits_from_scores(scores)."
        )
    check_not_empty(z, "logits")
    if n_classes is not None and z.shape[1] != n_classes:
        raise InputError(
            f"logits have {z.shape[1]} classes, but this calibrator was fitted with {n_classes}; "
            "pass logits with the columns of the fit, in the same order."
        )
    if z.shape[1] < 2:
        raise InputError(
            f"logits must have one column for each of at least 2 classes, got {z.shape[1]} "
            f"feature(s) (shape={z.shape}) while a minimum of 2 is required; for a 1-D score of a "
            "binary classifier use domaincal.logits_from_scores(scores)."
        )
    return z


def check_finite_logits(
    logits: Array, columns: Sequence[str] | None = None, *, first_row: int = 0
) -> None:
    """Raise an InputError for the first NaN or infinite logit; reads all logits."""
    error = non_finite_error(
        logits, "logits", _NON_FINITE_LOGITS_CURE, columns, first_row=first_row
    )
    if error is not None:
        raise error


def non_finite_logits_error(logits: FeatureMatrix) -> InputError:
    """The error for logits whose sums are NaN or infinite."""
    return non_finite_error(logits, "logits", _NON_FINITE_LOGITS_CURE) or InputError(
        f"logits are too large for their precision (largest {_largest(logits):.3g}); raise "
        "masked logits (such as -1e30) to about the smallest other logit, or divide all by a "
        "constant."
    )


def _largest(rows: FeatureMatrix) -> float:
    """Largest magnitude, read in blocks of rows."""
    parts = parts_of(rows)
    if parts is not None:
        return max(parts.map(_largest, rows))
    size, numbers = max(1, (1 << 20) // rows.shape[1]), row_range(rows)
    blocks = (rows[start : min(start + size, numbers.stop)] for start in numbers[::size])
    return float(max(np.abs(block).max() for block in blocks))


def check_labels(
    labels: ArrayLike | None,
    *,
    n_rows: int,
    n_classes: int,
    name: str = "labels",
    names: tuple[str, ...] | None = None,
    keep_device: bool = False,
) -> Array:
    """Check the class index of each row; an integer dtype is kept.

    Labels that are strings are looked up in ``names``, the names of the classes. Labels that are
    read in blocks are checked when they are read. With ``keep_device``, integers in a tensor that
    numpy cannot read stay on its device.
    """
    if is_row_array(labels):
        check_n_rows(cast(Array, labels), name, n_rows)
        checked = partial(_check_block, n_classes=n_classes, name=name)
        return cast(Array, MappedRows(labels.shape, labels.dtype, checked, labels))
    y = _label_array(labels, name, keep_device=keep_device)
    check_n_rows(y, name, n_rows)
    if y.dtype.kind in "OUT":
        missing = np.asarray(pd.isna(y))
        if missing.any() and not missing.all():
            raise InputError(f"{name} has no value in row {int(np.argmax(missing))}; drop the row.")
        if names is not None and all(isinstance(v, str) for v in y):
            y = _class_indices(y, name, names)
    if y.dtype.kind not in "iub":
        row = first_non_integer(y)
        if row is not None:
            value = y[row : row + 1].tolist()[0]
            raise InputError(
                f"{name} must be integer class indices 0..{n_classes - 1}, got {value!r} in row "
                f"{row} (Unknown label type: {y.dtype}); drop rows without a label. For class "
                "names, name the columns of the logits: pass a DataFrame, or class_names=... to "
                "CalibrationData."
            )
    if y.dtype.kind not in "iu":
        y = y.astype(np.int64)
    low, high = y.limits() if on_device(y) else (y.min(), y.max())
    if low < 0 or high >= n_classes:
        raise InputError(
            f"{name} contains {low if low < 0 else high}, outside the classes "
            f"0..{n_classes - 1}; pass column numbers of the logits, which start at 0."
        )
    return y


def _check_block(labels: Array, *, n_classes: int, name: str) -> Array:
    """Checked labels of a block of rows."""
    return check_labels(labels, n_rows=len(labels), n_classes=n_classes, name=name)


def _label_array(labels: ArrayLike | None, name: str, *, keep_device: bool) -> Array:
    """Convert labels to a 1-D array of any dtype."""
    if keep_device and holds_integers_on_device(labels):
        return as_array(labels)
    if labels is None:
        raise InputError(
            "this calibrator requires y to be passed, but the target y is None; pass the class "
            "index of each row."
            if name == "y"
            else f"{name} is None; pass the class index of each row."
        )
    check_not_masked(labels, name)
    try:
        # numpy would pad strings to the longest, and drop zero characters at their end.
        strings = isinstance(labels, list | tuple) and isinstance(next(iter(labels), None), str)
        y = np.array(labels, object) if strings else host_array(labels)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise InputError(
            f"{name} must be a 1-D array of class indices, got {type(labels).__name__} ({error})."
        ) from error
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise InputError(
            f"{name} must be a 1-D array of class indices, got shape {y.shape}; use "
            "argmax(axis=1) on one-hot labels."
        )
    return y


def _class_indices(labels: Array, name: str, class_names: tuple[str, ...]) -> IntArray:
    """Look class names up."""
    known = pd.Index(class_names, dtype=object)
    indices = known.get_indexer(pd.Index(labels, dtype=object))
    if indices.min() < 0:
        row = int(np.argmin(indices))
        raise InputError(
            f"{name} contains {str(labels[row])!r} (row {row}), which is not a class; the classes "
            f"are {few(class_names, 10)}."
        )
    return np.asarray(indices, np.int64)


def check_class_names(class_names: Any, *, n_classes: int) -> tuple[str, ...]:
    """Check a sequence with a different string for each class."""
    return check_column_names(
        class_names,
        "class_names",
        n_columns=n_classes,
        owner=f"the logits have {n_classes} classes",
    )


def check_column_names(names: Any, argument: str, *, n_columns: int, owner: str) -> tuple[str, ...]:
    """Check a sequence with a different string for each column.

    ``owner`` is the clause of the message that says how many columns there are.
    """
    is_sequence = not isinstance(names, str) and hasattr(names, "__iter__")
    found = list(names) if is_sequence else [names]
    wrong = [name for name in found if not isinstance(name, str)] if is_sequence else found
    if wrong:
        raise InputError(
            f"{argument} must be a sequence of strings, got {wrong[0]!r}; pass a list of names."
        )
    if len(found) != n_columns:
        raise InputError(f"{argument} has {len(found)} names, but {owner}; pass one for each.")
    if len(set(found)) < len(found):
        twice = next(name for name, count in Counter(found).items() if count > 1)
        raise InputError(f"{argument} contains {twice!r} twice; pass different names.")
    texts = tuple(map(str, found))
    check_names(texts, argument)
    return texts


def check_names(names: Iterable[str], argument: str) -> None:
    """Refuse names that are too long, or that no file can hold."""
    for text in names:
        if len(text) > MAX_NAME_LENGTH:
            raise InputError(
                f"{argument} contains {text[:40]!r}..., which has {len(text)} characters; use "
                f"names of at most {MAX_NAME_LENGTH}."
            )
        if "\0" in text or (not text.isascii() and _NO_CHARACTER.search(text)):
            raise InputError(
                f"{argument} contains {text[:40]!a}, which has a zero character, or a code that "
                "is no character (such as a lone surrogate); rename it."
            )


def check_class_columns(logits: pd.DataFrame) -> None:
    """Raise InputError for integer columns other than 0, 1, 2, ...: labels are column numbers."""
    columns: list[Any] = logits.columns.tolist()
    integers = all(is_integer(name) for name in columns)
    if integers and columns != list(range(len(columns))):
        raise InputError(
            f"the columns of logits are the numbers {few(map(str, columns))}, but labels count the "
            "columns from 0; sort the columns, or name the classes with strings."
        )


def column_names(frame: pd.DataFrame) -> tuple[str, ...] | None:
    """Column names of a data frame; None for the default names 0, 1, 2, ..."""
    columns: list[Any] = frame.columns.tolist()
    return None if columns == list(range(len(columns))) else tuple(map(str, columns))


def check_features(
    features: ArrayLike | None, *, n_rows: int, n_features: int | None = None, needed_by: str
) -> Array:
    """Check a real 2-D array of features; the dtype is kept.

    Finite values are checked later, as for :func:`check_logits`.
    """
    if features is None:
        raise InputError(f"{needed_by} needs features; pass features=... to fit and predict.")
    x = check_real_array(features, "features", keep_device=True)
    if x.ndim != 2:
        raise InputError(
            f"features must have two dimensions (rows, features), got shape {x.shape}; use "
            "features.reshape(len(features), -1)."
        )
    check_n_rows(x, "features", n_rows)
    if x.shape[1] == 0:
        raise InputError(f"features must have at least one column, got shape {x.shape}.")
    if n_features is not None and x.shape[1] != n_features:
        raise InputError(
            f"features have {x.shape[1]} columns, but this calibrator was fitted with "
            f"{n_features}; pass the features that the fit had."
        )
    return x


def check_finite_features(
    features: Array, columns: Sequence[str] | None = None, *, first_row: int = 0
) -> None:
    """Raise an InputError for the first NaN or infinite feature; reads all features."""
    error = non_finite_error(
        features, "features", _NON_FINITE_FEATURES_CURE, columns, first_row=first_row
    )
    if error is not None:
        raise error


def non_finite_features_error(features: FeatureMatrix) -> InputError:
    """The error for features whose sums are NaN or infinite."""
    return non_finite_error(features, "features", _NON_FINITE_FEATURES_CURE) or InputError(
        f"features are too large to be squared (largest {_largest(features):.3g}); divide "
        "them by a constant."
    )


def check_domains(
    domains: ArrayLike | None,
    *,
    n_rows: int,
    needed_by: str,
    name: str = "domains",
    keep_device: bool = False,
) -> tuple[IntArray, Array]:
    """Check the domain of each row: all integers or all strings.

    ``name="groups"`` checks groups in the same way. Names that are strings are Python objects: an
    array of numpy's string dtype would pad each to the longest. With ``keep_device``, the codes of
    integers in a tensor that numpy cannot read are on its device.

    Returns
    -------
    codes : array of int, shape (n_rows,)
        Index of each row's domain in ``names``.
    names : array
        Sorted names of the domains.
    """
    one = name.removesuffix("s")
    if domains is None:
        raise InputError(f"{needed_by} needs {name}; pass {name}=..., the {one} of each row.")
    if isinstance(domains, CodedRows):
        return cast(IntArray, domains.codes), domains.names
    if keep_device and holds_integers_on_device(domains):
        there = as_array(domains)
        check_n_rows(there, name, n_rows)
        return cast(tuple[IntArray, Array], integer_codes(cast(Any, there)))
    values = _domain_array(domains, name, one)
    check_n_rows(values, name, n_rows)
    if values.dtype.kind == "f":
        row = first_non_integer(values)
        if row is not None:
            raise InputError(
                f"{name} must be integers or strings, got {values[row]} in row {row}; give "
                f"every row a {one}."
            )
        values = values.astype(np.int64)
    if values.dtype.kind not in "iu":
        values = _integers_or_strings(values, name)
    # pandas reads the byte order of this machine only.
    native = values.astype(values.dtype.newbyteorder("="), copy=False)
    codes, names = pd.factorize(native, sort=True)
    if names.dtype.kind == "O":
        check_names(names, name)
    return np.asarray(codes, np.int64), np.asarray(names)


def _domain_array(domains: ArrayLike, name: str, one: str) -> Array:
    """Convert domains or groups to a 1-D array of any dtype."""
    check_not_masked(domains, name)
    try:
        # pandas keeps values of different types apart; numpy would convert all of them to strings.
        has_dtype = isinstance(domains, np.ndarray | pd.DataFrame) or is_tensor(domains)
        values = host_array(domains) if has_dtype else pd.Series(domains).to_numpy()
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise InputError(
            f"{name} must be a list or array with the {one} of each row, got "
            f"{type(domains).__name__} ({error}); pass integers or strings."
        ) from error
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise InputError(
            f"{name} must be a 1-D array with the {one} of each row, got shape {values.shape}; "
            "pass one column."
        )
    return values


def _integers_or_strings(values: Array, name: str) -> Array:
    """Integers as int64, or strings as objects; an error for anything else."""
    if values.dtype.kind in "UT":
        values = values.astype(object)
    found = values.dtype.name
    if found == "object":
        missing = pd.isna(values)
        if missing.any():
            raise InputError(
                f"{name} has no value in row {int(np.argmax(missing))}; give every row one, "
                "e.g. 'unknown'."
            )
        if pd.api.types.infer_dtype(values, skipna=False) == "string":
            return values
        types = {str if isinstance(v, str) else int if is_integer(v) else type(v) for v in values}
        if types == {int} and all(abs(int(v)) < 2**63 for v in values):
            return values.astype(np.int64)
        found = " and ".join(sorted(t.__name__ for t in types))
    raise InputError(
        f"{name} must be all integers (of 64 bits) or all strings, got {found}; convert them to "
        "strings."
    )
