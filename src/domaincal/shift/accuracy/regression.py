"""Accuracy from the statistics of a batch, by a regression over the domains of the fit."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logit
from sklearn.linear_model import BayesianRidge
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from domaincal._tensors import host_array
from domaincal._typing import FloatArray, IntArray
from domaincal._validation import check_random_state
from domaincal.calibrators.batch.batch_map import Between, FeatureDirections
from domaincal.calibrators.batch.batch_rows import (
    batch_statistics,
    domain_rows,
    domain_values,
    feature_directions,
)
from domaincal.calibrators.batch.batch_temperature import MINIMUM_DOMAINS
from domaincal.calibrators.batch.batch_training import resample_batches
from domaincal.data import CalibrationData
from domaincal.errors import InputError
from domaincal.shift.accuracy.estimator import AccuracyEstimator
from domaincal.shift.rows_by_domain import hits_of
from domaincal.statistics import LabelledRows, fit_temperature


class AccuracyRegression(AccuracyEstimator):
    """Accuracy from what a batch of unlabelled rows looks like, learned from the domains.

    For batches of 1 to 1000 rows from each domain, a Bayesian ridge regression predicts the
    log-odds of the accuracy of the domain from the statistics of the batch that
    :class:`BatchTemperatureScaling` uses: the distribution of confidences, entropies, margins and
    spreads, and the mean position of the features. Between two sizes, the log-odds are
    interpolated in the logarithm of the number of rows. At least three domains are needed.

    Parameters
    ----------
    coverage : float, default 0.9
        Share of new domains that the intervals should cover.
    random_state : int, default 0
        Seed of the batches.

    Attributes
    ----------
    regressions_ : dict
        The regression of each size of batches.
    feature_directions_ : FeatureDirections or None
        Projection of the features; None without features.
    residuals_, covered_, temperature_, n_domains_, n_classes_, class_names_, feature_columns_
        See :class:`AccuracyEstimator`.

    Examples
    --------
    >>> import domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=12, n_rows=100, random_state=0)
    >>> estimator = dc.shift.AccuracyRegression().fit(data)
    >>> len(estimator.predict(data))
    12
    """

    regressions_: dict[int, Pipeline]
    feature_directions_: FeatureDirections | None
    _beta: float

    def __init__(self, *, coverage: float = 0.9, random_state: int = 0) -> None:
        self.coverage = coverage
        self.random_state = random_state

    def _learn(self, data: CalibrationData) -> None:
        codes, names = _domains(data)
        z, x = data.logits, data.features
        labels = host_array(data.labels)
        self._beta = 1.0 / float(fit_temperature(LabelledRows(z, labels)).temperature[0])
        chosen = domain_rows(z, codes, np.arange(len(names)), None)
        self.feature_directions_ = None if x is None else feature_directions(x, chosen)
        values = domain_values(z, x, chosen, beta=self._beta, directions=self.feature_directions_)
        batches = resample_batches(values, check_random_state(self.random_state))
        hits = hits_of(z, labels)
        n = np.bincount(codes)
        # Half a hit and half a miss more: log-odds are finite.
        targets = logit((np.bincount(codes, hits) + 0.5) / (n + 1.0))
        self.regressions_ = {
            one.size: make_pipeline(StandardScaler(), BayesianRidge()).fit(
                one.statistics, targets[one.domain]
            )
            for one in batches.of_size
        }

    def _estimates(self, data: CalibrationData, codes: IntArray, n_batches: int) -> FloatArray:
        x = data.features
        directions = self.feature_directions_
        if directions is not None and (x is None or x.shape[1] != len(directions.mean)):
            raise InputError(
                f"AccuracyRegression was fitted with {len(directions.mean)} features, but the rows "
                f"have {'none' if x is None else x.shape[1]}; pass the same features=..."
            )
        statistics, n = batch_statistics(
            data.logits, x, codes, n_batches, beta=self._beta, directions=directions
        )
        statistics = host_array(statistics)
        found = np.stack([one.predict(statistics) for one in self.regressions_.values()])
        sizes = np.array(list(self.regressions_), np.float64)
        return np.asarray(expit(Between(sizes, n)(found)))


def _domains(data: CalibrationData) -> tuple[IntArray, FloatArray]:
    n_domains = 1 if data.domains is None else len(data.domain_names)
    if n_domains < MINIMUM_DOMAINS:
        raise InputError(
            f"AccuracyRegression needs at least {MINIMUM_DOMAINS} domains, got {n_domains}; pass "
            "domains=..., or use ConfidenceEstimator."
        )
    return data.domain_codes
