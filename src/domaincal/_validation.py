"""The border: arguments of public functions are checked here, once, and nowhere below."""

from typing import Any

import numpy as np
import pandas as pd

from domaincal._errors import InputError
from domaincal._typing import Array, ArrayLike, FeatureRows, FloatArray, IntArray

_CURE_OF_LOGITS = "drop those rows, or lift masked logits (-inf) to about the smallest real one"


def check_logits(logits: ArrayLike, *, n_classes: int | None = None) -> Array:
    """Real 2-D array with at least one row and two classes, in its own precision.

    That all values are finite shows in the first pass over them (:func:`non_finite_logits`), so
    large inputs are not read once more.
    """
    z = real_array(logits, "logits")
    if z.ndim != 2:
        raise InputError(
            f"logits must have two dimensions (rows, classes), got shape {z.shape}. Reshape your "
            "data; for a 1-D score of a binary classifier use domaincal.logits_from_scores(scores)."
        )
    _require_rows(z, "logits")
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
    error = _non_finite(logits, "logits", _CURE_OF_LOGITS)
    if error is not None:
        raise error


def non_finite_logits(logits: Array) -> InputError:
    """The error for logits whose sums came out NaN or infinite."""
    return _non_finite(logits, "logits", _CURE_OF_LOGITS) or InputError(
        f"logits spread too far for their precision (largest {np.abs(logits).max():.3g}); lift "
        "masked logits (such as -1e30) to about the smallest real one, or divide all by a constant."
    )


def check_labels(labels: ArrayLike, *, n_rows: int, n_classes: int, name: str = "labels") -> Array:
    """Integer class index of each row, in its own integer precision."""
    if labels is None:
        raise InputError(
            "this calibrator requires y to be passed, but the target y is None; pass the class "
            "index of each row."
            if name == "y"
            else f"{name} is None; pass the class index of each row."
        )
    try:
        y = np.asarray(labels)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{name} must be a 1-D array of class indices ({error}).") from error
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise InputError(
            f"{name} must be a 1-D array of class indices, got shape {y.shape}; use "
            "argmax(axis=1) on one-hot labels."
        )
    _require_length(y, name, n_rows)
    if y.dtype.kind not in "iub":
        wrong = _first_fraction(y)
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


def check_features(
    features: ArrayLike | None, *, n_rows: int, n_features: int | None = None, needed_by: str
) -> Array:
    """Real 2-D array of features in its own precision; finite values show in the first pass."""
    if features is None:
        raise InputError(f"{needed_by} needs features; pass features=... to fit and predict.")
    x = real_array(features, "features")
    if x.ndim != 2:
        raise InputError(
            f"features must have two dimensions (rows, features), got shape {x.shape}; use "
            "features.reshape(len(features), -1)."
        )
    _require_length(x, "features", n_rows)
    if x.shape[1] == 0:
        raise InputError(f"features must have at least one column, got shape {x.shape}.")
    if n_features is not None and x.shape[1] != n_features:
        raise InputError(
            f"features have {x.shape[1]} columns, but this calibrator was fitted with "
            f"{n_features}; pass the embedding of the same layer."
        )
    return x


def non_finite_features(features: FeatureRows) -> InputError:
    """The error for features whose sums came out NaN or infinite."""
    return _non_finite(features, "features", "drop or impute those rows") or InputError(
        f"features are too large to be squared (largest {np.abs(features[:]).max():.3g}); scale "
        "them."
    )


def check_domains(
    domains: ArrayLike | None, *, n_rows: int, needed_by: str
) -> tuple[IntArray, Array]:
    """Code of each row's domain and the sorted names: all integers or all strings."""
    if domains is None:
        raise InputError(f"{needed_by} needs domains; pass domains=..., the domain of each row.")
    try:
        # pandas keeps mixed types apart where numpy would turn all into strings.
        one_type = isinstance(domains, np.ndarray | pd.DataFrame)
        values = np.asarray(domains) if one_type else pd.Series(domains).to_numpy()
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise InputError(
            f"domains must be a list or array with the domain of each row, got "
            f"{type(domains).__name__} ({error}); pass integers or strings."
        ) from error
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise InputError(
            f"domains must be a 1-D array with the domain of each row, got shape {values.shape}; "
            "pass one column."
        )
    _require_length(values, "domains", n_rows)
    if values.dtype.kind == "f":
        wrong = _first_fraction(values)
        if wrong is not None:
            raise InputError(
                f"domains must be integers or strings, got {values[wrong]} in row {wrong}; give "
                "every row a domain."
            )
        values = values.astype(np.int64)
    if values.dtype.kind not in "iuU":
        values = _plain_names(values)
    codes, names = pd.factorize(values, sort=True)
    return np.asarray(codes, np.int64), np.asarray(names)


