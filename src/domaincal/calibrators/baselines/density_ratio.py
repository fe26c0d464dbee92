"""Density ratio of an unlabelled batch to the calibration rows, from a logistic regression."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from scipy.special import expit

from domaincal._tensors import host_array
from domaincal._typing import Array, FloatArray
from domaincal._validation import non_finite_features_error
from domaincal.calibrators.features.feature_projection import FeatureProjection
from domaincal.calibrators.heads import LARGEST_FEATURE
from domaincal.calibrators.heads.regression_problem import as_floats

#: Standardised features are limited to this size: further out, a row is no easier to tell apart.
LARGEST_STANDARDISED = 100.0
#: Features whose standard deviation is below the inverse of this number count as constant.
LARGEST_SCALE = 1e150

# Newton's method ends when the expected decrease of the objective, whose value is at most log 2,
# is below this. The step that is then taken is the last one.
_TOLERANCE = 1e-18
_MAX_ITER = 100
_MAX_HALVINGS = 40
# Keeps the Hessian positive definite if all rows are classified with certainty.
_INTERCEPT_PENALTY = 1e-9


@dataclass(frozen=True, eq=False)
class DensityRatio:
    """Weights ``w(x) = p_batch(x) / p_source(x)`` that make calibration rows resemble a batch.

    A logistic regression on the standardised features tells the rows of the batch from the source,
    the calibration rows. By Bayes' rule, with classes of the same size, ``w(x) = P(batch | x) /
    P(source | x) = exp(f(x))``, where ``f(x) = b + v' x`` is its linear function:

        minimise  m sum_i a_i log(1 + exp(f(x_i))) + m / n sum_j log(1 + exp(-f(x_j))) + |v|^2 / 2

    over source rows i, with weights a_i that sum to 1, and the n rows j of the batch. Both classes
    count as m rows, m being the smaller of the two numbers of rows. In expectation, this is the
    same as drawing m rows of the larger class, but it uses all rows and needs no random numbers.
    In a small batch, the penalty keeps the weights nearly equal: one row says little about its
    domain.

    The features are standardised with mean and standard deviation of the source. Features that are
    constant there are ignored: they cannot tell source rows apart. More than 128 features are
    reduced to their 128 leading principal components.

    Attributes
    ----------
    projection : FeatureProjection
        Standardisation of the features.
    rows : array of shape (n_rows, n_directions)
        Standardised features of the source, in float32 if the features are.
    weight : array of shape (n_rows,)
        Sample weight of each source row.

    Examples
    --------
    >>> import numpy as np
    >>> source = np.array([[0.0], [0.0], [1.0]])
    >>> ratio = DensityRatio.fit(source, np.ones(3))
    >>> (log_weights,) = ratio.log_weights([np.ones((50, 1))])
    >>> bool(log_weights[2] > log_weights[0] == log_weights[1])
    True
    """

    projection: FeatureProjection
    rows: Array
    weight: FloatArray

    @classmethod
    def fit(cls, features: Array, weight: FloatArray) -> DensityRatio:
        """Standardise the features of the source; all weights are positive."""
        found = FeatureProjection.fit(features, weight)
        matrix = np.where(np.abs(found.matrix) <= LARGEST_SCALE, found.matrix, 0.0)
        projection = FeatureProjection(found.centre, matrix)
        rows = _limited(projection(features)).astype(as_floats(features[:1]).dtype)
        return cls(projection, rows, weight)

    def log_weights(self, batches: Iterable[Array]) -> Iterator[FloatArray]:
        """Logarithm of w for all source rows, for the features of each batch."""
        source = self.rows.astype(np.float64)
        share = self.weight / self.weight.sum()
        for batch in batches:
            target = _limited(self.projection(_checked(batch)))
            coef, intercept = _fit_classifier(source, share, target)
            yield source @ coef + intercept


def _checked(features: Array) -> Array:
    x = host_array(features)
    if not (np.abs(x) <= np.float64(LARGEST_FEATURE)).all():  # False for NaN, too
        raise non_finite_features_error(x)
    return x


def _limited(x: FloatArray) -> FloatArray:
    return np.clip(x, -LARGEST_STANDARDISED, LARGEST_STANDARDISED)


def _fit_classifier(
    source: FloatArray, share: FloatArray, target: FloatArray
) -> tuple[FloatArray, float]:
    """Coefficients and intercept of the log-odds that a row is of the target.

    Newton's method on the objective of :class:`DensityRatio`, divided by 2 m.
    """
    n_source, n_target = len(source), len(target)
    x = np.concatenate([source, target])
    x = np.column_stack([x, np.ones(len(x))])
    # The sign makes both classes the same: log(1 + exp(sign * f)).
    sign = np.repeat([1.0, -1.0], [n_source, n_target])
    weight = 0.5 * np.concatenate([share, np.full(n_target, 1.0 / n_target)])
    penalty = np.full(x.shape[1], 0.5 / min(n_source, n_target))
    penalty[-1] = _INTERCEPT_PENALTY

    def objective(theta: FloatArray, f: FloatArray) -> float:
        return float(weight @ np.logaddexp(0.0, sign * f) + 0.5 * penalty @ theta**2)

    theta, f = np.zeros(x.shape[1]), np.zeros(len(x))
    value = objective(theta, f)
    for _ in range(_MAX_ITER):
        p = expit(sign * f)
        gradient = (weight * sign * p) @ x + penalty * theta
        root = x * np.sqrt(weight * p * (1.0 - p))[:, None]
        hessian = root.T @ root
        hessian[np.diag_indices_from(hessian)] += penalty
        step = -scipy.linalg.solve(hessian, gradient, assume_a="pos")
        f_step, decrease = x @ step, -float(gradient @ step)
        if decrease < _TOLERANCE:
            theta = theta + step
            break
        # Far from the minimum, a full step can be too long.
        size = 1.0
        for _ in range(_MAX_HALVINGS):
            new_value = objective(theta + size * step, f + size * f_step)
            if new_value <= value - 1e-4 * size * decrease:
                break
            size *= 0.5
        else:
            break  # the decrease is below the rounding of the objective
        theta, f, value = theta + size * step, f + size * f_step, new_value
    return theta[:-1], float(theta[-1])
