"""Type aliases used across the package."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array: TypeAlias = NDArray[Any]
FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]

#: Iterates over steps (a list unless stated otherwise) and may show progress, like ``tqdm.tqdm``.
Track: TypeAlias = Callable[[Any], Iterable[Any]]


class FeatureMatrix(Protocol):
    """Features read in blocks of rows: an array, or an object that computes the rows when read."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    def __len__(self) -> int: ...
    def __getitem__(self, index: Any, /) -> Any: ...


__all__ = ["Array", "ArrayLike", "FeatureMatrix", "FloatArray", "IntArray", "Track"]
