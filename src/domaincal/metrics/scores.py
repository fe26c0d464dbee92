"""Proper scores and accuracy."""

import numpy as np

from domaincal._typing import Array, ArrayLike
from domaincal._validation import check_sample_weight
from domaincal.metrics._predictions import check_predictions


def accuracy(
    probabilities: ArrayLike, labels: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """Fraction of rows whose first most probable class is the label.

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
    """Mean of ``-log p_y``; probabilities that were rounded to 0 count as the smallest normal one.

    Examples
    --------
    >>> round(negative_log_likelihood([[0.75, 0.25], [0.75, 0.25]], [0, 1]), 4)
    0.837
    """
    p, y = check_predictions(probabilities, labels)
    of_label = p[np.arange(len(p)), y].astype(np.float64)
    smallest = np.finfo(p.dtype).tiny if p.dtype.kind == "f" else np.finfo(np.float64).tiny
    return _mean(-np.log(np.maximum(of_label, smallest)), sample_weight)


def brier_score(
    probabilities: ArrayLike, labels: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """Mean of ``sum_j (p_j - 1{y = j})**2``, between 0 and 2.

    Examples
    --------
    >>> brier_score([[0.75, 0.25], [0.75, 0.25]], [0, 1])
    0.625
    """
    p, y = check_predictions(probabilities, labels)
    square = np.einsum("ij,ij->i", p, p, dtype=np.float64, casting="unsafe")
    of_label = p[np.arange(len(p)), y].astype(np.float64)
    return _mean(square - 2.0 * of_label + 1.0, sample_weight)


def _mean(values: Array, sample_weight: ArrayLike | None) -> float:
    weight = check_sample_weight(sample_weight, n_rows=len(values))
    return float(np.average(values, weights=weight))
