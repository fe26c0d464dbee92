"""Calibrators as they are written in a command or a file: ``md-ts:head=ridge:target=log``."""

import json
from collections.abc import Sequence
from typing import Any

from domaincal._errors import InputError
from domaincal._validation import written_parameters
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
    given = written_parameters(pairs, calibrator.get_params(deep=False), name)
    calibrator.set_params(**{key: _value(value) for key, value in given.items()})
    return calibrator


def _value(text: str) -> Any:
    """A number, true, false, null, a [low,high] pair, or a word."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return tuple(value) if isinstance(value, list) else value
