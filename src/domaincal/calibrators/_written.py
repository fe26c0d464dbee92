"""Calibrators as they are written in a command or a file: ``md-ts:head=ridge:target=log``."""

import json
from collections.abc import Sequence
from typing import Any

from domaincal._errors import InputError
from domaincal.calibrators._registry import METHODS


def calibrator_from_text(text: str) -> Any:
    """A calibrator from its name and parameters.

    Examples
    --------
    >>> calibrator_from_text("md-ts:head=ridge:alpha=0.5")
    MultiDomainTemperatureScaling(alpha=0.5, head='ridge')
    """
    name, *pairs = text.strip().split(":")
    if name not in METHODS:
        raise InputError(f"there is no method {name!r}; choose from {', '.join(METHODS)}.")
    return with_parameters(METHODS[name](), name, pairs)


def with_parameters(calibrator: Any, name: str, pairs: Sequence[str]) -> Any:
    """Set parameters that are written as ``key=value``."""
    known = calibrator.get_params(deep=False)
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if key in known and not equals:
            raise InputError(f"{name} needs a value for {key!r}; write {key}=VALUE.")
        if key not in known:
            cure = f"choose from {', '.join(known)}" if known else "it has none"
            raise InputError(f"{name} has no parameter {key!r}; {cure}.")
        calibrator.set_params(**{key: _value(value)})
    return calibrator


def _value(text: str) -> Any:
    """A number, true, false, null, a [low,high] pair, or a word."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return tuple(value) if isinstance(value, list) else value
