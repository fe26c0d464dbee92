"""domaincal: confidence that means what it says, in every domain and in the next one."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from domaincal._errors import (
        BoundaryWarning as BoundaryWarning,
        DomaincalError as DomaincalError,
        DomaincalWarning as DomaincalWarning,
        FileFormatError as FileFormatError,
        InputError as InputError,
        MissingDependencyError as MissingDependencyError,
        PoorHeadWarning as PoorHeadWarning,
        SmallDomainWarning as SmallDomainWarning,
        SubsampleWarning as SubsampleWarning,
        UnseenDomainWarning as UnseenDomainWarning,
    )
    from domaincal.calibrators import (
        BayesianBinning as BayesianBinning,
        DomainTemperatureScaling as DomainTemperatureScaling,
        HistogramBinning as HistogramBinning,
        IsotonicCalibration as IsotonicCalibration,
        MaxSoftmax as MaxSoftmax,
        MultiDomainTemperatureScaling as MultiDomainTemperatureScaling,
        TemperatureScaling as TemperatureScaling,
        load as load,
        logits_from_probabilities as logits_from_probabilities,
        logits_from_scores as logits_from_scores,
    )
    from domaincal.data import (
        CalibrationData as CalibrationData,
        concatenate as concatenate,
        leave_one_domain_out as leave_one_domain_out,
        split_domains as split_domains,
        split_halves as split_halves,
    )
    from domaincal.datasets import (
        Cifar10 as Cifar10,
        Cifar100 as Cifar100,
        CorruptedFolder as CorruptedFolder,
        DomainTable as DomainTable,
        GoogleLandmarks as GoogleLandmarks,
        ImageNetC as ImageNetC,
        ImageSet as ImageSet,
        ImageTable as ImageTable,
        RxRx1 as RxRx1,
        TinyImageNet as TinyImageNet,
        corrupt as corrupt,
        corrupt_folder as corrupt_folder,
        load_digits_c as load_digits_c,
        make_multi_domain as make_multi_domain,
        read_domain_table as read_domain_table,
    )
    from domaincal.experiments import (
        Experiment as Experiment,
        Results as Results,
        paper_cells as paper_cells,
        read_experiment as read_experiment,
        run_experiment as run_experiment,
    )
    from domaincal.io import (
        Inspection as Inspection,
        Store as Store,
        convert as convert,
        inspect as inspect,
        read as read,
        write as write,
        write_table as write_table,
    )
    from domaincal.metrics import (
        BrierDecomposition as BrierDecomposition,
        DomainMean as DomainMean,
        MethodComparison as MethodComparison,
        ReliabilityCurve as ReliabilityCurve,
        accuracy as accuracy,
        accuracy_prediction_error as accuracy_prediction_error,
        bins_by_domain as bins_by_domain,
        brier_decomposition as brier_decomposition,
        brier_score as brier_score,
        calibration_error_interval as calibration_error_interval,
        classwise_calibration_error as classwise_calibration_error,
        compare_domains as compare_domains,
        compare_methods as compare_methods,
        confidence_calibration_error as confidence_calibration_error,
        debiased_squared_calibration_error as debiased_squared_calibration_error,
        excess_calibration_error as excess_calibration_error,
        expected_calibration_error as expected_calibration_error,
        mean_over_domains as mean_over_domains,
        multi_domain_calibration_error as multi_domain_calibration_error,
        negative_log_likelihood as negative_log_likelihood,
        per_domain as per_domain,
        reliability_curve as reliability_curve,
        smooth_calibration_error as smooth_calibration_error,
    )
    from domaincal.plots import (
        plot_accuracy_prediction as plot_accuracy_prediction,
        plot_domain_errors as plot_domain_errors,
        plot_method_scatter as plot_method_scatter,
        plot_reliability as plot_reliability,
        plot_temperatures as plot_temperatures,
    )
    from domaincal.selection import (
        Gate as Gate,
        check_gate as check_gate,
        evaluate as evaluate,
        evaluate_leave_one_domain_out as evaluate_leave_one_domain_out,
        evaluate_split as evaluate_split,
        prediction_table as prediction_table,
        score_table as score_table,
        summary_table as summary_table,
        temperature_table as temperature_table,
    )
    from domaincal.statistics import (
        BinSums as BinSums,
        ErrorInterval as ErrorInterval,
    )

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
        "Cifar10",
        "Cifar100",
        "CorruptedFolder",
        "DomainTable",
        "GoogleLandmarks",
        "ImageNetC",
        "ImageSet",
        "ImageTable",
        "RxRx1",
        "TinyImageNet",
        "corrupt",
        "corrupt_folder",
        "load_digits_c",
        "make_multi_domain",
        "read_domain_table",
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
