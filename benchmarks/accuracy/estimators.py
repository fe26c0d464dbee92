"""Estimators of the comparison."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import domaincal as dc
from domaincal.shift import (
    AccuracyEstimator,
    AccuracyRegression,
    ConfidenceEstimator,
    DifferenceOfConfidences,
    ImportanceWeighting,
    ThresholdedConfidence,
)

#: Numbers of unlabelled rows of a new domain that an estimator sees.
SIZES = ("20", "100", "all")
#: Names of estimators that tables and figures treat in a special way.
PLAIN, TS, DEFAULT, ORACLE = "plain confidence", "TS", "batch (default)", "oracle"
# So many domains would be needed for an interval of this coverage that none is computed.
_NO_INTERVALS = 0.9999


@dataclass(frozen=True)
class Entry:
    """How an estimator is made, and what of it is measured.

    ``make`` gets the number of rows of a batch. ``each_size``: the fit depends on that number.
    ``one_batch``: an estimate takes long; only one batch of each domain is estimated.
    """

    make: Callable[[str], AccuracyEstimator]
    each_size: bool = False
    one_batch: bool = False


def _of(calibrator: Any) -> ConfidenceEstimator:
    return ConfidenceEstimator(calibrator, coverage=_NO_INTERVALS)


def _auto(size: str) -> ConfidenceEstimator:
    return _of(dc.AutoCalibration(batch_size="domain" if size == "all" else int(size)))


def _log_md_ts() -> dc.MultiDomainTemperatureScaling:
    return dc.MultiDomainTemperatureScaling(head="ridge", target="log", fit_intercept=True)


ESTIMATORS = {
    PLAIN: Entry(lambda size: _of(dc.MaxSoftmax())),
    TS: Entry(lambda size: ConfidenceEstimator(dc.TemperatureScaling())),
    "MD-TS": Entry(lambda size: _of(dc.MultiDomainTemperatureScaling())),
    "MD-TS log T": Entry(lambda size: _of(_log_md_ts())),
    "mixture": Entry(lambda size: _of(dc.DomainMixtureScaling())),
    DEFAULT: Entry(lambda size: ConfidenceEstimator()),
    "auto": Entry(_auto, each_size=True),
    "DoC": Entry(lambda size: DifferenceOfConfidences(coverage=_NO_INTERVALS)),
    "ATC-MC": Entry(lambda size: ThresholdedConfidence("confidence", coverage=_NO_INTERVALS)),
    "ATC-NE": Entry(lambda size: ThresholdedConfidence("entropy")),
    "importance weighting": Entry(
        lambda size: ImportanceWeighting(coverage=_NO_INTERVALS), one_batch=True
    ),
    "regression": Entry(lambda size: AccuracyRegression()),
}
#: Estimators whose intervals are computed, and tried on random draws of domains; the default first.
DRAW_ESTIMATORS = {name: ESTIMATORS[name] for name in (DEFAULT, TS, "ATC-NE", "regression")}
