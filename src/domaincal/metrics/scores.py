"""Accuracy and proper scores."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from domaincal._typing import Array, ArrayLike
from domaincal._validation import check_sample_weight
from domaincal.kernels.numpy_kernels import label_and_square, row_brier, row_nll
from domaincal.metrics.predictions import bin_classes, check_predictions
from domaincal.statistics.bin_sums import Strategy


def accuracy(
    probabilities: ArrayLike, labels: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """Fraction of rows whose most probable class is the label; ties go to the first class.

    Examples
    --------
    >>> accuracy([[0.75, 0.25], [0.75, 0.25]], [0, 1])
    0.5
    """
    p, y = check_predictions(probabilities, labels)
    return _mean(p.argmax(axis=1) == y, sample_weight)


def negative_log_likelihood(
    probabilities: ArrayLike, labels: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """Mean of ``-log p_y``, where p_y is the probability of the label.

    A probability of 0 is replaced by the smallest normal number of its dtype.

    Examples
    --------
    >>> round(negative_log_likelihood([[0.75, 0.25], [0.75, 0.25]], [0, 1]), 4)
    0.837
    """
    p, y = check_predictions(probabilities, labels)
    of_label = p[np.arange(len(p)), y].astype(np.float64)
    return _mean(row_nll(of_label, p.dtype), sample_weight)


def brier_score(
    probabilities: ArrayLike, labels: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """Mean of ``sum_j (p_j - 1{y = j})**2`` over the classes j, between 0 and 2.

    Examples
    --------
    >>> brier_score([[0.75, 0.25], [0.75, 0.25]], [0, 1])
    0.625
    """
    p, y = check_predictions(probabilities, labels)
    return _mean(row_brier(*label_and_square(p, y)), sample_weight)


class BrierDecomposition(NamedTuple):
    """``brier_score = reliability - resolution + uncertainty + within_bins``.

    Attributes
    ----------
    reliability : float
        Mean squared difference of probability and class frequency in the bins; 0 if calibrated.
    resolution : float
        Mean squared difference of the class frequencies in the bins and overall; higher is better.
    uncertainty : float
        Brier score of the overall class frequencies, which does not depend on the model.
    within_bins : float
        Remainder, from probabilities that differ within a bin.

    Examples
    --------
    >>> brier_decomposition([[0.75, 0.25]] * 4, [0, 0, 0, 1]).reliability
    0.0
    """

    reliability: float
    resolution: float
    uncertainty: float
    within_bins: float


def brier_decomposition(
    probabilities: ArrayLike,
    labels: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    sample_weight: ArrayLike | None = None,
) -> BrierDecomposition:
    """Murphy's decomposition of the Brier score, summed over the classes.

    For the parameters, see :func:`expected_calibration_error`.

    Examples
    --------
    >>> found = brier_decomposition([[0.75, 0.25]] * 2 + [[0.25, 0.75]] * 2, [0, 1, 1, 1])
    >>> [round(term, 4) for term in found]
    [0.125, 0.125, 0.375, 0.0]
    """
    p, y = check_predictions(probabilities, labels)
    reliability = resolution = uncertainty = 0.0
    classes = bin_classes(p, y, n_bins=n_bins, strategy=strategy, sample_weight=sample_weight)
    for sums in classes:
        full = sums.weight > 0
        share = sums.weight[full] / sums.n
        frequency = sums.hits[full] / sums.weight[full]
        reliability += sums.calibration_error("l2") ** 2
        resolution += float(share @ (frequency - sums.accuracy) ** 2)
        uncertainty += sums.accuracy * (1.0 - sums.accuracy)
    total = brier_score(p, y, sample_weight=sample_weight)
    return BrierDecomposition(
        reliability, resolution, uncertainty, total - (reliability - resolution + uncertainty)
    )


def _mean(values: Array, sample_weight: ArrayLike | None) -> float:
    weight = check_sample_weight(sample_weight, n_rows=len(values))
    return float(np.average(values, weights=weight))
