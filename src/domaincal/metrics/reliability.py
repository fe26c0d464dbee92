"""The reliability curve: accuracy against confidence, bin by bin."""

from dataclasses import dataclass

import numpy as np

from domaincal._typing import ArrayLike, FloatArray
from domaincal.metrics._predictions import bin_predictions
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
    """

    edges: FloatArray
    n: FloatArray
    confidence: FloatArray
    accuracy: FloatArray
    standard_error: FloatArray


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
    return ReliabilityCurve(
        edges=sums.edges,
        n=sums.weight,
        confidence=sums.confidence / n,
        accuracy=accuracy,
        standard_error=np.sqrt(accuracy * (1.0 - accuracy) / n),
    )
