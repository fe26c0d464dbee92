"""The table of learned values: type, shape, range and relations of everything a model file holds.

Values that agree with the table give predictions that are finite and in range, for all valid rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from domaincal._validation.weights import LARGEST_WEIGHT, SMALLEST_WEIGHT
from domaincal.calibrators.base import Calibrator
from domaincal.calibrators.baselines.cpcs import CPCS
from domaincal.calibrators.baselines.density_aware import DAC, NeighbourDistance
from domaincal.calibrators.baselines.density_ratio import (
    LARGEST_SCALE,
    LARGEST_STANDARDISED,
    DensityRatio,
)
from domaincal.calibrators.baselines.source_calibrator import SourceCalibrator
from domaincal.calibrators.baselines.transcal import TransCal
from domaincal.calibrators.baselines.vector_scaling import VectorScaling
from domaincal.calibrators.batch.batch_map import (
    SMALLEST_SCALE,
    BatchMap,
    FeatureDirections,
    n_statistics,
)
from domaincal.calibrators.batch.batch_temperature import BatchTemperatureScaling
from domaincal.calibrators.bayesian_binning import BayesianBinning
from domaincal.calibrators.choice.selection import Selection
from domaincal.calibrators.domain_calibrator import DomainCalibrator
from domaincal.calibrators.features.feature_inputs import FeatureInputs
from domaincal.calibrators.features.feature_projection import FeatureProjection
from domaincal.calibrators.features.feature_temperature import FeatureTemperatureScaling
from domaincal.calibrators.files.learned_checks import (
    Check,
    Sizes,
    array,
    batch_size,
    boolean,
    by_domain,
    check_type,
    count,
    domain_names,
    hyperparameters,
    limits,
    names,
    number,
    optional,
    probabilities,
    require,
    search_table,
    selection_table,
    target_name,
    temperature,
    text,
)
from domaincal.calibrators.heads import LARGEST_FEATURE, KernelMap, NeighbourMap
from domaincal.calibrators.histogram_binning import HistogramBinning
from domaincal.calibrators.isotonic import IsotonicCalibration
from domaincal.calibrators.max_softmax import MaxSoftmax
from domaincal.calibrators.mixture.domain_posterior import DomainPosterior
from domaincal.calibrators.mixture.posterior_calibrator import PosteriorCalibrator
from domaincal.calibrators.mixture.shift_weighted import ShiftWeightedScaling
from domaincal.calibrators.mixture.weighted_temperature import SlopeTable
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


log_temperature = number(*np.log(TEMPERATURE_RANGE).tolist())
# Statistics of a batch are below 1e100 (kernels.numpy_kernels.row_statistics). Standardised, and
# multiplied twice, they stay below the largest float64.
_LARGEST_STATISTIC = 1e101
_LARGEST_COEF = 1e30
_HEAD_ROWS = array(
    "n_rows", "n_features", low=-LARGEST_FEATURE, high=LARGEST_FEATURE, dtypes="df"
)  # fmt: skip

#: Learned attributes of calibrators and fields of their parts, with those of the base classes.
TABLE: dict[type, dict[str, Check]] = {
    Calibrator: {
        "n_classes_": count(2, size="n_classes"),
        "data_fingerprint_": text,
        "class_names_": names("n_classes"),
        "provenance_": optional(part(Selection)),
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
        # Unknown for some fits to sums of sites; no prediction needs it.
        "temperature_": number(*TEMPERATURE_RANGE, nan=True),
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
    BatchTemperatureScaling: {
        "_n_features": count(0, size="n_features"),
        "batch_map_": part(BatchMap),
        "batch_errors_": search_table,
        "feature_directions_": optional(part(FeatureDirections)),
        "_single_rows": boolean,
    },
    FeatureInputs: {
        "_n_features": count(1, size="n_features"),
        "feature_columns_": names("n_features"),
    },
    PosteriorCalibrator: {
        "posterior_": part(DomainPosterior),
        "posterior_search_": search_table,
    },
    ShiftWeightedScaling: {"slope_table_": part(SlopeTable), "em_steps_": count(1)},
    FeatureTemperatureScaling: {
        "temperature_": temperature,
        "penalty_": number(0.0, np.inf),
        "penalty_search_": search_table,
        "clip_": limits,
        "_map": part(LinearMap),
    },
    SourceCalibrator: {
        "temperature_": temperature,
        "limits_": limits,
        "n_rows_": count(1, size="n_rows"),
        "_source": part(DensityRatio),
        "_max_batch_rows": count(1),
    },
    TransCal: {
        "accuracy_": number(0.0, 1.0),
        "_hits": array("n_rows", dtypes="?"),
        "_total_weight": number(SMALLEST_WEIGHT, LARGEST_WEIGHT),
        "_lowest": temperature,
    },
    CPCS: {
        "_logits": array("n_rows", "n_classes", high=0.0, dtypes="df"),
        "_labels": array("n_rows", low=0, dtypes="lq"),
    },
    DAC: {
        "intercept_": temperature,
        "coef_": number(0.0, TEMPERATURE_RANGE[1]),
        "temperature_": temperature,
        "_distance": part(NeighbourDistance),
    },
    VectorScaling: {
        "coef_": array("n_classes"),
        "intercept_": array("n_classes"),
        "temperature_": temperature,
        "n_iter_": count(),
    },
    Selection: {"table": selection_table, "batch_size": batch_size},
    BatchMap: {
        "sizes": array("n_sizes", low=1, high=_LARGEST_STATISTIC, ascending=True),
        "mean": array("n_sizes", "n_statistics", low=-_LARGEST_STATISTIC, high=_LARGEST_STATISTIC),
        "scale": array("n_sizes", "n_statistics", low=SMALLEST_SCALE, high=_LARGEST_STATISTIC),
        "coef": array("n_sizes", "n_coefs", low=-_LARGEST_COEF, high=_LARGEST_COEF),
        "log_pooled": log_temperature,
        "low": log_temperature,
        "high": log_temperature,
        "error": array("n_sizes", low=0.0, high=_LARGEST_COEF, nan=True),
        "reach": array("n_sizes", low=SMALLEST_SCALE, high=_LARGEST_STATISTIC),
    },
    FeatureDirections: {
        "mean": array("n_features", low=-LARGEST_FEATURE, high=LARGEST_FEATURE),
        "scale": number(np.finfo(np.float64).tiny),
        "directions": array(
            "n_features", "n_directions", low=-_LARGEST_STATISTIC, high=_LARGEST_STATISTIC
        ),
    },
    LinearMap: {"coef": array("n_features"), "intercept": number()},
    KernelMap: {
        "rows": _HEAD_ROWS,
        "dual": array("n_rows"),
        "gamma": number(np.finfo(np.float64).tiny),
        "intercept": number(),
    },
    NeighbourMap: {"rows": _HEAD_ROWS, "targets": array("n_rows"), "n_neighbors": count(1)},
    DomainPosterior: {"coef": array("n_features", "n_mixed"), "intercept": array("n_mixed")},
    SlopeTable: {
        "log_temperatures": array(
            "n_points",
            low=np.log(TEMPERATURE_RANGE[0]),
            high=np.log(TEMPERATURE_RANGE[1]),
            ascending=True,
        ),
        "slopes": array("n_points", "n_mixed"),
    },
    FeatureProjection: {
        "centre": array("n_features", low=-LARGEST_FEATURE, high=LARGEST_FEATURE),
        "matrix": array("n_features", "n_directions", low=-LARGEST_SCALE, high=LARGEST_SCALE),
    },
    DensityRatio: {
        "projection": part(FeatureProjection),
        "rows": array(
            "n_rows",
            "n_directions",
            low=-LARGEST_STANDARDISED,
            high=LARGEST_STANDARDISED,
            dtypes="df",
        ),
        "weight": array("n_rows", low=SMALLEST_WEIGHT, high=LARGEST_WEIGHT),
    },
    NeighbourDistance: {
        "rows": array("n_rows", "n_features", low=-1.0, high=1.0, dtypes="df"),
        "n_neighbors": count(1),
    },
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
    PosteriorCalibrator: {
        "its classifier has other domains than are used": lambda c: (
            len(c.posterior_.intercept) == max(1, len(c.used_domains_))
        )
    },
    ShiftWeightedScaling: {
        "its table has other domains than its classifier": lambda c: (
            c.slope_table_.slopes.shape[1] == len(c.posterior_.intercept)
        )
    },
    BatchTemperatureScaling: {
        "its map has other statistics than its features": lambda c: (
            c.batch_map_.mean.shape[1] == n_statistics(c.feature_directions_)
        ),
        "batch_errors_ has other columns, or other sizes than its map": lambda c: (
            c.batch_errors_.columns.tolist() == ["n_rows", "error", "pooled_error"]
            and c.batch_errors_["n_rows"].dtype.kind == "i"
            and np.array_equal(c.batch_errors_["n_rows"], c.batch_map_.sizes)
        ),
        "its features are unknown": lambda c: (
            c.feature_directions_ is None or len(c.feature_directions_.mean) == c._n_features
        ),
    },
    BatchMap: {
        "coefficients and statistics do not match": lambda m: (
            m.coef.shape[1] == m.mean.shape[1] + 1
        ),
        "a size occurs twice": lambda m: bool((np.diff(m.sizes) > 0).all()),
        "low is above high": lambda m: m.low <= m.high,
    },
    FeatureTemperatureScaling: {
        "the lower of its limits is above the upper": lambda c: c.clip_[0] <= c.clip_[1]
    },
    SlopeTable: {
        "it has fewer than 4 temperatures": lambda t: len(t.log_temperatures) >= 4,
    },
    SourceCalibrator: {
        "the lower of its limits is above the upper": lambda c: c.limits_[0] <= c.limits_[1]
    },
    TransCal: {"_lowest is below the limits": lambda c: c.limits_[0] <= c._lowest},
    CPCS: {
        "the largest logit of a row is not 0": lambda c: bool((c._logits.max(axis=1) == 0).all()),
        "a label is not a class": lambda c: bool(c._labels.max() < c.n_classes_),
    },
    DensityRatio: {
        "rows and projection do not match": lambda r: (
            r.rows.shape[1] == r.projection.matrix.shape[1]
        )
    },
    NeighbourDistance: {"n_neighbors is above the rows": lambda d: d.n_neighbors <= len(d.rows)},
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
