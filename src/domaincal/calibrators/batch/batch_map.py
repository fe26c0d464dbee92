"""Learned parts of :class:`BatchTemperatureScaling`: values of the features, map to log T."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from domaincal._tensors import host_array, is_tensor, namespace
from domaincal._typing import Array, FloatArray
from domaincal.statistics.batch_sums import LOGIT_STATISTICS

#: A statistic that varies less than this is constant.
SMALLEST_SCALE = 1e-9
#: Largest value of the features of a row, as of its logits (kernels.numpy_kernels.row_statistics).
LARGEST_VALUE = 1e100
#: Distance from which predictions tend to the pooled temperature; 1 is that of the furthest batch
#: of the fit.
FAR = 10.0
#: Diversity below which a batch has far fewer classes than those of the fit. Random batches of 20
#: and 100 rows reach -6 for people of WISDM and -5.4 for unseen domains of Digits-C. Of batches of
#: consecutive rows of WISDM, 70% (20 rows) and 43% (100 rows) are below.
FEW_CLASSES = -6.0
_ENTROPY_OF_MEAN = LOGIT_STATISTICS.index("entropy_of_mean")
#: Number of values of the features besides the coordinates: norm and spread.
N_NORMS = 2


@dataclass(frozen=True, eq=False)
class FeatureDirections:
    """Values of the features of a row, whose means describe a batch.

    Attributes
    ----------
    mean : array of shape (n_features,)
        Subtracted from the features.
    scale : float
        Divides the centred features.
    directions : array of shape (n_features, n_directions)
        First principal directions, scaled so that the coordinates of the calibration rows have
        variance 1.
    """

    mean: FloatArray
    scale: float
    directions: FloatArray

    def __call__(self, features: Array) -> FloatArray:
        """Norm, spread over the columns and coordinates of each centred row."""
        with np.errstate(over="ignore", invalid="ignore"):
            x = (features - self.mean) / self.scale
            # Squares of features far from those of the fit must not overflow.
            np.clip(x, -LARGEST_VALUE, LARGEST_VALUE, out=x)
            norm = np.sqrt(np.einsum("ij,ij->i", x, x))
            values = np.column_stack([norm, x.std(axis=1), x @ self.directions])
        np.clip(values, -LARGEST_VALUE, LARGEST_VALUE, out=values)
        # Features that are not finite give values that are not finite, which the caller reports.
        values[~np.isfinite(features).all(axis=1)] = np.nan
        return values


class BatchPredictions(NamedTuple):
    """What :meth:`BatchMap.predict` knows of each batch; arrays of shape (n_batches,).

    The distance is the norm of the standardised statistics, in units of the largest of the fit.
    """

    log_temperature: FloatArray
    log_error: FloatArray
    distance: FloatArray


@dataclass(frozen=True, eq=False)
class BatchMap:
    """Map from the statistics of a batch and its number of rows to log T.

    There is a linear map for each of several sizes of batches. Between two sizes, the values are
    interpolated linearly in the logarithm of the number of rows; outside, the nearest size counts.

    Attributes
    ----------
    sizes : array of shape (n_sizes,)
        Numbers of rows, in ascending order.
    mean, scale : arrays of shape (n_sizes, n_statistics)
        Standardisation of the statistics: ``x = (s - mean) / scale``.
    coef : array of shape (n_sizes, n_statistics + 1)
        Coefficients of x, and last of the constant 1. The value is added to ``log_pooled``.
    log_pooled : float
        Log of the pooled temperature.
    low, high : float
        Limits of log T.
    error : array of shape (n_sizes,)
        Standard error of log T of a batch that is not further away than those of the fit.
    reach : array of shape (n_sizes,)
        Largest Euclidean norm of x among the batches of the fit: the unit of distances.
    """

    sizes: FloatArray
    mean: FloatArray
    scale: FloatArray
    coef: FloatArray
    log_pooled: float
    low: float
    high: float
    error: FloatArray
    reach: FloatArray

    def predict(self, statistics: Any, n: FloatArray) -> BatchPredictions:
        """Log T of each batch, its standard error and the distance; ``n`` is the number of rows.

        The statistics may be a tensor; the results are arrays. A batch that is more than ten times
        as far away as all batches of the fit, such as one with other features, tends to the pooled
        temperature. The standard error grows with the distance.
        """
        between, library = Between(self.sizes, n), namespace(statistics)
        send = statistics.new_tensor if is_tensor(statistics) else np.asarray
        of_sizes = np.zeros((3, len(self.sizes), len(n)))
        for k in between.needed:
            mean, scale, coef = send(self.mean[k]), send(self.scale[k]), send(self.coef[k])
            x = (statistics - mean) / scale
            distance = library.sqrt(library.einsum("ij,ij->i", x, x)) / self.reach[k]
            # x @ coef grows with the distance: the fourth power also takes a batch that is only
            # 20 times as far away close to the pooled temperature.
            nearness = (FAR / distance.clip(min=FAR)) ** 4
            value = (x @ coef[:-1] + coef[-1]) * nearness
            variance = self.error[k] ** 2 * distance.clip(min=1.0)
            of_sizes[:, k] = host_array(library.stack([value, variance, distance]))
        value, variance, distance = between(of_sizes)
        log_t = np.clip(self.log_pooled + value, self.low, self.high)
        return BatchPredictions(log_t, np.sqrt(variance), distance)

    def diversity(self, statistics: Any, n: FloatArray) -> FloatArray:
        """Standardised entropy of the mean prediction of each batch.

        Far below 0, the rows of a batch are predicted to be of far fewer classes than those of the
        batches of the fit.
        """
        entropy = host_array(statistics[:, _ENTROPY_OF_MEAN])
        mean, scale = self.mean[:, _ENTROPY_OF_MEAN], self.scale[:, _ENTROPY_OF_MEAN]
        return Between(self.sizes, n)((entropy - mean[:, None]) / scale[:, None])


class Between:
    """Values of batches of n rows, interpolated in log n between their values for two sizes.

    Parameters
    ----------
    sizes : array of shape (n_sizes,)
        Numbers of rows, in ascending order; outside of them, the nearest size counts.
    n : array of shape (n_batches,)

    Attributes
    ----------
    needed : array
        Numbers of the sizes whose values count.

    Examples
    --------
    >>> import numpy as np
    >>> values = np.array([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    >>> between = Between(np.array([10.0, 1000.0]), np.array([1.0, 100.0, 1e6]))
    >>> between(values).round(6).tolist()
    [0.0, 0.5, 1.0]
    """

    def __init__(self, sizes: FloatArray, n: FloatArray) -> None:
        last = len(sizes) - 1
        position = np.interp(np.log(n), np.log(sizes), np.arange(last + 1))
        self._below = np.minimum(position.astype(np.int64), max(last - 1, 0))
        self._above = np.minimum(self._below + 1, last)
        self._share = position - self._below
        counted = [self._below[self._share < 1.0], self._above[self._share > 0.0]]
        self.needed = np.flatnonzero(np.bincount(np.concatenate(counted), minlength=last + 1))

    def __call__(self, of_sizes: FloatArray) -> FloatArray:
        """Values of the batches; ``of_sizes`` has the shape (..., n_sizes, n_batches)."""
        batch = np.arange(len(self._share))
        below, above = of_sizes[..., self._below, batch], of_sizes[..., self._above, batch]
        return np.asarray(below * (1 - self._share) + above * self._share)


def n_statistics(directions: FeatureDirections | None) -> int:
    """Number of statistics of a batch."""
    n_logits = len(LOGIT_STATISTICS)
    return n_logits if directions is None else n_logits + N_NORMS + directions.directions.shape[1]
