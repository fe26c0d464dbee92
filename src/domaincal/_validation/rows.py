"""The rows that calibrators see: logits, labels, features, domains, weights."""

from typing import Any

import numpy as np
import pandas as pd

from domaincal._tensors import host_array, is_tensor
from domaincal._typing import Array, ArrayLike, FeatureRows, FloatArray, IntArray
from domaincal._validation.arrays import (
    first_fraction,
    non_finite,
    real_array,
    require_length,
    require_rows,
)
from domaincal._wording import few
from domaincal.errors import InputError

_CURE_OF_LOGITS = "drop those rows, or lift masked logits (-inf) to about the smallest real one"
_CURE_OF_FEATURES = "drop or impute those rows"


def check_logits(logits: ArrayLike, *, n_classes: int | None = None) -> Array:
    """Real 2-D array with at least one row and two classes, in its own precision.

    That all values are finite shows in the first pass over them (:func:`non_finite_logits`), so
    large inputs are not read once more.
    """
    z = real_array(logits, "logits", keep_device=True)
    if z.ndim != 2:
        raise InputError(
            f"logits must have two dimensions (rows, classes), got shape {z.shape}. Reshape your "
            "data; for a 1-D score of a binary classifier use domaincal.logits_from_scores(scores)."
        )
    require_rows(z, "logits")
    if n_classes is not None and z.shape[1] != n_classes:
        raise InputError(
            f"logits have {z.shape[1]} classes, but this calibrator was fitted with {n_classes}; "
            "pass logits of the same classes in the same order."
        )
    if z.shape[1] < 2:
        raise InputError(
            f"logits must have one column for each of at least 2 classes, got {z.shape[1]} "
            "feature(s) (shape={}) while a minimum of 2 is required; for a 1-D score of a binary "
            "classifier use domaincal.logits_from_scores(scores).".format(z.shape)
        )
    return z


def require_finite_logits(logits: Array) -> None:
    """Read all logits, for those who make no pass over them anyway."""
    error = non_finite(logits, "logits", _CURE_OF_LOGITS)
    if error is not None:
        raise error


def non_finite_logits(logits: FeatureRows) -> InputError:
    """The error for logits whose sums came out NaN or infinite."""
    return non_finite(logits, "logits", _CURE_OF_LOGITS) or InputError(
        f"logits spread too far for their precision (largest {np.abs(logits[:]).max():.3g}); lift "
        "masked logits (such as -1e30) to about the smallest real one, or divide all by a constant."
    )


def check_labels(
    labels: ArrayLike | None,
    *,
    n_rows: int,
    n_classes: int,
    name: str = "labels",
    names: tuple[str, ...] | None = None,
) -> Array:
    """Integer class index of each row, in its own integer precision.

    Strings are looked up in ``names``, the names of the classes.
    """
    if labels is None:
        raise InputError(
            "this calibrator requires y to be passed, but the target y is None; pass the class "
            "index of each row."
            if name == "y"
            else f"{name} is None; pass the class index of each row."
        )
    try:
        y = host_array(labels)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{name} must be a 1-D array of class indices ({error}).") from error
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise InputError(
            f"{name} must be a 1-D array of class indices, got shape {y.shape}; use "
            "argmax(axis=1) on one-hot labels."
        )
    require_length(y, name, n_rows)
    if names is not None and y.dtype.kind in "OU" and all(isinstance(v, str) for v in y):
        y = _class_numbers(y, name, names)
    if y.dtype.kind not in "iub":
        wrong = first_fraction(y)
        if wrong is not None:
            value = y[wrong : wrong + 1].tolist()[0]
            raise InputError(
                f"{name} must be integer class indices 0..{n_classes - 1}, got {value!r} in row "
                f"{wrong} (Unknown label type: {y.dtype}); drop rows without a label, and "
                "replace class names by their column's number."
            )
        y = y.astype(np.int64)
    elif y.dtype.kind == "b":
        y = y.astype(np.int64)
    low, high = y.min(), y.max()
    if low < 0 or high >= n_classes:
        wrong = low if low < 0 else high
        raise InputError(
            f"{name} contains {wrong}, outside the classes 0..{n_classes - 1}; labels are column "
            "numbers, counted from 0."
        )
    return y


def check_class_names(class_names: Any, *, n_classes: int) -> tuple[str, ...]:
    """A different string for each class."""
    return check_column_names(
        class_names, "class_names", n_columns=n_classes, columns=f"the logits have {n_classes} "
        "classes", each="class",
    )  # fmt: skip


def check_column_names(
    names: Any, argument: str, *, n_columns: int, columns: str, each: str
) -> tuple[str, ...]:
    """A different string for each column of an array."""
    listed = not isinstance(names, str) and hasattr(names, "__iter__")
    found = list(names) if listed else [names]
    wrong = [name for name in found if not isinstance(name, str)] if listed else found
    if wrong:
        raise InputError(
            f"{argument} must be a sequence of strings, got {wrong[0]!r}; pass a list of names."
        )
    if len(found) != n_columns:
        raise InputError(
            f"{argument} has {len(found)} names, but {columns}; pass one for each column."
        )
    if len(set(found)) < len(found):
        twice = next(name for name in found if found.count(name) > 1)
        raise InputError(f"{argument} holds {twice!r} twice; every {each} needs its own name.")
    return tuple(map(str, found))


