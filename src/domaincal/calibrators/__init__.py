"""Calibrators, which all have the same signature: one file for each method."""

from __future__ import annotations

from domaincal.calibrators.baselines.cpcs import CPCS
from domaincal.calibrators.baselines.density_aware import DAC
from domaincal.calibrators.baselines.transcal import TransCal
from domaincal.calibrators.baselines.vector_scaling import VectorScaling
from domaincal.calibrators.batch.batch_temperature import BatchTemperatureScaling
from domaincal.calibrators.bayesian_binning import BayesianBinning
from domaincal.calibrators.choice.auto_calibration import AutoCalibration
from domaincal.calibrators.domain_temperature import DomainTemperatureScaling
from domaincal.calibrators.features.domain_discovery import discover_domains
from domaincal.calibrators.features.feature_temperature import FeatureTemperatureScaling
from domaincal.calibrators.files.model_file import load
from domaincal.calibrators.histogram_binning import HistogramBinning
from domaincal.calibrators.isotonic import IsotonicCalibration
from domaincal.calibrators.max_softmax import MaxSoftmax
from domaincal.calibrators.mixture.domain_mixture import DomainMixtureScaling
from domaincal.calibrators.mixture.shift_weighted import ShiftWeightedScaling
from domaincal.calibrators.multi_domain import MultiDomainTemperatureScaling
from domaincal.calibrators.temperature import TemperatureScaling

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
