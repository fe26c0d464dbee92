"""The table of learned values: type, shape, range and relations of everything a model file holds.

Values that agree with the table give predictions that are finite and in range, for all valid rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from domaincal.calibrators.base import Calibrator
from domaincal.calibrators.bayesian_binning import BayesianBinning
from domaincal.calibrators.domain_calibrator import DomainCalibrator
from domaincal.calibrators.heads import LARGEST_FEATURE, KernelMap, NeighbourMap
from domaincal.calibrators.histogram_binning import HistogramBinning
from domaincal.calibrators.isotonic import IsotonicCalibration
from domaincal.calibrators.learned_checks import (
    Check,
    Sizes,
    array,
    boolean,
    by_domain,
    check_type,
    count,
    domain_names,
    hyperparameters,
    limits,
    names,
    number,
    probabilities,
    require,
    search_table,
    target_name,
    temperature,
    text,
)
from domaincal.calibrators.max_softmax import MaxSoftmax
from domaincal.calibrators.multi_domain import MultiDomainTemperatureScaling
from domaincal.calibrators.score_maps import AveragedSteps, LineMap, StepMap
from domaincal.calibrators.temperature import TemperatureScaling
from domaincal.calibrators.temperature_target import TEMPERATURE_RANGE, TemperatureTarget
from domaincal.statistics import LinearMap


def part(*classes: type) -> Check:
    """An instance of one of these classes; its fields have lines of their own."""

    def check(value: Any, sizes: Sizes) -> None:
        require(type(value) in classes, f"is of type {type(value).__name__}")
        check_state(value, dict(sizes))  # a copy: sizes of one part are not those of the next

    return check


def maps(cls: type) -> Check:
    """A list of one map for all classes, or of a map for each class."""
    check_map = part(cls)

    def check(value: Any, sizes: Sizes) -> None:
        check_type(value, list)
        require(len(value) in (1, sizes["n_classes"]), f"has {len(value)} maps")
        for one in value:
            check_map(one, sizes)

    return check


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
            require(holds(owner), problem)
