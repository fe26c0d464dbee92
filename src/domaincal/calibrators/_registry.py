"""Every calibrator by name."""

from domaincal.calibrators._base import Calibrator
from domaincal.calibrators.bayesian_binning import BayesianBinning
from domaincal.calibrators.domain_temperature import DomainTemperatureScaling
from domaincal.calibrators.histogram_binning import HistogramBinning
from domaincal.calibrators.isotonic import IsotonicCalibration
from domaincal.calibrators.max_softmax import MaxSoftmax
from domaincal.calibrators.multi_domain import MultiDomainTemperatureScaling
from domaincal.calibrators.temperature import TemperatureScaling

#: Every calibrator under its short name, as on the command line.
METHODS: dict[str, type[Calibrator]] = {
    "msp": MaxSoftmax,
    "ts": TemperatureScaling,
    "domain-ts": DomainTemperatureScaling,
    "md-ts": MultiDomainTemperatureScaling,
    "histogram": HistogramBinning,
    "isotonic": IsotonicCalibration,
    "bbq": BayesianBinning,
}
