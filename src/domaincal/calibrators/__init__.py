"""Calibrators, which all have the same signature: one file for each method."""

from __future__ import annotations

from domaincal.calibrators.auto_calibration import AutoCalibration
from domaincal.calibrators.batch_temperature import BatchTemperatureScaling
from domaincal.calibrators.bayesian_binning import BayesianBinning
from domaincal.calibrators.cpcs import CPCS
from domaincal.calibrators.density_aware import DAC
from domaincal.calibrators.domain_discovery import discover_domains
from domaincal.calibrators.domain_mixture import DomainMixtureScaling
from domaincal.calibrators.domain_temperature import DomainTemperatureScaling
from domaincal.calibrators.feature_temperature import FeatureTemperatureScaling
from domaincal.calibrators.histogram_binning import HistogramBinning
from domaincal.calibrators.isotonic import IsotonicCalibration
from domaincal.calibrators.max_softmax import MaxSoftmax
from domaincal.calibrators.model_file import load
from domaincal.calibrators.multi_domain import MultiDomainTemperatureScaling
from domaincal.calibrators.shift_weighted import ShiftWeightedScaling
from domaincal.calibrators.temperature import TemperatureScaling
from domaincal.calibrators.transcal import TransCal
from domaincal.calibrators.vector_scaling import VectorScaling

__all__ = [
    "CPCS",
    "DAC",
    "AutoCalibration",
    "BatchTemperatureScaling",
    "BayesianBinning",
    "DomainMixtureScaling",
    "DomainTemperatureScaling",
    "FeatureTemperatureScaling",
    "HistogramBinning",
    "IsotonicCalibration",
    "MaxSoftmax",
    "MultiDomainTemperatureScaling",
    "ShiftWeightedScaling",
    "TemperatureScaling",
    "TransCal",
    "VectorScaling",
    "discover_domains",
    "load",
]
