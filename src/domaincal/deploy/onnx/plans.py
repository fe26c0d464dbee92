"""Graphs of fitted calibrators: what each needs, and the nodes of its method."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from domaincal.calibrators import (
    CPCS,
    DAC,
    AutoCalibration,
    BatchTemperatureScaling,
    BayesianBinning,
    DomainMixtureScaling,
    DomainTemperatureScaling,
    FeatureTemperatureScaling,
    HistogramBinning,
    IsotonicCalibration,
    MaxSoftmax,
    MultiDomainTemperatureScaling,
    ShiftWeightedScaling,
    TemperatureScaling,
    TransCal,
    VectorScaling,
)
from domaincal.calibrators.base import Calibrator
from domaincal.calibrators.score_calibrator import ScoreCalibrator
from domaincal.calibrators.temperature_target import TemperatureTarget
from domaincal.deploy.onnx.batch_temperatures import batch_temperatures
from domaincal.deploy.onnx.heads import require_graph
from domaincal.deploy.onnx.row_temperatures import (
    density_temperatures,
    head_temperatures,
    mixture_temperatures,
    table_temperatures,
)
from domaincal.deploy.onnx.rows import GraphOutputs, GraphRows, calibrate, calibrate_constant
from domaincal.deploy.onnx.score_maps import map_scores, scale_vector
from domaincal.deploy.onnx.shift_temperatures import shift_temperatures
from domaincal.deploy.onnx.tensors import Tensor
from domaincal.errors import InputError

#: What the codes of domains are for: looked up, or only compared with each other.
DomainsUse = Literal["lookup", "batches"]


@dataclass(frozen=True)
class GraphPlan:
    """What the graph of a calibrator needs, and how it is built.

    Attributes
    ----------
    calibrator : fitted calibrator
        Of AutoCalibration, the winner.
    n_features : int or None
        Number of features; None if features are not used.
    domains : {"lookup", "batches"} or None
        What domains are used for; None if they are not used.
    build : callable
        Appends the nodes to the graph of the given rows.
    """

    calibrator: Any
    n_features: int | None
    domains: DomainsUse | None
    build: Callable[[GraphRows], GraphOutputs]

    @property
    def domain_codes(self) -> dict[str, int] | None:
        """Code of each known domain, if domains are looked up."""
        if self.domains != "lookup":
            return None
        codes, _ = self.calibrator._coded_temperatures()
        names = self.calibrator.domain_temperatures_.index
        if names.dtype.kind in "iu":
            return {str(code): int(code) for code in codes}
        return {str(name): k for k, name in enumerate(names)}

    @property
    def method(self) -> str:
        """Name of the class of the calibrator."""
        return type(self.calibrator).__name__


def plan_graph(calibrator: Any) -> GraphPlan:
    """Plan of the graph of a fitted calibrator; raise InputError if it has none."""
    if isinstance(calibrator, AutoCalibration):
        return plan_graph(calibrator.best_)
    plan = _PLANS.get(type(calibrator))
    if plan is not None:
        found: GraphPlan = plan(calibrator)
        return found
    if isinstance(calibrator, CPCS | TransCal):
        raise InputError(
            f"{type(calibrator).__name__} fits a logistic regression to each batch that it "
            "predicts, which an ONNX graph cannot do; use BatchTemperatureScaling (--method "
            "batch), which needs no fit at prediction."
        )
    if isinstance(calibrator, Calibrator):
        raise InputError(
            f"{type(calibrator).__name__} is not a calibrator of domaincal and has no ONNX graph; "
            "export one of those, such as MultiDomainTemperatureScaling (--method md-ts)."
        )
    raise InputError(
        f"calibrator is a {type(calibrator).__name__}; pass a fitted calibrator, such as "
        "TemperatureScaling().fit(data)."
    )


def _from_temperatures(
    calibrator: Any,
    temperatures: Callable[[GraphRows], Tensor],
    *,
    n_features: int | None = None,
    domains: DomainsUse | None = None,
) -> GraphPlan:
    return GraphPlan(
        calibrator, n_features, domains, lambda rows: calibrate(rows, temperatures(rows))
    )


def _constant(c: MaxSoftmax | TemperatureScaling) -> GraphPlan:
    return GraphPlan(c, None, None, lambda rows: calibrate_constant(rows, float(c.temperature_)))


def _domain_table(c: DomainTemperatureScaling) -> GraphPlan:
    codes, temperatures = c._coded_temperatures()
    return _from_temperatures(
        c, lambda rows: table_temperatures(rows, codes, temperatures, c.temperature_),
        domains="lookup",
    )  # fmt: skip


def _multi_domain(c: MultiDomainTemperatureScaling) -> GraphPlan:
    require_graph(c.head_)
    return _from_temperatures(
        c,
        lambda rows: head_temperatures(
            rows, c.head_, c._temperature_target, of_logits=c._uses_logits
        ),
        n_features=None if c._uses_logits else c._n_features,
    )


def _feature_temperature(c: FeatureTemperatureScaling) -> GraphPlan:
    target = TemperatureTarget("log", *c.clip_)
    return _from_temperatures(
        c, lambda rows: head_temperatures(rows, c._map, target, of_logits=False),
        n_features=c._n_features,
    )  # fmt: skip


def _mixture(c: DomainMixtureScaling) -> GraphPlan:
    return _from_temperatures(
        c, lambda rows: mixture_temperatures(rows, c.posterior_, c._mixed_temperatures()),
        n_features=c._n_features,
    )  # fmt: skip


def _shift(c: ShiftWeightedScaling) -> GraphPlan:
    return _from_temperatures(
        c,
        lambda rows: shift_temperatures(
            rows, c.posterior_, c.slope_table_, c._mixed_temperatures(),
            n_steps=c.em_steps_, max_rows=c.max_rows,
        ),
        n_features=c._n_features, domains="batches",
    )  # fmt: skip


def _batch(c: BatchTemperatureScaling) -> GraphPlan:
    directions, single_rows = c.feature_directions_, c._single_rows
    return _from_temperatures(
        c,
        lambda rows: batch_temperatures(
            rows, c.temperature_, c.batch_map_, directions, single_rows=single_rows
        ),
        n_features=None if directions is None else c._n_features,
        domains=None if single_rows else "batches",
    )


def _density(c: DAC) -> GraphPlan:
    return _from_temperatures(
        c,
        lambda rows: density_temperatures(
            rows, c._distance.rows,
            n_neighbors=c.n_neighbors_, coef=c.coef_, intercept=c.intercept_,
        ),
        n_features=c._n_features,
    )  # fmt: skip


def _scores(c: ScoreCalibrator) -> GraphPlan:
    return GraphPlan(c, None, None, lambda rows: map_scores(rows, c.maps_))


def _vector(c: VectorScaling) -> GraphPlan:
    return GraphPlan(c, None, None, lambda rows: scale_vector(rows, c.coef_, c.intercept_))


_PLANS: dict[type, Any] = {
    MaxSoftmax: _constant,
    TemperatureScaling: _constant,
    DomainTemperatureScaling: _domain_table,
    MultiDomainTemperatureScaling: _multi_domain,
    FeatureTemperatureScaling: _feature_temperature,
    DomainMixtureScaling: _mixture,
    ShiftWeightedScaling: _shift,
    BatchTemperatureScaling: _batch,
    DAC: _density,
    HistogramBinning: _scores,
    IsotonicCalibration: _scores,
    BayesianBinning: _scores,
    VectorScaling: _vector,
}
