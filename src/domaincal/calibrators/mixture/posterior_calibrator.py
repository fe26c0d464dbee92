"""Base class of calibrators that combine domain temperatures by a domain classifier."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import pandas as pd

from domaincal._typing import Array, ArrayLike, FloatArray
from domaincal._validation import check_count, check_random_state, non_finite_features_error
from domaincal.calibrators.domain_calibrator import DomainCalibrator, DomainFit
from domaincal.calibrators.features.feature_inputs import FeatureInputs
from domaincal.calibrators.head_warnings import warn_of_no_domain
from domaincal.calibrators.inputs import TrainingRows
from domaincal.calibrators.mixture.domain_posterior import (
    DomainPosterior,
    DomainSample,
    PosteriorFit,
    empty_posterior_search,
)
from domaincal.calibrators.row_sample import warn_of_sample
from domaincal.statistics import LabelledRows
from domaincal.statistics.blas_threads import one_blas_thread


class PosteriorCalibrator(FeatureInputs, DomainCalibrator):
    """Base class of calibrators that combine the T_k by a domain classifier Q(k | x).

    Subclasses implement ``_search``, which chooses the classifier; what it needs is learned before,
    in ``_learn_tables``.

    Attributes
    ----------
    posterior_ : DomainPosterior
        Domain classifier: maps features to the probabilities of the used domains.
    posterior_search_ : DataFrame
        One row for each candidate of the classifier: shrinkage of the covariance, sharpness, and
        nll, the mean NLL of domains that were left out. Empty without a domain that can be used.
    """

    _fits_blocks = True

    max_rows: int
    random_state: int
    posterior_: DomainPosterior
    posterior_search_: pd.DataFrame

    def _check_parameters(self) -> None:
        check_count(self.max_rows, "max_rows")
        check_random_state(self.random_state)

    def _learn(self, rows: TrainingRows) -> None:
        x = self._training_features(rows)
        domains = self._fit_domains(rows)
        self._learn_tables(rows, domains)
        with one_blas_thread():  # the matrices are small
            found = self._fit_posterior(rows, x, domains)
        self._store_domains(domains)
        self.posterior_ = found.posterior
        self.posterior_search_ = found.search

    def _fit_posterior(self, rows: TrainingRows, x: Array, domains: DomainFit) -> PosteriorFit:
        """Fit the domain classifier to a sample of the rows of used domains."""
        if not domains.used.any():
            warn_of_no_domain(domains.pooled)
            same = DomainPosterior(np.zeros((x.shape[1], 1)), np.zeros(1))
            return PosteriorFit(same, empty_posterior_search())
        sample = DomainSample.draw(
            x, domains.codes, domains.used, rows.weight, max_rows=self.max_rows,
            random_state=int(check_random_state(self.random_state).integers(1 << 31)),
        )  # fmt: skip
        labelled = LabelledRows(
            rows.logits[sample.rows], rows.labels[sample.rows], sample.codes, sample.n_domains,
            None if rows.weight is None else rows.weight[sample.rows],
        )  # fmt: skip
        found = self._search(sample, labelled, domains.each.temperature[domains.used])
        warn_of_sample(type(self).__name__, len(sample.rows), sample.n_available, self.max_rows)
        return found

    @abstractmethod
    def _search(
        self, sample: DomainSample, rows: LabelledRows, temperatures: FloatArray
    ) -> PosteriorFit:
        """Fit the domain classifier; ``rows`` are those of the sample, ``temperatures`` the T_k."""

    def _learn_tables(self, rows: TrainingRows, domains: DomainFit) -> None:
        """Learn what predictions need beside the T_k and the domain classifier."""

    def _mixed_temperatures(self) -> FloatArray:
        """T_k of the used domains; without any, the pooled temperature."""
        if not len(self.used_domains_):
            return np.array([self.temperature_])
        return np.asarray(self.domain_temperatures_.loc[self.used_domains_], np.float64)

    def _domain_probabilities(self, features: ArrayLike | None, n_rows: int) -> FloatArray:
        """Probability of each used domain for each row."""
        x = self._prediction_features(features, n_rows)
        q = self.posterior_(x)
        if not np.isfinite(q).all():
            raise non_finite_features_error(x)
        return q

    def _facts(self) -> dict[str, str]:
        n_features, n_domains = self.posterior_.coef.shape
        return {**super()._facts(), "classifier": f"{n_domains} domains by {n_features} features"}
