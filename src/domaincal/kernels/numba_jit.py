"""Options of the numba compiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def jit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """``numba.njit`` without the GIL, and with a disk cache if a folder for it is writable."""

    def decorate(function: Callable[..., Any]) -> Any:
        try:
            return numba.njit(nogil=True, error_model="numpy", cache=True, **options)(function)
        except RuntimeError:  # neither the package folder nor the user's cache is writable
            return numba.njit(nogil=True, error_model="numpy", **options)(function)

    return decorate
