"""Features of the rows of X, from which calibrators predict temperatures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd
from scipy.sparse import issparse

from domaincal._typing import FloatArray, IntArray
from domaincal._wording import few
from domaincal.errors import InputError


class FeatureMap(Protocol):
    """Anything that turns X into features."""

    def transform(self, X: Any) -> Any:
        """Array or data frame of shape (n, n_features)."""


@dataclass(frozen=True, eq=False)
class NumericColumns:
    """The numeric columns of X; missing values are replaced by the medians of the fit.

    Attributes
    ----------
    positions : array of int
        Positions of the columns in X.
    medians : array of float, same shape
        Median of the finite values of each column in the fit; 0 if it had none.
    """

    positions: IntArray
    medians: FloatArray

    @classmethod
    def learn(cls, X: Any) -> NumericColumns | None:
        """The numeric columns of the fit; None for sparse matrices, texts and other X without any.

        Examples
        --------
        >>> found = NumericColumns.learn([[1.0, np.nan], [3.0, 5.0]])
        >>> found.medians.tolist(), found.transform([[np.nan, 2.0]]).tolist()
        ([2.0, 5.0], [[2.0, 2.0]])
        """
        positions = _numeric_positions(X)
        if len(positions) == 0:
            return None
        values = _columns(X, positions)
        medians = np.zeros(len(positions))
        for k, column in enumerate(values.T):
            finite = column[np.isfinite(column)]
            medians[k] = np.median(finite) if len(finite) else 0.0
        return cls(positions, medians)

    def transform(self, X: Any) -> Any:
        """Numeric columns without missing values; a data frame if X is one."""
        values = _columns(X, self.positions)
        values = np.where(np.isfinite(values), values, self.medians)
        if isinstance(X, pd.DataFrame):
            return pd.DataFrame(values, columns=[str(X.columns[k]) for k in self.positions])
        return values


@dataclass(frozen=True, eq=False)
class FeatureFunction:
    """A function of X given by the user."""

    function: Any

    def transform(self, X: Any) -> Any:
        """What the function returns."""
        return self.function(X)


def learn_features(features: Any, X: Any) -> FeatureMap | None:
    """The map from X to features that the parameter ``features`` asks for."""
    if features is None:
        return None
    if isinstance(features, str):
        if features != "numeric":
            raise InputError(
                f"features must be 'numeric', a function of X, a fitted transformer or None, got "
                f"{features!r}; to use some columns, pass a function: lambda X: X[['age', 'dose']]."
            )
        return NumericColumns.learn(X)
    return given_features(features)


def given_features(features: Any) -> FeatureMap:
    """Map from X to features by a function or a fitted transformer of the user."""
    if hasattr(features, "transform"):
        fitted: FeatureMap = features
        return fitted
    if callable(features):
        return FeatureFunction(features)
    raise InputError(
        f"features must be 'numeric', a function of X, a fitted transformer or None, got "
        f"{features!r}."
    )


def _numeric_positions(X: Any) -> IntArray:
    """Positions of the columns of X that hold real numbers."""
    if isinstance(X, pd.DataFrame):
        numeric = [_is_real(dtype) for dtype in X.dtypes]
        return np.flatnonzero(numeric)
    if issparse(X):
        return np.arange(0)
    try:
        values = np.asarray(X)
    except ValueError:  # rows of different lengths
        return np.arange(0)
    is_matrix = values.ndim == 2 and values.dtype.kind in "fiub"
    return np.arange(values.shape[1] if is_matrix else 0)


def _is_real(dtype: Any) -> bool:
    return pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_complex_dtype(dtype)


def _columns(X: Any, positions: IntArray) -> FloatArray:
    """Columns of X as float64, with NaN for missing values."""
    if not isinstance(X, pd.DataFrame):
        return np.asarray(X, np.float64)[:, positions]
    part = X.iloc[:, positions]
    texts = [str(name) for name, dtype in part.dtypes.items() if not _is_real(dtype)]
    if texts:
        raise InputError(
            f"the columns {few(map(repr, texts))} of X were numbers in the fit and are not now; "
            "convert them with pandas.to_numeric."
        )
    return np.asarray(part.to_numpy(np.float64, na_value=np.nan))
