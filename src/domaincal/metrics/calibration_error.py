"""Calibration errors of the predicted class, and of each class, from binned confidences."""

import numpy as np

from domaincal._typing import ArrayLike
from domaincal.metrics.predictions import bin_classes, bin_predictions, check_predictions
from domaincal.statistics import BinSums, ErrorInterval
from domaincal.statistics.bins import SMOOTH_BINS, Norm, Strategy


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

    Bins are ``(a, b]``; the first holds 0 too. ECE has a floor: a perfectly calibrated model does
    not score 0 on finitely many rows. See :func:`excess_calibration_error`.

    Parameters
    ----------
    probabilities : array, shape (n, n_classes)
    labels : array of class indices, shape (n,)
    n_bins : int, default 15
    strategy : {"uniform", "quantile"}
        Bins of the same width, or with the same number of rows.
    norm : {"l1", "l2", "max"}
        Mean of the gaps over rows, root mean square, or largest gap of a bin.
    sample_weight : array, shape (n,), optional
        A weight counts as that many repetitions of the row.

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
    """:func:`expected_calibration_error` from the confidence of each prediction and its success.

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
    """ECE less its floor, the mean ECE of a perfectly calibrated model with the same confidences.

    It ranks nearly calibrated models and may be negative; it understates large errors. The floor
    alone is ``BinSums.from_confidences(...).floor()``.

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
    """ECE with its bias taken out, an interval, and a test of perfect calibration.

    A bootstrap of ECE adds the bias once more; see :class:`ErrorInterval` for what is done here. No
    random numbers, and only bin sums: ``BinSums.from_confidences(...).interval()`` gives the same
    for confidences and hits, and for sums of several sites.

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
    """Squared calibration error without its bias (Kumar et al. 2019): 0 on average if calibrated.

    ``sum_b n_b / n * ((c_b - a_b)**2 - a_b (1 - a_b) / (n_b - 1))`` with confidence c_b and
    accuracy a_b of the bins of at least two rows. It is the square of an error and may be negative.

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
    """Smooth ECE (Blasiok and Nakkiran 2023): no bins, and continuous in the confidences.

    Residuals are smoothed over the confidences by a Gaussian, reflected at 0 and 1, whose width is
    the error itself.

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
    """Mean over the classes of the ECE of each class's probability against its occurrence.

    Most probabilities of many classes are near 0 and right: the mean is small for them.

    Examples
    --------
    >>> classwise_calibration_error([[0.75, 0.25], [0.75, 0.25]], [0, 1])
    0.25
    """
    p, y = check_predictions(probabilities, labels)
    classes = bin_classes(p, y, n_bins=n_bins, strategy=strategy, sample_weight=sample_weight)
    return float(np.mean([sums.calibration_error(norm) for sums in classes]))