def check_sample_weight(sample_weight: ArrayLike | None, *, n_rows: int) -> FloatArray | None:
    """Finite, non-negative weights with a positive sum, or None."""
    if sample_weight is None:
        return None
    w = real_array(sample_weight, "sample_weight").astype(np.float64)
    if w.ndim != 1:
        raise InputError(f"sample_weight must be 1-D, got shape {w.shape}; pass one for each row.")
    _require_length(w, "sample_weight", n_rows)
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


def check_probabilities(probabilities: ArrayLike) -> Array:
    """Rows of non-negative numbers that sum to 1 (within 1e-3, for float16)."""
    p = real_array(probabilities, "probabilities")
    if p.ndim != 2 or p.shape[1] < 2:
        raise InputError(
            f"probabilities must have shape (rows, at least 2 classes), got {p.shape}; for a "
            "binary P(y=1) use numpy.column_stack([1 - p, p])."
        )
    _require_rows(p, "probabilities")
    error = _non_finite(p, "probabilities", "drop those rows")
    if error is not None:
        raise error
    off = np.abs(p.sum(axis=1, dtype=np.float64) - 1.0)
    if p.min() < 0 or off.max() > 1e-3:
        row = int(np.argmax(off)) if p.min() >= 0 else int(np.argmin(p.min(axis=1)))
        raise InputError(
            f"probabilities must be >= 0 and sum to 1 in each row, but row {row} is {p[row][:5]}"
            f"{'...' if p.shape[1] > 5 else ''} with sum {float(p[row].sum()):.6g}; logits are "
            "turned into probabilities by scipy.special.softmax(logits, axis=1)."
        )
    return p


def check_confidences(confidences: ArrayLike) -> FloatArray:
    """1-D array of numbers in [0, 1], as float64."""
    c = real_array(confidences, "confidences")
    if c.ndim != 1:
        raise InputError(
            f"confidences must be 1-D, the confidence of each prediction, got shape {c.shape}; "
            "pass probabilities.max(axis=1)."
        )
    _require_rows(c, "confidences")
    c = c.astype(np.float64, copy=False)
    # A sum of single-precision probabilities may exceed 1 by its rounding.
    c = np.where((c > 1.0) & (c < 1.0 + 1e-6), 1.0, c) if c.max() > 1.0 else c
    inside = (c >= 0.0) & (c <= 1.0)
    if not inside.all():
        raise InputError(
            f"confidences contains {c[~inside][0]} (row {int(np.argmin(inside))}); they must lie "
            "in [0, 1]."
        )
    return np.ascontiguousarray(c)


def check_hits(hits: ArrayLike, *, n_rows: int) -> Array:
    """1-D array of 0 and 1: whether each prediction is right."""
    h = real_array(hits, "hits", allow_bool=True)
    if h.ndim != 1:
        raise InputError(f"hits must be 1-D, got shape {h.shape}; pass predicted == labels.")
    _require_length(h, "hits", n_rows)
    if h.dtype.kind != "b":
        right = (h == 0) | (h == 1)
        if not right.all():
            raise InputError(
                f"hits contains {h[~right][0]}; pass predicted == labels, true or false for "
                "each row."
            )
    return h.astype(bool, copy=False)


def check_count(value: Any, name: str, *, minimum: int = 1) -> int:
    """A whole number of at least ``minimum``."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < minimum:
        raise InputError(f"{name} must be a whole number >= {minimum}, got {value!r}.")
    return int(value)


def check_number(value: Any, name: str, *, low: float, high: float, closed: bool = False) -> float:
    """A number between ``low`` and ``high``; with ``closed``, ``low`` itself too."""
    real = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not real or not (low < value < high or (closed and value == low)):
        raise InputError(
            f"{name} must be a number {'>=' if closed else '>'} {low:g} and < {high:g}, got "
            f"{value!r}."
        )
    return float(value)


def random_generator(random_state: Any) -> np.random.Generator:
    """Numpy's generator for a seed."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"random_state must be a whole number >= 0 or a numpy Generator, got {random_state!r}."
        ) from error


