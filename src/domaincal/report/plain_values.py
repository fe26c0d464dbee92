"""Values of the page: rounded numbers without NaN, and names as text."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from domaincal._typing import FloatArray

# Longer names are shortened in the middle, so that many of them cannot fill the page.
_NAME_LENGTH = 300
_END = 60


def number(value: Any, digits: int = 5) -> float | int | None:
    """Number with few significant digits; None for NaN and infinity.

    Examples
    --------
    >>> number(0.123456789), number(1234567), number(float("nan"))
    (0.12346, 1234567, None)
    """
    if value is None:
        return None
    if isinstance(value, int | np.integer):
        return int(value)
    value = float(value)
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None


def numbers(values: Iterable[Any], digits: int = 5) -> list[float | int | None]:
    """:func:`number` of each value."""
    listed = values.tolist() if hasattr(values, "tolist") else values
    return [number(value, digits) for value in listed]


def signed(value: float, decimals: int = 1) -> str:
    """Number with its sign; zero has none.

    Examples
    --------
    >>> signed(2.34), signed(-2.34), signed(-0.01)
    ('+2.3', '-2.3', '0.0')
    """
    found = f"{value:+.{decimals}f}"
    return found if float(found) else found[1:]


def array(values: Iterable[Any]) -> FloatArray:
    """Values of the page as an array, with NaN for None.

    Examples
    --------
    >>> array([1, None]).tolist()
    [1.0, nan]
    """
    return np.array([np.nan if value is None else value for value in values], np.float64)


def text(name: object) -> str:
    """Name as text that can be written as UTF-8, of at most 300 characters.

    Examples
    --------
    >>> text(7), len(text("x" * 20_000))
    ('7', 300)
    """
    found = str(name).encode("utf-8", "replace").decode()
    if len(found) <= _NAME_LENGTH:
        return found
    return f"{found[: _NAME_LENGTH - _END - 1]}…{found[-_END:]}"
