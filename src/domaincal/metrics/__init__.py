"""Calibration errors, proper scores and comparisons, pooled and by domain."""

from __future__ import annotations

from domaincal.metrics.calibration_error import (
    calibration_error_interval,
    classwise_calibration_error,
    confidence_calibration_error,
    debiased_squared_calibration_error,
    excess_calibration_error,
    expected_calibration_error,
    smooth_calibration_error,
)
from domaincal.metrics.comparison import (
    MethodComparison,
    compare_domains,
    compare_last,
    compare_methods,
)
from domaincal.metrics.domains import (
    DomainMean,
    accuracy_prediction_error,
    bins_by_domain,
    mean_over_domains,
    multi_domain_calibration_error,
    per_domain,
)
from domaincal.metrics.reliability import ReliabilityCurve, reliability_curve
from domaincal.metrics.risk_curves import RiskCoverage, RiskCurve, risk_coverage
from domaincal.metrics.scores import (
    BrierDecomposition,
    accuracy,
    brier_decomposition,
    brier_score,
    negative_log_likelihood,
)
from domaincal.statistics import BinSums, ErrorInterval

__all__ = [
    "BinSums",
    "BrierDecomposition",
    "DomainMean",
    "ErrorInterval",
    "MethodComparison",
    "ReliabilityCurve",
    "RiskCoverage",
    "RiskCurve",
    "accuracy",
    "accuracy_prediction_error",
    "bins_by_domain",
    "brier_decomposition",
    "brier_score",
    "calibration_error_interval",
    "classwise_calibration_error",
    "compare_domains",
    "compare_last",
    "compare_methods",
    "confidence_calibration_error",
    "debiased_squared_calibration_error",
    "excess_calibration_error",
    "expected_calibration_error",
    "mean_over_domains",
    "multi_domain_calibration_error",
    "negative_log_likelihood",
    "per_domain",
    "reliability_curve",
    "risk_coverage",
    "smooth_calibration_error",
]
