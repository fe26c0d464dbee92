"""Methods on the command line, such as ``md-ts:head=ridge:target=log``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from domaincal.cli.options import InputData
    from domaincal.data import CalibrationData

METHODS_HELP = (
    "A method is auto, msp, ts, domain-ts, md-ts, batch, mixture, shift-weighted, feature-ts, "
    "transcal, cpcs, dac, vector, histogram, isotonic or bbq, with parameters of its class after "
    "colons: md-ts:head=ridge:target=log, histogram:n_bins=20. md-ts has head, features, target, "
    "fit_intercept, domain_weight, clip, alpha, max_rows, nystroem, random_state; auto has "
    "batch_size, n_bins, random_state; batch has batch, random_state; mixture, shift-weighted, "
    "feature-ts, transcal, cpcs and dac have max_rows, random_state, transcal also at_least_one "
    "and dac n_neighbors; histogram has n_bins, strategy, scheme; isotonic and bbq have scheme."
)
# Longest number of --batch: int() refuses numbers of more than 4,300 digits.
_BATCH_DIGITS = 9


def parse_method(text: str) -> Any:
    """Calibrator of a method; a wrong name or parameter is wrong usage."""
    from domaincal._specs import Spec
    from domaincal.calibrators.files.registry import calibrator_from_spec
    from domaincal.errors import InputError

    try:
        calibrator = calibrator_from_spec(Spec.parse(text))
    except InputError as error:
        raise click.UsageError(str(error)) from error
    try:
        calibrator._check_parameters()
    except InputError as error:
        raise click.UsageError(f"{text}: {error}") from error
    return calibrator


def parse_methods(text: str) -> dict[str, Any]:
    """Calibrators of methods that are separated by commas, by the text of each method."""
    from domaincal._specs import split_specs

    methods = split_specs(text)
    if not methods:
        raise click.UsageError("--methods is empty; name at least one, such as --methods msp,ts.")
    if len(set(methods)) < len(methods):
        raise click.UsageError("--methods names a method twice; remove one of them.")
    return {method: parse_method(method) for method in methods}


def auto_calibration(batch: str | None) -> Any:
    """AutoCalibration for the batches that --batch names: a number of rows, or "domain"."""
    from domaincal.calibrators import AutoCalibration

    if batch is None:
        return AutoCalibration()
    if batch == "domain":
        return AutoCalibration(batch_size="domain")
    # isdigit() alone accepts digits of other scripts.
    is_number = batch.isascii() and batch.isdigit() and len(batch) <= _BATCH_DIGITS
    if not is_number or int(batch) == 0:
        raise click.UsageError(
            f"--batch must be a number of rows (1 or more) or 'domain', got {batch!r}."
        )
    return AutoCalibration(batch_size=int(batch))


def in_words_of_methods(message: str) -> str:
    """Warning about a head of MD-TS with methods of the command line in place of Python.

    Examples
    --------
    >>> in_words_of_methods("try target='log' or another head, or use TemperatureScaling.")
    'try md-ts:target=log or another head, or use ts.'
    """
    names = short_names()
    message = re.sub(r"\b[A-Z]\w+", lambda found: names.get(found[0], found[0]), message)
    return re.sub(
        r"\b(\w+)=(?:'([^']*)'|(True|False))",
        lambda found: f"md-ts:{found[1]}={found[2] or found[3].lower()}",
        message,
    )


def short_names() -> dict[str, str]:
    """Name on the command line of each method, by the name of its class."""
    from domaincal.calibrators.files.registry import METHODS

    return {cls.__name__: name for name, cls in METHODS.items()}


def default_method(data: CalibrationData) -> str:
    """MD-TS; on the logits if the data have no features."""
    return "md-ts" if data.features is not None else "md-ts:features=logits"


def default_methods(data: CalibrationData) -> str:
    """MSP and TS; MD-TS if the data have domains, and batch TS if they have enough of them.

    The last method is the one that is compared with the others and that the gate checks.
    """
    from domaincal.calibrators.batch.batch_temperature import MINIMUM_DOMAINS

    if data.domains is None:
        return "msp,ts"
    batch = ",batch" if len(data.domain_names) >= MINIMUM_DOMAINS else ""
    return f"msp,ts,{default_method(data)}{batch}"


def require_inputs(calibrator: Any, method: str, source: InputData) -> None:
    """Raise an error if the file does not have the arrays that the method needs for a fit."""
    from domaincal._specs import Spec
    from domaincal.calibrators import MultiDomainTemperatureScaling
    from domaincal.calibrators.domain_calibrator import DomainCalibrator

    name = Spec.parse(method).name
    if isinstance(calibrator, DomainCalibrator):
        source.require("domains", needed_by=name, alternative="choose another method, such as ts")
    if _needs_features(calibrator):
        other = "choose another method, such as ts"
        if isinstance(calibrator, MultiDomainTemperatureScaling):
            other = f"use {method}:features=logits"
        source.require("features", needed_by=name, alternative=other)


def require_prediction_inputs(calibrator: Any, model: Path, source: InputData) -> None:
    """Raise an error if a file does not have what a fitted calibrator needs for predictions."""
    from domaincal.calibrators import DomainTemperatureScaling

    if isinstance(calibrator, DomainTemperatureScaling):
        source.require("domains", needed_by=str(model))
    _require_classes(calibrator, model, source)
    n_features = needed_features(calibrator)
    if n_features:
        source.require("features", needed_by=str(model))
        _require_features(calibrator, n_features, model, source)


def needed_features(calibrator: Any) -> int:
    """Number of features that predictions need; 0 for methods that use none."""
    if getattr(calibrator, "_uses_logits", False):
        return 0
    return int(getattr(calibrator, "_n_features", 0))


def _require_classes(calibrator: Any, model: Path, source: InputData) -> None:
    """Raise an error if the classes of a file are not those of the fit, in their order."""
    from domaincal._wording import few
    from domaincal.errors import InputError

    fitted, found = calibrator.class_names_, source.data.class_names
    n_found = source.data.logits.shape[1]
    if n_found != calibrator.n_classes_:
        names = f" ({few(fitted, 8)})" if fitted else ""
        raise InputError(
            f"{source.path} has scores of {n_found} classes, but {model} was fitted on "
            f"{calibrator.n_classes_}{names}; choose the columns of these classes with --logits or "
            "--probabilities."
        )
    if fitted and found and fitted != found:
        raise InputError(
            f"{source.path} has the classes {few(found, 8)}, but {model} was fitted on "
            f"{few(fitted, 8)}; name the columns in the order of the fit with --logits or "
            "--probabilities, and the classes with --classes."
        )


def _require_features(calibrator: Any, n_fitted: int, model: Path, source: InputData) -> None:
    """Raise an error if the features of a file are not those of the fit, in any order."""
    from domaincal._wording import few
    from domaincal.errors import InputError

    fitted, found = getattr(calibrator, "feature_columns_", None), source.data.feature_names
    n_found = source.data.features.shape[1] if source.data.features is not None else 0
    problem = ""
    if fitted and found and set(fitted) != set(found):
        missing = [name for name in fitted if name not in found]
        more = [name for name in found if name not in fitted]
        parts = [f"lacks the features {few(missing, 8)}"] if missing else []
        parts += [f"has the features {few(more, 8)}, which the fit did not have"] if more else []
        problem = " and ".join(parts)
    elif n_found != n_fitted:
        problem = f"has {n_found} features, but {model} was fitted with {n_fitted}"
    if problem:
        raise InputError(f"{source.path} {problem}; choose the columns of {model} with --features.")


def _needs_features(calibrator: Any) -> bool:
    """Whether a fit, or a prediction of a fitted calibrator, is an error without features."""
    from domaincal.calibrators import BatchTemperatureScaling, MultiDomainTemperatureScaling
    from domaincal.calibrators.features.feature_inputs import FeatureInputs

    if isinstance(calibrator, MultiDomainTemperatureScaling):
        return calibrator.features is None
    if isinstance(calibrator, BatchTemperatureScaling):  # it needs them if its fit had any
        return getattr(calibrator, "feature_directions_", None) is not None
    return isinstance(calibrator, FeatureInputs)
