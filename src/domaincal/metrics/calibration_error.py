"""Calibration errors of the predicted class, from binned confidences."""

from domaincal._typing import ArrayLike
from domaincal.metrics._predictions import bin_predictions
from domaincal.statistics import BinSums
from domaincal.statistics.bins import Norm, Strategy


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
