"""Methods as they are written on the command line: ``md-ts:head=ridge:target=log``."""

import json
import re
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from domaincal.data import CalibrationData

METHODS_HELP = (
    "A method is msp, ts, domain-ts, md-ts, histogram, isotonic or bbq, with parameters of its "
    "class after colons: md-ts:head=ridge:target=log, histogram:n_bins=20."
)


def parse_method(text: str) -> Any:
    """A calibrator from its name and parameters."""
    from domaincal.calibrators._registry import METHODS

    name, *pairs = text.strip().split(":")
    if name not in METHODS:
        raise click.UsageError(f"there is no method {name!r}; choose from {', '.join(METHODS)}.")
    calibrator = METHODS[name]()
    known = calibrator.get_params(deep=False)
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or key not in known:
            raise click.UsageError(
                f"{name} has no parameter {pair!r}; write name=value with one of "
                f"{', '.join(known) or 'none: it has no parameters'}."
            )
        calibrator.set_params(**{key: _value(value)})
    return calibrator


def parse_methods(text: str) -> dict[str, Any]:
    """Calibrators by what was written, separated by commas."""
    written = [part.strip() for part in re.split(r",(?![^\[]*\])", text) if part.strip()]
    if not written:
        raise click.UsageError("--methods is empty; name at least one, e.g. --methods msp,ts.")
    if len(set(written)) < len(written):
        raise click.UsageError("--methods names a method twice; leave one out.")
    return {part: parse_method(part) for part in written}


def default_methods(data: "CalibrationData") -> str:
    """The paper's comparison, as far as the data allow it."""
    if data.domains is None:
        return "msp,ts"
    return "msp,ts,md-ts" if data.features is not None else "msp,ts,md-ts:features=logits"


def _value(text: str) -> Any:
    """A number, true, false, null, a [low,high] pair, or a word."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return tuple(value) if isinstance(value, list) else value
