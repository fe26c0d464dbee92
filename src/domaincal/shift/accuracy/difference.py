"""Difference of confidences (Guillory et al. 2021)."""

from __future__ import annotations

import numpy as np

from domaincal._tensors import host_array
from domaincal._typing import FloatArray, IntArray
from domaincal.calibrators.softmax import confidences_at
from domaincal.data import CalibrationData
from domaincal.shift.accuracy.estimator import AccuracyEstimator, batch_means
from domaincal.shift.rows_by_domain import hits_of


class DifferenceOfConfidences(AccuracyEstimator):
    """Accuracy of the fit, plus the difference of the mean confidences (Guillory et al. 2021).

    If the mean confidence (largest softmax probability) of new rows is 5 points below that of the
    rows of the fit, the accuracy is taken to be 5 points lower.

    Parameters
    ----------
    coverage : float, default 0.9
        Share of new domains that the intervals should cover.
    random_state : int, default 0
        Seed of the batches of left-out domains.

    Attributes
    ----------
    difference_ : float
        Accuracy minus mean confidence of the rows of the fit.
    residuals_, covered_, temperature_, n_domains_, n_classes_, class_names_, feature_columns_
        See :class:`AccuracyEstimator`.

    Examples
    --------
    >>> import domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=12, n_rows=300, random_state=0)
    >>> estimator = dc.shift.DifferenceOfConfidences().fit(data)
    >>> len(estimator.predict(data))
    12
    """

    difference_: float

    def __init__(self, *, coverage: float = 0.9, random_state: int = 0) -> None:
        self.coverage = coverage
        self.random_state = random_state

    def _learn(self, data: CalibrationData) -> None:
        hits = hits_of(data.logits, data.labels)
        self.difference_ = float(hits.mean() - _confidences(data).mean())

    def _estimates(self, data: CalibrationData, codes: IntArray, n_batches: int) -> FloatArray:
        return batch_means(_confidences(data), codes, n_batches) + self.difference_


def _confidences(data: CalibrationData) -> FloatArray:
    return np.asarray(host_array(confidences_at(data.logits, np.ones(1))))