def check_option(value: Any, name: str, options: tuple[str, ...]) -> str:
    """One of the named options."""
    if not isinstance(value, str) or value not in options:
        raise InputError(f"{name} must be one of {', '.join(map(repr, options))}, got {value!r}.")
    return str(value)


def real_array(values: ArrayLike | None, name: str, *, allow_bool: bool = False) -> Array:
    """An array of real numbers, of any shape."""
    if values is None:
        raise InputError(f"{name} is None; pass an array of real numbers.")
    if np.ma.is_masked(values):
        raise InputError(f"{name} is a masked array; fill or drop the masked entries first.")
    try:
        array = np.asarray(values)
        if array.dtype.kind == "O":
            array = array.astype(np.float64)
    except (TypeError, ValueError, RuntimeError) as error:  # torch raises RuntimeError
        raise InputError(
            f"{name} must be an array of real numbers, got {type(values).__name__} ({error}); "
            "convert it with numpy.asarray(..., dtype=float), sparse matrices with .toarray() and "
            "tensors with .detach().cpu().numpy()."
        ) from error
    if array.dtype.kind == "c":
        raise InputError(f"Complex data not supported: {name} must be real, take its real part.")
    if array.dtype.kind not in ("fiub" if allow_bool else "fiu"):
        raise InputError(
            f"{name} must be an array of real numbers, got dtype {array.dtype}; convert it with "
            "numpy.asarray(..., dtype=float)."
        )
    return array


def _require_rows(array: Array, name: str) -> None:
    if len(array) == 0:
        raise InputError(
            f"{name} is empty: found array with 0 sample(s) (shape={array.shape}) while a minimum "
            "of 1 is required; check the selection that made it."
        )


def _require_length(array: Array, name: str, n_rows: int) -> None:
    if len(array) != n_rows:
        raise InputError(
            f"{name} has {len(array)} rows, but the logits or predictions have {n_rows}; pass one "
            "entry for each row."
        )


def _non_finite(array: FeatureRows, name: str, cure: str) -> InputError | None:
    """An error that names the first NaN or infinite entry, or None; reads in blocks of rows."""
    size = max(1, (1 << 20) // max(1, array.shape[1] if len(array.shape) > 1 else 1))
    for start in range(0, len(array), size):
        bad = ~np.isfinite(array[start : start + size])
        if bad.any():
            where = tuple(int(k[0]) for k in np.nonzero(bad))
            value = str(array[start : start + size][where]).replace("nan", "NaN")
            place = ", column ".join(map(str, (where[0] + start, *where[1:])))
            return InputError(f"{name} contains {value} (row {place}); {cure}.")
    return None


def _first_fraction(values: Array) -> int | None:
    """Row of the first value that is not a whole number that float64 can count, or None."""
    if values.dtype.kind in "US":
        return 0
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError):
        return 0
    whole = np.isfinite(numbers) & (np.abs(numbers) < 2.0**53)
    whole[whole] = numbers[whole] == np.floor(numbers[whole])
    return None if whole.all() else int(np.argmin(whole))


def _plain_names(values: Array) -> Array:
    """Domain names from objects: all strings or all integers."""
    missing = pd.isna(values)
    if missing.any():
        raise InputError(
            f"domains has no value in row {int(np.argmax(missing))}; give every row a domain, "
            "e.g. fill the gaps with 'unknown'."
        )
    types = {str if isinstance(v, str) else int if _is_integer(v) else type(v) for v in values}
    if types == {str}:
        return values
    if types == {int} and all(abs(int(v)) < 2**63 for v in values):
        return values.astype(np.int64)
    kinds = " and ".join(sorted(t.__name__ for t in types))
    raise InputError(
        f"domains must be all integers (of 64 bits) or all strings, got {kinds}; convert them to "
        "strings."
    )


def _is_integer(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
