"""Calibrators, which all have the same signature: one file for each method."""

from __future__ import annotations

from domaincal.calibrators.bayesian_binning import BayesianBinning
from domaincal.calibrators.domain_temperature import DomainTemperatureScaling
from domaincal.calibrators.histogram_binning import HistogramBinning
from domaincal.calibrators.isotonic import IsotonicCalibration
from domaincal.calibrators.max_softmax import MaxSoftmax
from domaincal.calibrators.model_file import load
from domaincal.calibrators.multi_domain import MultiDomainTemperatureScaling
from domaincal.calibrators.temperature import TemperatureScaling

__all__ = [
    "BayesianBinning",
    "DomainTemperatureScaling",
    "HistogramBinning",
    "IsotonicCalibration",
    "MaxSoftmax",
    "MultiDomainTemperatureScaling",
    "TemperatureScaling",
    "load",
]
