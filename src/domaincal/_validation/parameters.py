"""Checks of the parameters of constructors and functions."""

from __future__ import annotations

import reprlib
import sys
from typing import Any

import numpy as np

from domaincal.errors import InputError

#: Most bins of a reliability diagram or of a histogram.
MAX_BINS = 100_000


def is_integer(value: Any) -> bool:
    """Whether the value is an integer of Python or numpy; booleans and durations are not."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64)


def check_count(value: Any, name: str, *, minimum: int = 1, maximum: int = (1 << 31) - 1) -> int:
    """Check an integer of at least ``minimum`` and at most ``maximum``."""
    if not is_integer(value) or not minimum <= value <= maximum:
        bound = f"<= {maximum}" if is_integer(value) and value > maximum else f">= {minimum}"
        raise InputError(f"{name} must be a whole number {bound}, got {_shown(value)}.")
    return int(value)


def check_n_bins(n_bins: Any) -> int:
    """Check a number of bins; each takes memory, so that no text or file may ask for billions."""
    return check_count(n_bins, "n_bins", maximum=MAX_BINS)


def check_number(
    value: Any,
    name: str,
    *,
    low: float,
    high: float,
    closed: bool = False,
    closed_above: bool = False,
) -> float:
    """Check a number between ``low`` and ``high``.

    ``closed`` allows ``low`` itself, ``closed_above`` allows ``high`` itself.
    """
    real = is_integer(value) or isinstance(value, float | np.floating)
    real = real and value <= sys.float_info.max
    at_end = real and ((closed and value == low) or (closed_above and value == high))
    if not real or not (low < value < high or at_end):
        raise InputError(
            f"{name} must be a number {'>=' if closed else '>'} {low:g} and "
            f"{'<=' if closed_above else '<'} {high:g}, got {_shown(value)}."
        )
    return float(value)


def _shown(value: Any) -> str:
    """The value in a message; Python refuses to write integers of more than 4,300 digits."""
    try:
        return reprlib.repr(value)
    except ValueError:
        return "an integer with too many digits"


def check_random_state(random_state: Any) -> np.random.Generator:
    """Make a numpy Generator from a seed; a Generator is returned unchanged."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"random_state must be a whole number >= 0 or a numpy Generator, got "
            f"{_shown(random_state)}."
        ) from error


def check_option(value: Any, name: str, options: tuple[str, ...]) -> str:
    """Check a string that must be one of ``options``."""
    if not isinstance(value, str) or value not in options:
        raise InputError(
            f"{name} must be one of {', '.join(map(repr, options))}, got {_shown(value)}."
        )
    return str(value)
