"""Standardised features in their leading principal directions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from domaincal._typing import Array, FloatArray, IntArray
from domaincal._validation import non_finite_features_error
from domaincal.calibrators.heads import LARGEST_FEATURE
from domaincal.statistics.feature_products import feature_blocks
from domaincal.statistics.principal_directions import principal_directions

#: Largest number of directions. Wider features are reduced to this number of principal components.
MAX_DIRECTIONS = 128
# Rows from which the principal directions of wide features are computed.
_DIRECTION_ROWS = 2048
# A feature whose standard deviation is below this fraction of its size is constant, up to rounding.
_CONSTANT = 1e-7


@dataclass(frozen=True, eq=False)
class FeatureProjection:
    """``(features - centre) @ matrix``: standardised features, reduced if there are many.

    Attributes
    ----------
    centre : array of shape (n_features,)
        Mean of each feature.
    matrix : array of shape (n_features, n_directions)
        Division by the standard deviation, without features that are constant, then a rotation to
        the leading principal directions if there are more than ``MAX_DIRECTIONS`` features.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([[1.0, 5.0], [3.0, 5.0]])
    >>> FeatureProjection.fit(x)(x).tolist()
    [[-1.0], [1.0]]
    """

    centre: FloatArray
    matrix: FloatArray

    @classmethod
    def fit(
        cls, features: Array, weight: FloatArray | None = None, *, max_directions: int | None = None
    ) -> FeatureProjection:
        """Projection of rows on the host; ``weight`` is the weight of each row in the moments."""
        n_rows, n_features = features.shape
        share = np.full(n_rows, 1.0 / n_rows) if weight is None else weight / weight.sum()
        blocks = feature_blocks(n_rows, n_features)
        size = np.zeros(n_features)
        centre = np.zeros(n_features)
        for block in blocks:
            x = features[block].astype(np.float64)
            size = np.maximum(size, np.abs(x).max(axis=0))
            centre += share[block] @ x
        if not (size <= LARGEST_FEATURE).all():  # False for NaN, too
            raise non_finite_features_error(features)
        variance = np.zeros(n_features)
        for block in blocks:
            variance += share[block] @ (features[block] - centre) ** 2
        deviation = np.sqrt(variance)
        varies = deviation > _CONSTANT * size
        if not varies.any():
            return cls(centre, np.zeros((n_features, 1)))
        scale = np.where(varies, 1.0 / np.where(varies, deviation, 1.0), 0.0)
        n_directions = MAX_DIRECTIONS if max_directions is None else max_directions
        if n_features <= n_directions:
            return cls(centre, np.diag(scale)[:, varies])
        rotation = _rotation(features, centre, scale, share, n_directions)
        return cls(centre, scale[:, None] * rotation)

    def __call__(self, features: Array) -> FloatArray:
        """Projected rows, computed block by block in float64."""
        out = np.empty((len(features), self.matrix.shape[1]))
        for block in feature_blocks(*features.shape):
            out[block] = (features[block] - self.centre) @ self.matrix
        return out

    def fold(self, coef: FloatArray, intercept: Any) -> tuple[FloatArray, Any]:
        """Coefficients and intercept on the original features, from those on projected ones."""
        folded = self.matrix @ coef
        return folded, intercept - self.centre @ folded


def _rotation(
    features: Array, centre: FloatArray, scale: FloatArray, share: FloatArray, n_directions: int
) -> FloatArray:
    """Leading principal directions of standardised features, as columns."""
    rows: IntArray = np.arange(len(features))[:: -(-len(features) // _DIRECTION_ROWS)]
    x = (features[rows] - centre) * scale
    x *= np.sqrt(share[rows] * len(features))[:, None]
    return principal_directions(x, n_directions)[1]