def column_names(frame: pd.DataFrame) -> tuple[str, ...] | None:
    """Names of the columns of a data frame; None where they are numbered from 0."""
    columns: list[Any] = frame.columns.tolist()
    return None if columns == list(range(len(columns))) else tuple(map(str, columns))


def check_features(
    features: ArrayLike | None, *, n_rows: int, n_features: int | None = None, needed_by: str
) -> Array:
    """Real 2-D array of features in its own precision; finite values show in the first pass."""
    if features is None:
        raise InputError(f"{needed_by} needs features; pass features=... to fit and predict.")
    x = real_array(features, "features", keep_device=True)
    if x.ndim != 2:
        raise InputError(
            f"features must have two dimensions (rows, features), got shape {x.shape}; use "
            "features.reshape(len(features), -1)."
        )
    require_length(x, "features", n_rows)
    if x.shape[1] == 0:
        raise InputError(f"features must have at least one column, got shape {x.shape}.")
    if n_features is not None and x.shape[1] != n_features:
        raise InputError(
            f"features have {x.shape[1]} columns, but this calibrator was fitted with "
            f"{n_features}; pass the embedding of the same layer."
        )
    return x


def require_finite_features(features: Array) -> None:
    """Read all features, for those who make no pass over them anyway."""
    error = non_finite(features, "features", _CURE_OF_FEATURES)
    if error is not None:
        raise error


def non_finite_features(features: FeatureRows) -> InputError:
    """The error for features whose sums came out NaN or infinite."""
    return non_finite(features, "features", _CURE_OF_FEATURES) or InputError(
        f"features are too large to be squared (largest {np.abs(features[:]).max():.3g}); scale "
        "them."
    )


def check_domains(
    domains: ArrayLike | None, *, n_rows: int, needed_by: str, name: str = "domains"
) -> tuple[IntArray, Array]:
    """Code of each row's domain (or group) and the sorted names: all integers or all strings."""
    one = name.removesuffix("s")
    if domains is None:
        raise InputError(f"{needed_by} needs {name}; pass {name}=..., the {one} of each row.")
    try:
        # pandas keeps mixed types apart where numpy would turn all into strings.
        one_type = isinstance(domains, np.ndarray | pd.DataFrame) or is_tensor(domains)
        values = host_array(domains) if one_type else pd.Series(domains).to_numpy()
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
    require_length(values, name, n_rows)
    if values.dtype.kind == "f":
        wrong = first_fraction(values)
        if wrong is not None:
            raise InputError(
                f"{name} must be integers or strings, got {values[wrong]} in row {wrong}; give "
                f"every row a {one}."
            )
        values = values.astype(np.int64)
    if values.dtype.kind not in "iuU":
        values = _plain_names(values, name)
    codes, names = pd.factorize(values, sort=True)
    return np.asarray(codes, np.int64), np.asarray(names)


def check_sample_weight(sample_weight: ArrayLike | None, *, n_rows: int) -> FloatArray | None:
    """Finite, non-negative weights with a positive sum, or None."""
    if sample_weight is None:
        return None
    w = real_array(sample_weight, "sample_weight").astype(np.float64)
    if w.ndim != 1:
        raise InputError(f"sample_weight must be 1-D, got shape {w.shape}; pass one for each row.")
    require_length(w, "sample_weight", n_rows)
    if not np.isfinite(w).all() or w.min() < 0:
        wrong = w[~(np.isfinite(w) & (w >= 0))][0]
        raise InputError(f"sample_weight contains {wrong}; weights must be finite and >= 0.")
    with np.errstate(over="ignore"):
        total = w.sum()
    if total == 0:
        raise InputError("sample_weight sums to zero; at least one row needs a positive weight.")
    if total > 1e100:
        raise InputError(f"sample_weight sums to {total:.3g}; divide the weights by a constant.")
    return w


def _plain_names(values: Array, name: str) -> Array:
    """Names of domains or groups from objects: all strings or all integers."""
    missing = pd.isna(values)
    if missing.any():
        raise InputError(
            f"{name} has no value in row {int(np.argmax(missing))}; give every row one, "
            "e.g. fill the gaps with 'unknown'."
        )
    types = {str if isinstance(v, str) else int if _is_integer(v) else type(v) for v in values}
    if types == {str}:
        return values
    if types == {int} and all(abs(int(v)) < 2**63 for v in values):
        return values.astype(np.int64)
    kinds = " and ".join(sorted(t.__name__ for t in types))
    raise InputError(
        f"{name} must be all integers (of 64 bits) or all strings, got {kinds}; convert them to "
        "strings."
    )


def _class_numbers(labels: Array, name: str, names: tuple[str, ...]) -> IntArray:
    """Number of each class name."""
    numbers = pd.Index(names).get_indexer(pd.Index(labels))
    if numbers.min() < 0:
        row = int(np.argmin(numbers))
        raise InputError(
            f"{name} contains {str(labels[row])!r} (row {row}), which is none of the classes "
            f"{few(names, 10)}."
        )
    return np.asarray(numbers, np.int64)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
