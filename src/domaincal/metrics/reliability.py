"""Reliability curve: accuracy against confidence by bin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from domaincal._typing import ArrayLike, FloatArray
from domaincal.metrics.predictions import bin_predictions
from domaincal.statistics import BinSums
from domaincal.statistics.bin_sums import Strategy


@dataclass(frozen=True, eq=False)
class ReliabilityCurve:
    """Accuracy and mean confidence of each bin; NaN for empty bins.

    Attributes
    ----------
    edges : array, shape (n_bins + 1,)
    n : array, shape (n_bins,)
        Number of rows in each bin, or their total weight.
    confidence, accuracy, standard_error : arrays, shape (n_bins,)
        The standard error of the accuracy a is ``sqrt(a (1 - a) / n)``.
    low, high : arrays, shape (n_bins,)
        Wilson's 95% interval of the accuracy; it is defined for a single row too.

    Examples
    --------
    >>> curve = reliability_curve([[0.75, 0.25]] * 8, [0, 1] * 4, n_bins=2)
    >>> curve.n.tolist(), curve.confidence.tolist(), curve.high.round(2).tolist()
    ([0.0, 8.0], [nan, 0.75], [nan, 0.78])
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
    """Accuracy against confidence of the predicted class, in bins ``(a, b]``.

    For the parameters, see :func:`expected_calibration_error`.

    Examples
    --------
    >>> curve = reliability_curve([[0.75, 0.25], [0.75, 0.25]], [0, 1], n_bins=2)
    >>> curve.accuracy.tolist()
    [nan, 0.5]
    """
    sums = bin_predictions(
        probabilities, labels, n_bins=n_bins, strategy=strategy, sample_weight=sample_weight
    )
    return curve_from_bins(sums)


def curve_from_bins(sums: BinSums) -> ReliabilityCurve:
    """Reliability curve of bin sums."""
    n = np.where(sums.weight > 0, sums.weight, np.nan)
    accuracy = sums.hits / n
    z2 = 1.959963984540054**2  # square of the 97.5% quantile of the normal distribution
    centre = (accuracy + 0.5 * z2 / n) / (1.0 + z2 / n)
    half = np.sqrt(z2 * (accuracy * (1.0 - accuracy) / n + 0.25 * z2 / n**2)) / (1.0 + z2 / n)
    return ReliabilityCurve(
        edges=sums.edges,
        n=sums.weight,
        confidence=sums.confidence / n,
        accuracy=accuracy,
        standard_error=np.sqrt(accuracy * (1.0 - accuracy) / n),
        low=np.clip(centre - half, 0.0, accuracy),
        high=np.clip(centre + half, accuracy, 1.0),
    )
