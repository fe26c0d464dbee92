"""domaincal: confidence that means what it says, in every domain and in the next one."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from domaincal._errors import (
        BoundaryWarning,
        DomaincalError,
        DomaincalWarning,
        FileFormatError,
        InputError,
        MissingDependencyError,
        PoorHeadWarning,
        SmallDomainWarning,
        SubsampleWarning,
        UnseenDomainWarning,
    )
    from domaincal.calibrators import (
        BayesianBinning,
        DomainTemperatureScaling,
        HistogramBinning,
        IsotonicCalibration,
        MaxSoftmax,
        MultiDomainTemperatureScaling,
        TemperatureScaling,
        load,
        logits_from_probabilities,
        logits_from_scores,
    )
    from domaincal.data import (
        CalibrationData,
        concatenate,
        leave_one_domain_out,
        split_domains,
        split_halves,
    )
    from domaincal.datasets import (
        CorruptedFolder,
        corrupt,
        corrupt_folder,
        load_digits_c,
        make_multi_domain,
    )
    from domaincal.experiments import (
        Experiment,
        Results,
        paper_cells,
        read_experiment,
        run_experiment,
    )
    from domaincal.io import Inspection, Store, convert, inspect, read, write, write_table
    from domaincal.metrics import (
        BrierDecomposition,
        DomainMean,
        MethodComparison,
        ReliabilityCurve,
        accuracy,
        accuracy_prediction_error,
        bins_by_domain,
        brier_decomposition,
        brier_score,
        calibration_error_interval,
        classwise_calibration_error,
        compare_domains,
        compare_methods,
        confidence_calibration_error,
        debiased_squared_calibration_error,
        excess_calibration_error,
        expected_calibration_error,
        mean_over_domains,
        multi_domain_calibration_error,
        negative_log_likelihood,
        per_domain,
        reliability_curve,
        smooth_calibration_error,
    )
    from domaincal.plots import (
        plot_accuracy_prediction,
        plot_domain_errors,
        plot_method_scatter,
        plot_reliability,
        plot_temperatures,
    )
    from domaincal.selection import (
        Gate,
        check_gate,
        evaluate,
        evaluate_leave_one_domain_out,
        evaluate_split,
        prediction_table,
        score_table,
        summary_table,
        temperature_table,
    )
    from domaincal.statistics import BinSums, ErrorInterval

# Loaded at first use (PEP 562): importing domaincal or asking for --help stays light.
_HOME = {
    "_errors": (
        "BoundaryWarning",
        "DomaincalError",
        "DomaincalWarning",
        "FileFormatError",
        "InputError",
        "MissingDependencyError",
        "PoorHeadWarning",
        "SmallDomainWarning",
        "SubsampleWarning",
        "UnseenDomainWarning",
    ),
    "calibrators": (
        "BayesianBinning",
        "DomainTemperatureScaling",
        "HistogramBinning",
        "IsotonicCalibration",
        "MaxSoftmax",
        "MultiDomainTemperatureScaling",
        "TemperatureScaling",
        "load",
        "logits_from_probabilities",
        "logits_from_scores",
    ),
    "data": (
        "CalibrationData",
        "concatenate",
        "leave_one_domain_out",
        "split_domains",
        "split_halves",
    ),
    "datasets": (
        "CorruptedFolder",
        "corrupt",
        "corrupt_folder",
        "load_digits_c",
        "make_multi_domain",
    ),
    "experiments": (
        "Experiment",
        "Results",
        "paper_cells",
        "read_experiment",
        "run_experiment",
    ),
    "io": ("Inspection", "Store", "convert", "inspect", "read", "write", "write_table"),
    "metrics": (
        "BrierDecomposition",
        "DomainMean",
        "MethodComparison",
        "ReliabilityCurve",
        "accuracy",
        "accuracy_prediction_error",
        "bins_by_domain",
        "brier_decomposition",
        "brier_score",
        "calibration_error_interval",
        "classwise_calibration_error",
        "compare_domains",
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
        "smooth_calibration_error",
    ),
    "plots": (
        "plot_accuracy_prediction",
        "plot_domain_errors",
        "plot_method_scatter",
        "plot_reliability",
        "plot_temperatures",
    ),
    "selection": (
        "Gate",
        "check_gate",
        "evaluate",
        "evaluate_leave_one_domain_out",
        "evaluate_split",
        "prediction_table",
        "score_table",
        "summary_table",
        "temperature_table",
    ),
    "statistics": ("BinSums", "ErrorInterval"),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = [  # noqa: PLE0604
    "__version__",
    *sorted(_MODULE_OF),
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return version("domaincal")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'domaincal' has no attribute {name!r}")
    return getattr(import_module(f"domaincal.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
