"""Checks of single learned values, from which the table of learned values is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from domaincal._typing import Array
from domaincal._validation import check_names, check_option
from domaincal.calibrators.choice.selection import COLUMNS as SELECTION_COLUMNS
from domaincal.calibrators.temperature_target import TARGETS, TEMPERATURE_RANGE
from domaincal.data.batches import check_batch_size

#: Sizes that several values share, by name; the first value with a size sets it.
Sizes: TypeAlias = dict[str, int]
#: Raises ValueError if a value does not agree with its line of the table.
Check: TypeAlias = Callable[[Any, Sizes], None]

# Largest coefficient: sums of its products with features stay below the largest float64, 1.8e308.
_LARGEST = 1e300
_LARGEST_COUNT = 1 << 53


def number(low: float = -_LARGEST, high: float = _LARGEST, *, nan: bool = False) -> Check:
    """A float from ``low`` to ``high``, or NaN if ``nan``."""

    def check(value: Any, sizes: Sizes) -> None:
        check_type(value, float)
        _check_range(np.array(value), low, high, nan)

    return check


def count(low: int = 0, *, size: str | None = None) -> Check:
    """A whole number of at least ``low``; with ``size``, it is the size of this name."""

    def check(value: Any, sizes: Sizes) -> None:
        check_type(value, int)
        require(low <= value < _LARGEST_COUNT, f"is {value!r:.20}, which is out of range")
        if size is not None:
            sizes[size] = value

    return check


def array(
    *shape: str,
    low: float = -_LARGEST,
    high: float = _LARGEST,
    dtypes: str = "d",
    nan: bool = False,
    ascending: bool = False,
) -> Check:
    """An array of numbers with sizes of these names, none of them 0.

    ``dtypes`` are characters of numpy: d and f for floats of 64 and 32 bits, l and q for integers.
    """

    def check(value: Any, sizes: Sizes) -> None:
        check_type(value, np.ndarray)
        require(value.dtype.char in dtypes, f"has the dtype {value.dtype}")
        require(value.ndim == len(shape) and value.size > 0, f"has the shape {value.shape}")
        for name, found in zip(shape, value.shape, strict=True):
            expected = sizes.setdefault(name, found)
            require(found == expected, f"has the shape {value.shape}, but {name} is {expected}")
        _check_range(value, low, high, nan)
        require(not ascending or bool((np.diff(value) >= 0).all()), "is not in ascending order")

    return check


def probabilities(*shape: str, ascending: bool = False) -> Check:
    """An array of numbers from 0 to 1."""
    return array(*shape, low=0.0, high=1.0, ascending=ascending)


def names(size: str) -> Check:
    """None, or a tuple with a different name for each of ``size`` columns."""

    def check(value: Any, sizes: Sizes) -> None:
        if value is not None:
            check_type(value, tuple)
            _check_texts(list(value))
            found, n = len(set(value)), sizes[size]
            require(found == len(value) == n, f"has {found} different names, but {size} is {n}")

    return check


def optional(check_value: Check) -> Check:
    """None, or a value that agrees with this check."""

    def check(value: Any, sizes: Sizes) -> None:
        if value is not None:
            check_value(value, sizes)

    return check


def by_domain(name: str, low: float, high: float, *, nan: bool = False) -> Check:
    """A series with a number for each domain."""
    check_values = array("n_domains", low=low, high=high, nan=nan)

    def check(value: Any, sizes: Sizes) -> None:
        check_type(value, pd.Series)
        require((value.name, value.index.name) == (name, "domain"), "has another name")
        domain_names(np.asarray(value.index), sizes)
        check_values(value.to_numpy(), sizes)

    return check


def domain_names(value: Any, sizes: Sizes) -> None:
    """Check different domains: all integers or all texts."""
    check_type(value, np.ndarray)
    require(value.ndim == 1 and value.dtype.kind in "iuO", f"has the dtype {value.dtype}")
    if value.dtype.kind == "O":
        _check_texts(value.tolist())
    require(len(set(value.tolist())) == len(value), "holds a domain twice")


def text(value: Any, sizes: Sizes) -> None:
    """Check a text."""
    _check_texts([value])


def boolean(value: Any, sizes: Sizes) -> None:
    """Check True or False."""
    check_type(value, bool)


def target_name(value: Any, sizes: Sizes) -> None:
    """Check the name of a target of MD-TS."""
    check_option(value, "target", TARGETS)


def limits(value: Any, sizes: Sizes) -> None:
    """Check a pair of temperatures."""
    check_type(value, tuple)
    require(len(value) == 2, f"has {len(value)} entries")
    for end in value:
        temperature(end, sizes)


def hyperparameters(value: Any, sizes: Sizes) -> None:
    """Check numbers by name, none of them negative."""
    check_type(value, dict)
    _check_texts(list(value))
    for found in value.values():
        real = isinstance(found, int | float | np.integer | np.floating)
        require(real and not isinstance(found, bool), f"holds a {type(found).__name__}")
        require(0 <= found <= np.finfo(np.float64).max, f"holds {found!r:.20}")


def search_table(value: Any, sizes: Sizes) -> None:
    """Check a table of numbers, NaN or not negative; columns without rows have no type."""
    check_type(value, pd.DataFrame)
    _check_texts(list(value.columns))
    for column in value.columns if len(value) else ():
        found = value[column].to_numpy()
        require(found.dtype.kind in "fiu", f"holds a column of {found.dtype}")
        require(not (found < 0).any(), "holds a negative number")


def selection_table(value: Any, sizes: Sizes) -> None:
    """Check a table of candidates: names, numbers, and which one was chosen."""
    check_type(value, pd.DataFrame)
    require(tuple(value.columns) == SELECTION_COLUMNS, "has other columns")
    if len(value):
        _check_texts(value["method"].tolist())
        for column in SELECTION_COLUMNS[1:-1]:
            require(value[column].dtype.kind in "fiu", f"holds a column of {value[column].dtype}")
        chosen = value["chosen"].to_numpy()
        require(chosen.dtype.kind == "b" and chosen.sum() == 1, "does not choose one method")


def batch_size(value: Any, sizes: Sizes) -> None:
    """Check a number of rows, or the text "domain"."""
    check_batch_size(value)


temperature = number(*TEMPERATURE_RANGE)


def require(condition: bool, problem: str) -> None:
    """Raise ValueError with this problem unless the condition holds."""
    if not condition:
        raise ValueError(problem)


def check_type(value: Any, cls: type) -> None:
    """Raise ValueError if the value is not of this type."""
    # In Python, True is an int.
    fits = isinstance(value, cls) and (cls is bool or not isinstance(value, bool))
    require(fits, f"is of type {type(value).__name__}")


def _check_texts(values: list[Any]) -> None:
    for value in values:
        check_type(value, str)
    check_names(values, "")


def _check_range(values: Array, low: float, high: float, nan: bool) -> None:
    # float64: float32 has no number for the largest limits.
    inside = (values >= np.float64(low)) & (values <= np.float64(high))
    if nan:
        inside |= np.isnan(values)
    if not inside.all():
        wrong = values[~inside].flat[0]
        raise ValueError(f"is {wrong:.6g}, which is out of range")
