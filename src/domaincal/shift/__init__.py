"""New, unlabelled domains: how accurate the model will be there, and how far away they are."""

from __future__ import annotations

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
    "CalibrationCertificate",
    "CoveredDomains",
    "Divergence",
    "GapHistograms",
    "best_temperatures",
    "calibration_certificate",
    "calibration_risk",
    "certificate_from_errors",
    "divergence",
    "domain_verdicts",
    "mixture_distances",
    "mixture_weights",
    "risk_bound",
    "risk_table",
    "two_sample_distance",
]
