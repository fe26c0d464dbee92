"""Type aliases used across the package."""

from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array: TypeAlias = NDArray[Any]
FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]

#: Goes through steps, a list where not said otherwise, and may show how far it is, like
#: ``tqdm.tqdm``.
Track: TypeAlias = Callable[[Any], Iterable[Any]]


class FeatureRows(Protocol):
    """Features that are read in blocks of rows: an array, or what makes them when they are read."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    def __len__(self) -> int: ...
    def __getitem__(self, index: Any, /) -> Any: ...


__all__ = ["Array", "ArrayLike", "FeatureRows", "FloatArray", "IntArray", "Track"]
