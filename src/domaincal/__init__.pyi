from . import (
    datasets as datasets,
    errors as errors,
    experiments as experiments,
    metrics as metrics,
    plots as plots,
    shift as shift,
    vision as vision,
)
from ._version import __version__ as __version__
from .calibrators import (
    CPCS as CPCS,
    DAC as DAC,
    AutoCalibration as AutoCalibration,
    BatchTemperatureScaling as BatchTemperatureScaling,
    BayesianBinning as BayesianBinning,
    DomainMixtureScaling as DomainMixtureScaling,
    DomainTemperatureScaling as DomainTemperatureScaling,
    FeatureTemperatureScaling as FeatureTemperatureScaling,
    HistogramBinning as HistogramBinning,
    IsotonicCalibration as IsotonicCalibration,
    MaxSoftmax as MaxSoftmax,
    MultiDomainTemperatureScaling as MultiDomainTemperatureScaling,
    ShiftWeightedScaling as ShiftWeightedScaling,
    TemperatureScaling as TemperatureScaling,
    TransCal as TransCal,
    VectorScaling as VectorScaling,
    discover_domains as discover_domains,
    load as load,
)
from .data import (
    CalibrationData as CalibrationData,
    concatenate as concatenate,
    leave_one_domain_out as leave_one_domain_out,
    logits_from_probabilities as logits_from_probabilities,
    logits_from_scores as logits_from_scores,
    split_domains as split_domains,
    split_halves as split_halves,
)
from .datasets import make_multi_domain as make_multi_domain
from .deploy import (
    CalibratedDomainClassifier as CalibratedDomainClassifier,
    TemperatureMonitor as TemperatureMonitor,
)
from .errors import (
    DomaincalError as DomaincalError,
    DomaincalWarning as DomaincalWarning,
)
from .evaluation import (
    check_change as check_change,
    check_gate as check_gate,
    evaluate as evaluate,
    evaluate_leave_one_domain_out as evaluate_leave_one_domain_out,
    evaluate_split as evaluate_split,
    prediction_table as prediction_table,
    score_table as score_table,
    summary_table as summary_table,
    temperature_table as temperature_table,
)
from .io import (
    Store as Store,
    convert as convert,
    inspect as inspect,
    read as read,
    write as write,
    write_table as write_table,
)
from .metrics import (
    accuracy_prediction_error as accuracy_prediction_error,
    brier_score as brier_score,
    compare_domains as compare_domains,
    compare_methods as compare_methods,
    excess_calibration_error as excess_calibration_error,
    expected_calibration_error as expected_calibration_error,
    multi_domain_calibration_error as multi_domain_calibration_error,
    negative_log_likelihood as negative_log_likelihood,
    per_domain as per_domain,
    reliability_curve as reliability_curve,
    risk_coverage as risk_coverage,
)
