"""Checks of the parameters of constructors and functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from domaincal.errors import InputError


def check_count(value: Any, name: str, *, minimum: int = 1) -> int:
    """Check an integer of at least ``minimum``."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or not minimum <= value < 1 << 31:
        raise InputError(f"{name} must be a whole number >= {minimum}, got {value!r}.")
    return int(value)


def check_number(value: Any, name: str, *, low: float, high: float, closed: bool = False) -> float:
    """Check a number between ``low`` and ``high``; ``closed`` allows ``low`` itself."""
    real = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not real or not (low < value < high or (closed and value == low)):
        raise InputError(
            f"{name} must be a number {'>=' if closed else '>'} {low:g} and < {high:g}, got "
            f"{value!r}."
        )
    return float(value)


def check_random_state(random_state: Any) -> np.random.Generator:
    """Make a numpy Generator from a seed; a Generator is returned unchanged."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"random_state must be a whole number >= 0 or a numpy Generator, got {random_state!r}."
        ) from error


def check_option(value: Any, name: str, options: tuple[str, ...]) -> str:
    """Check a string that must be one of ``options``."""
    if not isinstance(value, str) or value not in options:
        raise InputError(f"{name} must be one of {', '.join(map(repr, options))}, got {value!r}.")
    return str(value)
