"""Options of the numba compiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

from domaincal.kernels.numba_cache import kernel_cache


def jit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """``numba.njit`` without the GIL, and with a disk cache if there is a safe folder for it."""

    def decorate(function: Callable[..., Any]) -> Any:
        kernel = numba.njit(nogil=True, error_model="numpy", **options)(function)
        cache = kernel_cache(function)
        if cache is not None and hasattr(kernel, "_cache"):
            kernel._cache = cache
        return kernel

    return decorate
