"""Calibration errors of the predicted class and of each class."""

from __future__ import annotations

import numpy as np

from domaincal._typing import ArrayLike
from domaincal.metrics.predictions import bin_classes, bin_predictions, check_predictions
from domaincal.statistics import BinSums, ErrorInterval
from domaincal.statistics.bin_sums import SMOOTH_BINS, Norm, Strategy


def expected_calibration_error(
    probabilities: ArrayLike,
    labels: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    norm: Norm = "l1",
    sample_weight: ArrayLike | None = None,
) -> float:
    """Expected calibration error: ``sum_m |B_m| / n * |accuracy(B_m) - confidence(B_m)|``.

    Bins are ``(a, b]``; the first bin includes 0. On a finite number of rows, even a perfectly
    calibrated model has an ECE above 0; :func:`excess_calibration_error` subtracts this floor.

    Parameters
    ----------
    probabilities : array, shape (n, n_classes)
    labels : array of class indices, shape (n,)
    n_bins : int, default 15
    strategy : {"uniform", "quantile"}
        Bins of equal width, or with equal numbers of rows.
    norm : {"l1", "l2", "max"}
        Mean of the gaps over the rows, root mean square of the gaps, or largest gap.
    sample_weight : array, shape (n,), optional
        A row of weight w counts as w rows.

    Examples
    --------
    >>> expected_calibration_error([[0.75, 0.25], [0.75, 0.25]], [0, 1])
    0.25
    """
    sums = bin_predictions(
        probabilities, labels, n_bins=n_bins, strategy=strategy, sample_weight=sample_weight
    )
    return sums.calibration_error(norm)


def confidence_calibration_error(
    confidences: ArrayLike,
    hits: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    norm: Norm = "l1",
    sample_weight: ArrayLike | None = None,
) -> float:
    """:func:`expected_calibration_error` from the confidence and correctness of each prediction.

    Parameters
    ----------
    confidences : array, shape (n,)
    hits : array of bool, shape (n,)
        Whether each prediction is correct.
    n_bins, strategy, norm, sample_weight
        See :func:`expected_calibration_error`.

    Examples
    --------
    >>> confidence_calibration_error([0.75, 0.75], [True, False])
    0.25
    """
    sums = BinSums.from_confidences(
        confidences, hits, n_bins=n_bins, strategy=strategy, sample_weight=sample_weight
    )
    return sums.calibration_error(norm)


def excess_calibration_error(
    probabilities: ArrayLike,
    labels: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    sample_weight: ArrayLike | None = None,
) -> float:
    """ECE minus its floor, the mean ECE of a calibrated model with the same confidences.

    Use it to rank nearly calibrated models; it understates large errors. It may be negative. The
    floor alone is ``BinSums.from_confidences(...).floor()``. For the parameters, see
    :func:`expected_calibration_error`.

    Examples
    --------
    >>> excess_calibration_error([[0.75, 0.25], [0.75, 0.25]], [0, 1])
    -0.03125
    """
    sums = bin_predictions(
        probabilities, labels, n_bins=n_bins, strategy=strategy, sample_weight=sample_weight
    )
    return sums.excess_error()


def calibration_error_interval(
    probabilities: ArrayLike,
    labels: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    level: float = 0.95,
    sample_weight: ArrayLike | None = None,
) -> ErrorInterval:
    """ECE without its bias, with a confidence interval and a test of perfect calibration.

    A bootstrap of ECE would add the bias a second time; :class:`ErrorInterval` describes the method
    used here. It needs bin sums only, and no random numbers: for confidences and hits, or for the
    sums of several sites, use ``BinSums.from_confidences(...).interval()``. For the other
    parameters, see :func:`expected_calibration_error`.

    Parameters
    ----------
    level : float, default 0.95
        Coverage of the interval.

    Examples
    --------
    >>> p = [[0.75, 0.25]] * 400
    >>> found = calibration_error_interval(p, [0, 1] * 200)
    >>> [round(v, 3) for v in (found.value, found.corrected, found.low, found.high)]
    [0.25, 0.25, 0.198, 0.297]
    """
    return bin_predictions(
        probabilities, labels, n_bins=n_bins, strategy=strategy, sample_weight=sample_weight
    ).interval(level)


def debiased_squared_calibration_error(
    probabilities: ArrayLike,
    labels: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    sample_weight: ArrayLike | None = None,
) -> float:
    """Squared calibration error without its bias (Kumar et al. 2019); mean 0 if calibrated.

    ``sum_b n_b / n * ((c_b - a_b)**2 - a_b (1 - a_b) / (n_b - 1))`` over the bins b with at least
    two rows, where c_b is the confidence and a_b the accuracy. It may be negative. For the
    parameters, see :func:`expected_calibration_error`.

    Examples
    --------
    >>> round(debiased_squared_calibration_error([[0.75, 0.25]] * 4, [0, 1, 0, 1]), 6)
    -0.020833
    """
    return bin_predictions(
        probabilities, labels, n_bins=n_bins, strategy=strategy, sample_weight=sample_weight
    ).debiased_squared_error()


def smooth_calibration_error(
    probabilities: ArrayLike, labels: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """Smooth ECE (Blasiok and Nakkiran 2023), without bins and continuous in the confidences.

    Residuals are smoothed over the confidences with a Gaussian that is reflected at 0 and 1. Its
    width equals the error. For the parameters, see :func:`expected_calibration_error`.

    Examples
    --------
    >>> round(smooth_calibration_error([[0.75, 0.25], [0.75, 0.25]], [0, 1]), 6)
    0.25
    """
    return bin_predictions(
        probabilities, labels, n_bins=SMOOTH_BINS, sample_weight=sample_weight
    ).smooth_error()


def classwise_calibration_error(
    probabilities: ArrayLike,
    labels: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    norm: Norm = "l1",
    sample_weight: ArrayLike | None = None,
) -> float:
    """Mean over the classes of the ECE of the class probability.

    With many classes, most probabilities are near 0 and correct, so that the mean is small. For the
    parameters, see :func:`expected_calibration_error`.

    Examples
    --------
    >>> classwise_calibration_error([[0.75, 0.25], [0.75, 0.25]], [0, 1])
    0.25
    """
    p, y = check_predictions(probabilities, labels)
    classes = bin_classes(p, y, n_bins=n_bins, strategy=strategy, sample_weight=sample_weight)
    return float(np.mean([sums.calibration_error(norm) for sums in classes]))
