"""Methods on the command line, such as ``md-ts:head=ridge:target=log``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from domaincal.cli.options import InputData
    from domaincal.data import CalibrationData

METHODS_HELP = (
    "A method is msp, ts, domain-ts, md-ts, histogram, isotonic or bbq, with parameters of its "
    "class after colons: md-ts:head=ridge:target=log, histogram:n_bins=20. md-ts has head, "
    "features, target, fit_intercept, domain_weight, clip, alpha, max_rows, nystroem, "
    "random_state; histogram n_bins, strategy, scheme; isotonic and bbq scheme."
)


def parse_method(text: str) -> Any:
    """Calibrator of a method; a wrong name or parameter is wrong usage."""
    from domaincal._specs import Spec
    from domaincal.calibrators.files.registry import calibrator_from_spec
    from domaincal.errors import InputError

    try:
        return calibrator_from_spec(Spec.parse(text))
    except InputError as error:
        raise click.UsageError(str(error)) from error


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

    if batch is None or batch == "domain" or (batch.isdecimal() and int(batch) > 0):
        size: Any = 1 if batch is None else batch if batch == "domain" else int(batch)
        return AutoCalibration(batch_size=size)
    raise click.UsageError(f"--batch must be a number of rows or 'domain', got {batch!r}.")


def default_method(data: CalibrationData) -> str:
    """MD-TS; on the logits if the data have no features."""
    return "md-ts" if data.features is not None else "md-ts:features=logits"


def default_methods(data: CalibrationData) -> str:
    """MSP, TS and, if the data have domains, MD-TS."""
    return "msp,ts" if data.domains is None else f"msp,ts,{default_method(data)}"


def require_inputs(calibrator: Any, method: str, source: InputData) -> None:
    """Raise an error if the file does not have the arrays that the method needs for a fit."""
    from domaincal._specs import Spec

    name = Spec.parse(method).name
    if name in ("domain-ts", "md-ts"):
        source.require("domains", needed_by=name, alternative="choose another method, such as ts")
    if name == "md-ts" and calibrator.features is None:
        source.require("features", needed_by=method, alternative=f"use {method}:features=logits")
