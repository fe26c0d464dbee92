"""Accuracy of the labelled rows, weighted to resemble the new ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from domaincal._tensors import host_array
from domaincal._typing import FloatArray, IntArray
from domaincal.calibrators.baselines.density_ratio import DensityRatio
from domaincal.data import CalibrationData
from domaincal.errors import InputError
from domaincal.kernels.row_groups import rows_of_codes
from domaincal.shift.accuracy.estimator import AccuracyEstimator
from domaincal.shift.rows_by_domain import hits_of

# Rows of the fit that are weighted: a classifier is fitted for each batch of new rows.
_MOST_ROWS = 20_000


class ImportanceWeighting(AccuracyEstimator):
    """Accuracy of the rows of the fit, weighted so that their features resemble those of new rows.

    A logistic regression on the features tells new rows from those of the fit; the weight of a row
    is the ratio of its two probabilities. This is right if domains differ in which rows are common
    in them, not in how often a row of a kind is classified right. Features are needed. Of more than
    20,000 rows, 20,000 random ones are used.

    Parameters
    ----------
    coverage : float, default 0.9
        Share of new domains that the intervals should cover.
    random_state : int, default 0
        Seed of the batches of left-out domains, and of the choice of rows.

    Attributes
    ----------
    density_ratio_ : DensityRatio
        Features of the rows of the fit.
    hits_ : array
        Whether each of these rows is classified right.
    residuals_, covered_, temperature_, n_domains_, n_classes_, class_names_, feature_columns_
        See :class:`AccuracyEstimator`.

    Examples
    --------
    >>> import domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=9, n_rows=100, random_state=0)
    >>> estimator = dc.shift.ImportanceWeighting().fit(data)
    >>> len(estimator.predict(data))
    9
    """

    # A classifier is fitted for each batch.
    _draws: ClassVar[Mapping[int, int]] = dict.fromkeys((1, 5, 20, 100, 1000), 1)

    density_ratio_: DensityRatio
    hits_: FloatArray

    def __init__(self, *, coverage: float = 0.9, random_state: int = 0) -> None:
        self.coverage = coverage
        self.random_state = random_state

    def _learn(self, data: CalibrationData) -> None:
        features = _features(data)
        hits = hits_of(data.logits, data.labels)
        random = np.random.default_rng(self.random_state)
        rows = np.arange(len(data))
        if len(rows) > _MOST_ROWS:
            rows = np.sort(random.choice(rows, _MOST_ROWS, replace=False))
        self.density_ratio_ = DensityRatio.fit(features[rows], np.ones(len(rows)))
        self.hits_ = hits[rows].astype(np.float64)

    def _estimates(self, data: CalibrationData, codes: IntArray, n_batches: int) -> FloatArray:
        features = _features(data)
        if features.shape[1] != len(self.density_ratio_.projection.centre):
            raise InputError(
                f"features have {features.shape[1]} columns, but the fit had "
                f"{len(self.density_ratio_.projection.centre)}; pass the same features."
            )
        batches = (features[rows] for rows in rows_of_codes(codes, n_batches))
        found = []
        for log_weights in self.density_ratio_.log_weights(batches):
            weight = np.exp(log_weights - log_weights.max())
            found.append(float(weight @ self.hits_ / weight.sum()))
        return np.array(found)


def _features(data: CalibrationData) -> FloatArray:
    if data.features is None:
        raise InputError("ImportanceWeighting needs features; pass features=...")
    return np.asarray(host_array(data.features))
