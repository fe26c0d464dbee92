"""Numbers that say how good probabilities are: pooled, and domain by domain."""

from domaincal.metrics.calibration_error import (
    confidence_calibration_error,
    excess_calibration_error,
    expected_calibration_error,
)
from domaincal.metrics.domains import (
    DomainMean,
    accuracy_prediction_error,
    mean_over_domains,
    multi_domain_calibration_error,
    per_domain,
)
from domaincal.metrics.reliability import ReliabilityCurve, reliability_curve
from domaincal.metrics.scores import accuracy, brier_score, negative_log_likelihood

__all__ = [
    "DomainMean",
    "ReliabilityCurve",
    "accuracy",
    "accuracy_prediction_error",
    "brier_score",
    "confidence_calibration_error",
    "excess_calibration_error",
    "expected_calibration_error",
    "mean_over_domains",
    "multi_domain_calibration_error",
    "negative_log_likelihood",
    "per_domain",
    "reliability_curve",
]
