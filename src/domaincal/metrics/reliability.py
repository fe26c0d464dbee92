"""The reliability curve: accuracy against confidence, bin by bin."""

from dataclasses import dataclass

import numpy as np

from domaincal._typing import ArrayLike, FloatArray
from domaincal.metrics.predictions import bin_predictions
from domaincal.statistics import BinSums
from domaincal.statistics.bins import Strategy


@dataclass(frozen=True, eq=False)
class ReliabilityCurve:
    """Accuracy and mean confidence of each bin; NaN where a bin is empty.

    Attributes
    ----------
    edges : array, shape (n_bins + 1,)
    n : array, shape (n_bins,)
        Rows of each bin, or their total weight.
    confidence, accuracy, standard_error : arrays, shape (n_bins,)
        The standard error is that of the accuracy, ``sqrt(a (1 - a) / n)``.
    low, high : arrays, shape (n_bins,)
        Wilson's 95% interval of the accuracy, which also a bin of one row has.
    """

    edges: FloatArray
    n: FloatArray
    confidence: FloatArray
    accuracy: FloatArray
    standard_error: FloatArray
    low: FloatArray
    high: FloatArray


def reliability_curve(
    probabilities: ArrayLike,
    labels: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    sample_weight: ArrayLike | None = None,
) -> ReliabilityCurve:
    """Accuracy against confidence in bins ``(a, b]`` of the predicted class.

    Examples
    --------
    >>> curve = reliability_curve([[0.75, 0.25], [0.75, 0.25]], [0, 1], n_bins=2)
    >>> curve.accuracy.tolist()
    [nan, 0.5]
    """
    sums = bin_predictions(
        probabilities, labels, n_bins=n_bins, strategy=strategy, sample_weight=sample_weight
    )
    return curve_of_bins(sums)


def curve_of_bins(sums: BinSums) -> ReliabilityCurve:
    """The curve of bins that were summed before."""
    n = np.where(sums.weight > 0, sums.weight, np.nan)
    accuracy = sums.hits / n
    square = 1.959963984540054**2  # of the normal distribution's 97.5% quantile
    centre = (accuracy + 0.5 * square / n) / (1.0 + square / n)
    reach = np.sqrt(square * (accuracy * (1.0 - accuracy) / n + 0.25 * square / n**2))
    reach /= 1.0 + square / n
    return ReliabilityCurve(
        edges=sums.edges,
        n=sums.weight,
        confidence=sums.confidence / n,
        accuracy=accuracy,
        standard_error=np.sqrt(accuracy * (1.0 - accuracy) / n),
        low=np.clip(centre - reach, 0.0, accuracy),
        high=np.clip(centre + reach, accuracy, 1.0),
    )
