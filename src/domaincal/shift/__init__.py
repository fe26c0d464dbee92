"""New, unlabelled domains: how accurate the model will be there, and how far away they are.

Examples
--------
>>> import domaincal as dc
>>> data, _ = dc.make_multi_domain(n_domains=12, n_rows=300, random_state=0)
>>> known, new = dc.split_domains(data, ["domain-03", "domain-05"])
>>> estimator = dc.shift.ConfidenceEstimator().fit(known)
>>> estimator.predict(new).columns.tolist()
['domain', 'n', 'predicted_accuracy', 'low', 'high', 'verdict', 'distance', 'reason']
"""

from __future__ import annotations

from domaincal.shift.accuracy.confidence import ConfidenceEstimator
from domaincal.shift.accuracy.difference import DifferenceOfConfidences
from domaincal.shift.accuracy.estimator import AccuracyEstimator
from domaincal.shift.accuracy.estimator_file import load_estimator, save_estimator
from domaincal.shift.accuracy.importance import ImportanceWeighting
from domaincal.shift.accuracy.regression import AccuracyRegression
from domaincal.shift.accuracy.thresholded import ThresholdedConfidence
from domaincal.shift.bound import risk_bound
from domaincal.shift.certificate import (
    CalibrationCertificate,
    calibration_certificate,
    certificate_from_errors,
)
from domaincal.shift.covered_domains import CoveredDomains, domain_verdicts
from domaincal.shift.divergence import Divergence, divergence
from domaincal.shift.gap_histograms import GapHistograms
from domaincal.shift.mixture_weights import mixture_distances, mixture_weights
from domaincal.shift.risk import best_temperatures, calibration_risk, risk_table
from domaincal.shift.two_sample import two_sample_distance

__all__ = [
    "AccuracyEstimator",
    "AccuracyRegression",
    "CalibrationCertificate",
    "ConfidenceEstimator",
    "CoveredDomains",
    "DifferenceOfConfidences",
    "Divergence",
    "GapHistograms",
    "ImportanceWeighting",
    "ThresholdedConfidence",
    "best_temperatures",
    "calibration_certificate",
    "calibration_risk",
    "certificate_from_errors",
    "divergence",
    "domain_verdicts",
    "load_estimator",
    "mixture_distances",
    "mixture_weights",
    "risk_bound",
    "risk_table",
    "save_estimator",
    "two_sample_distance",
]
