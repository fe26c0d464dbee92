"""The published constants of the corruptions."""

from __future__ import annotations

import functools
import importlib.resources
import json
from typing import Any


def published_constants(table: str, name: str, severity: int) -> tuple[float, ...]:
    """Constants of a corruption; ``constants.json`` explains them.

    Examples
    --------
    >>> published_constants("cifar", "fog", 2)
    (0.5, 3)
    """
    row = _tables()[table][name][severity - 1]
    return tuple(row) if isinstance(row, list) else (row,)


@functools.cache
def _tables() -> dict[str, Any]:
    text = importlib.resources.files(__package__).joinpath("constants.json").read_text()
    tables: dict[str, Any] = json.loads(text)
    return tables
