"""The table of learned values: type, shape, range and relations of everything a model file holds.

Values that agree with the table give predictions that are finite and in range, for all valid rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from domaincal._typing import Array
from domaincal._validation import check_names, check_option
from domaincal.calibrators.base import Calibrator
from domaincal.calibrators.bayesian_binning import BayesianBinning
from domaincal.calibrators.domain_calibrator import DomainCalibrator
from domaincal.calibrators.heads import LARGEST_FEATURE, KernelMap, NeighbourMap
from domaincal.calibrators.histogram_binning import HistogramBinning
from domaincal.calibrators.isotonic import IsotonicCalibration
from domaincal.calibrators.max_softmax import MaxSoftmax
from domaincal.calibrators.multi_domain import MultiDomainTemperatureScaling
from domaincal.calibrators.score_maps import AveragedSteps, LineMap, StepMap
from domaincal.calibrators.temperature import TemperatureScaling
from domaincal.calibrators.temperature_target import (
    TARGETS,
    TEMPERATURE_RANGE,
    TemperatureTarget,
)
from domaincal.statistics import LinearMap

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
        _check_type(value, float)
        _check_range(np.array(value), low, high, nan)

    return check


def count(low: int = 0, *, size: str | None = None) -> Check:
    """A whole number of at least ``low``; with ``size``, it is the size of this name."""

    def check(value: Any, sizes: Sizes) -> None:
        _check_type(value, int)
        _require(low <= value < _LARGEST_COUNT, f"is {value!r:.20}, which is out of range")
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
        _check_type(value, np.ndarray)
        _require(value.dtype.char in dtypes, f"has the dtype {value.dtype}")
        _require(value.ndim == len(shape) and value.size > 0, f"has the shape {value.shape}")
        for name, found in zip(shape, value.shape, strict=True):
            expected = sizes.setdefault(name, found)
            _require(found == expected, f"has the shape {value.shape}, but {name} is {expected}")
        _check_range(value, low, high, nan)
        _require(not ascending or bool((np.diff(value) >= 0).all()), "is not in ascending order")

    return check


def probabilities(*shape: str, ascending: bool = False) -> Check:
    """An array of numbers from 0 to 1."""
    return array(*shape, low=0.0, high=1.0, ascending=ascending)


def names(size: str) -> Check:
    """None, or a tuple with a different name for each of ``size`` columns."""

    def check(value: Any, sizes: Sizes) -> None:
        if value is not None:
            _check_type(value, tuple)
            _check_texts(list(value))
            found, n = len(set(value)), sizes[size]
            _require(found == len(value) == n, f"has {found} different names, but {size} is {n}")

    return check


def part(*classes: type) -> Check:
    """An instance of one of these classes; its fields have lines of their own."""

    def check(value: Any, sizes: Sizes) -> None:
        _require(type(value) in classes, f"is of type {type(value).__name__}")
        check_state(value, dict(sizes))  # a copy: sizes of one part are not those of the next

    return check


def maps(cls: type) -> Check:
    """A list of one map for all classes, or of a map for each class."""
    check_map = part(cls)

    def check(value: Any, sizes: Sizes) -> None:
        _check_type(value, list)
        _require(len(value) in (1, sizes["n_classes"]), f"has {len(value)} maps")
        for one in value:
            check_map(one, sizes)

    return check


def by_domain(name: str, low: float, high: float, *, nan: bool = False) -> Check:
    """A series with a number for each domain."""
    check_values = array("n_domains", low=low, high=high, nan=nan)

    def check(value: Any, sizes: Sizes) -> None:
        _check_type(value, pd.Series)
        _require((value.name, value.index.name) == (name, "domain"), "has another name")
        domain_names(np.asarray(value.index), sizes)
        check_values(value.to_numpy(), sizes)

    return check


def domain_names(value: Any, sizes: Sizes) -> None:
    """Check different domains: all integers or all texts."""
    _check_type(value, np.ndarray)
    _require(value.ndim == 1 and value.dtype.kind in "iuO", f"has the dtype {value.dtype}")
    if value.dtype.kind == "O":
        _check_texts(value.tolist())
    _require(len(set(value.tolist())) == len(value), "holds a domain twice")


def text(value: Any, sizes: Sizes) -> None:
    """Check a text."""
    _check_texts([value])


def boolean(value: Any, sizes: Sizes) -> None:
    """Check True or False."""
    _check_type(value, bool)


def target_name(value: Any, sizes: Sizes) -> None:
    """Check the name of a target of MD-TS."""
    check_option(value, "target", TARGETS)


def limits(value: Any, sizes: Sizes) -> None:
    """Check a pair of temperatures."""
    _check_type(value, tuple)
    _require(len(value) == 2, f"has {len(value)} entries")
    for end in value:
        temperature(end, sizes)


def hyperparameters(value: Any, sizes: Sizes) -> None:
    """Check numbers by name, none of them negative."""
    _check_type(value, dict)
    _check_texts(list(value))
    for found in value.values():
        real = isinstance(found, int | float | np.integer | np.floating)
        _require(real and not isinstance(found, bool), f"holds a {type(found).__name__}")
        _require(0 <= found <= np.finfo(np.float64).max, f"holds {found!r:.20}")


def search_table(value: Any, sizes: Sizes) -> None:
    """Check a table of numbers, NaN or not negative; columns without rows have no type."""
    _check_type(value, pd.DataFrame)
    _check_texts(list(value.columns))
    for column in value.columns if len(value) else ():
        found = value[column].to_numpy()
        _require(found.dtype.kind in "fiu", f"holds a column of {found.dtype}")
        _require(not (found < 0).any(), "holds a negative number")


temperature = number(*TEMPERATURE_RANGE)

_HEAD_ROWS = array(
    "n_rows", "n_features", low=-LARGEST_FEATURE, high=LARGEST_FEATURE, dtypes="df"
)  # fmt: skip

#: Learned attributes of calibrators and fields of their parts, with those of the base classes.
TABLE: dict[type, dict[str, Check]] = {
    Calibrator: {
        "n_classes_": count(2, size="n_classes"),
        "data_fingerprint_": text,
        "class_names_": names("n_classes"),
    },
    MaxSoftmax: {"temperature_": number(1.0, 1.0)},
    TemperatureScaling: {
        "temperature_": temperature,
        "standard_error_": number(0.0, np.inf, nan=True),
        "n_iter_": count(),
    },
    DomainCalibrator: {
        "temperature_": temperature,
        "domain_temperatures_": by_domain("temperature", *TEMPERATURE_RANGE),
        "domain_standard_errors_": by_domain("standard_error", 0.0, np.inf, nan=True),
        "used_domains_": domain_names,
        "n_iter_": count(),
    },
    MultiDomainTemperatureScaling: {
        "clip_": limits,
        "_n_features": count(1, size="n_features"),
        "head_": part(LinearMap, KernelMap, NeighbourMap),
        "head_parameters_": hyperparameters,
        "head_search_": search_table,
        "head_rows_": count(),
        "feature_columns_": names("n_features"),
        "_uses_logits": boolean,
        "_temperature_target": part(TemperatureTarget),
    },
    HistogramBinning: {"maps_": maps(StepMap)},
    IsotonicCalibration: {"maps_": maps(LineMap)},
    BayesianBinning: {"maps_": maps(AveragedSteps)},
    LinearMap: {"coef": array("n_features"), "intercept": number()},
    KernelMap: {
        "rows": _HEAD_ROWS,
        "dual": array("n_rows"),
        "gamma": number(np.finfo(np.float64).tiny),
        "intercept": number(),
    },
    NeighbourMap: {"rows": _HEAD_ROWS, "targets": array("n_rows"), "n_neighbors": count(1)},
    StepMap: {
        "edges": probabilities("n_edges", ascending=True),
        "values": probabilities("n_bins"),
    },
    AveragedSteps: {
        "n_bins": array("n_binnings", low=1, dtypes="lq"),
        "posterior": probabilities("n_binnings"),
    },
    LineMap: {
        "points": probabilities("n_points", ascending=True),
        "values": probabilities("n_points"),
    },
    TemperatureTarget: {"target": target_name, "low": temperature, "high": temperature},
}

#: Conditions on several values of one object, and what is wrong if they do not hold.
RELATIONS: dict[type, dict[str, Callable[[Any], bool]]] = {
    DomainCalibrator: {
        "the domains of its series differ": lambda c: c.domain_temperatures_.index.equals(
            c.domain_standard_errors_.index
        ),
        "a used domain has no temperature": lambda c: bool(
            pd.Index(c.used_domains_).isin(c.domain_temperatures_.index).all()
        ),
    },
    MultiDomainTemperatureScaling: {
        "clip_ differs from the limits of its target": lambda c: (
            c.clip_ == (c._temperature_target.low, c._temperature_target.high)
        ),
        "there must be as many sorted logits as classes": lambda c: (
            not c._uses_logits or c._n_features == c.n_classes_
        ),
    },
    KernelMap: {
        "dual is too large for the precision of rows": lambda m: bool(
            np.abs(m.dual).sum() <= np.finfo(m.rows.dtype).max
        )
    },
    NeighbourMap: {"n_neighbors is above the rows": lambda m: m.n_neighbors <= len(m.rows)},
    StepMap: {"edges and values do not match": lambda m: len(m.edges) == len(m.values) + 1},
    TemperatureTarget: {"low is above high": lambda t: t.low <= t.high},
}


def learned_values(cls: type) -> dict[str, Check]:
    """Lines of the table for a class: those of its base classes first."""
    found: dict[str, Check] = {}
    for base in reversed(cls.__mro__):
        found.update(TABLE.get(base, {}))
    return found


def check_state(owner: object, sizes: Sizes | None = None) -> None:
    """Raise ValueError if the learned values of a calibrator or part do not agree with the table.

    Examples
    --------
    >>> check_state(TemperatureTarget("log", 0.5, -4.0))
    Traceback (most recent call last):
    ...
    ValueError: high is -4, which is out of range
    """
    sizes = {} if sizes is None else sizes
    for name, check in learned_values(type(owner)).items():
        try:
            check(getattr(owner, name), sizes)
        except ValueError as error:
            raise ValueError(f"{name} {str(error).strip()}") from error
    for base in type(owner).__mro__:
        for problem, holds in RELATIONS.get(base, {}).items():
            _require(holds(owner), problem)


def _require(condition: bool, problem: str) -> None:
    if not condition:
        raise ValueError(problem)


def _check_type(value: Any, cls: type) -> None:
    # In Python, True is an int.
    fits = isinstance(value, cls) and (cls is bool or not isinstance(value, bool))
    _require(fits, f"is of type {type(value).__name__}")


def _check_texts(values: list[Any]) -> None:
    for value in values:
        _check_type(value, str)
    check_names(values, "")


def _check_range(values: Array, low: float, high: float, nan: bool) -> None:
    # float64: float32 has no number for the largest limits.
    inside = (values >= np.float64(low)) & (values <= np.float64(high))
    if nan:
        inside |= np.isnan(values)
    if not inside.all():
        wrong = values[~inside].flat[0]
        raise ValueError(f"is {wrong:.6g}, which is out of range")
