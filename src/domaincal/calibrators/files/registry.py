"""Short names of the calibrators, and calibrators from specs such as ``md-ts:head=ridge``."""

from __future__ import annotations

from typing import Any

from domaincal._specs import Spec, json_value
from domaincal.calibrators.base import Calibrator
from domaincal.calibrators.baselines.cpcs import CPCS
from domaincal.calibrators.baselines.density_aware import DAC
from domaincal.calibrators.baselines.transcal import TransCal
from domaincal.calibrators.baselines.vector_scaling import VectorScaling
from domaincal.calibrators.batch.batch_temperature import BatchTemperatureScaling
from domaincal.calibrators.bayesian_binning import BayesianBinning
from domaincal.calibrators.choice.auto_calibration import AutoCalibration
from domaincal.calibrators.domain_temperature import DomainTemperatureScaling
from domaincal.calibrators.features.feature_temperature import FeatureTemperatureScaling
from domaincal.calibrators.histogram_binning import HistogramBinning
from domaincal.calibrators.isotonic import IsotonicCalibration
from domaincal.calibrators.max_softmax import MaxSoftmax
from domaincal.calibrators.mixture.domain_mixture import DomainMixtureScaling
from domaincal.calibrators.mixture.shift_weighted import ShiftWeightedScaling
from domaincal.calibrators.multi_domain import MultiDomainTemperatureScaling
from domaincal.calibrators.temperature import TemperatureScaling
from domaincal.errors import InputError

#: Classes by short name, as on the command line and in TOML files.
METHODS: dict[str, type[Calibrator]] = {
    "msp": MaxSoftmax,
    "ts": TemperatureScaling,
    "domain-ts": DomainTemperatureScaling,
    "md-ts": MultiDomainTemperatureScaling,
    "histogram": HistogramBinning,
    "isotonic": IsotonicCalibration,
    "bbq": BayesianBinning,
    "auto": AutoCalibration,
    "batch": BatchTemperatureScaling,
    "mixture": DomainMixtureScaling,
    "shift-weighted": ShiftWeightedScaling,
    "feature-ts": FeatureTemperatureScaling,
    "transcal": TransCal,
    "cpcs": CPCS,
    "dac": DAC,
    "vector": VectorScaling,
}


def calibrator_from_spec(spec: Spec) -> Any:
    """Create a calibrator from its short name and its parameters.

    Examples
    --------
    >>> calibrator_from_spec(Spec.parse("md-ts:head=ridge:alpha=0.5"))
    MultiDomainTemperatureScaling(alpha=0.5, head='ridge')
    """
    if spec.name not in METHODS:
        raise InputError(f"there is no method {spec.name!r}; choose from {', '.join(METHODS)}.")
    return set_parameters(METHODS[spec.name](), spec)


def set_parameters(calibrator: Any, spec: Spec) -> Any:
    """Set the parameters of a spec on a calibrator."""
    given = spec.parameters(calibrator.get_params(deep=False))
    return calibrator.set_params(**{key: json_value(value) for key, value in given.items()})
