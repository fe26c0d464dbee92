"""Methods on the command line: ``md-ts:head=ridge:target=log``."""

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
    """A calibrator from its name and parameters; a wrong one is wrong usage."""
    from domaincal._specs import Spec
    from domaincal.calibrators.registry import calibrator_from_spec
    from domaincal.errors import InputError

    try:
        return calibrator_from_spec(Spec.parse(text))
    except InputError as error:
        raise click.UsageError(str(error)) from error


def parse_methods(text: str) -> dict[str, Any]:
    """Calibrators by what was written, separated by commas."""
    from domaincal._specs import split_specs

    written = split_specs(text)
    if not written:
        raise click.UsageError("--methods is empty; name at least one, e.g. --methods msp,ts.")
    if len(set(written)) < len(written):
        raise click.UsageError("--methods names a method twice; leave one out.")
    return {part: parse_method(part) for part in written}


def default_method(data: "CalibrationData") -> str:
    """MD-TS, from the logits where there are no features."""
    return "md-ts" if data.features is not None else "md-ts:features=logits"


def default_methods(data: "CalibrationData") -> str:
    """The paper's comparison, as far as the data allow it."""
    return "msp,ts" if data.domains is None else f"msp,ts,{default_method(data)}"


def require_needs(calibrator: Any, written: str, source: "InputData") -> None:
    """Refuse a method whose fit needs what the file does not have."""
    from domaincal._specs import Spec

    name = Spec.parse(written).name
    if name in ("domain-ts", "md-ts"):
        source.require("domains", why=f"which {name} needs; choose another --method, such as ts")
    if name == "md-ts" and calibrator.features is None:
        source.require("features", why=f"which {written} needs; add :features=logits to do without")
