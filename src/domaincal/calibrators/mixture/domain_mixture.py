"""Mixture of domain temperatures, weighted by a domain classifier."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from domaincal._typing import Array, ArrayLike, FloatArray, IntArray
from domaincal.calibrators.mixture.domain_posterior import (
    DomainSample,
    PosteriorFit,
    fit_domain_posterior,
    select_rows,
)
from domaincal.calibrators.mixture.posterior_calibrator import PosteriorCalibrator
from domaincal.statistics import LabelledRows


class DomainMixtureScaling(PosteriorCalibrator):
    """Mixture of the temperatures of the domains that the features of a row resemble.

    A classifier Q(k | x) learns from the features which domain a row comes from. The temperature
    of a row is the geometric mean of the T_k, weighted by it::

        T(x) = exp(sum_k Q(k | x) log T_k)

    It never leaves the range of the T_k of the used domains, however far the features are from
    those of the fit. Predictions need no domain, so that they also work for domains that were not
    in the fit.

    Q is the posterior probability of Gaussian densities with the same covariance and equal prior
    probabilities of the domains, on standardised features (their first 128 principal components,
    if there are more). The shrinkage of the covariance and the sharpness of Q are chosen by the NLL
    of domains that are left out, in at most ten folds of similar domains. If the features tell
    nothing about the domain, Q tends to be the same for all domains. Every row then gets the
    geometric mean of the T_k, in which each domain counts equally. It differs a little from the
    pooled temperature, in which each row counts equally.

    Parameters
    ----------
    max_rows : int, default 20000
        Maximum number of rows from which the classifier is learned. Larger data are sampled, with
        equally many rows of each domain and a :class:`SubsampleWarning`. The T_k are fitted to all
        rows.
    random_state : int, default 0
        Seed of the sample.

    Attributes
    ----------
    temperature_ : float
        Pooled temperature: one temperature for all rows. Used if no domain can be used.
    domain_temperatures_, domain_standard_errors_ : Series indexed by domain
        T_k, and the standard error of log T_k (NaN if T_k is at a bound).
    used_domains_ : array
        Domains in the mixture: at least 10 rows, T_k not at a bound.
    posterior_ : callable
        Domain classifier: maps features to the probabilities of the used domains.
    posterior_search_ : DataFrame
        One row for each candidate of the classifier: shrinkage, sharpness, and nll, the mean NLL of
        the domains that were left out (NaN with fewer than three domains).
    feature_columns_ : tuple of str or None
        Names of the features, if the data of the fit had names.
    n_iter_ : int
        Number of passes over all rows to fit the T_k.
    n_classes_ : int
        Number of classes.
    class_names_ : tuple of str or None
        Names of the classes, if the data of the fit had names.

    Examples
    --------
    >>> from domaincal import DomainMixtureScaling, make_multi_domain, split_domains
    >>> data, _ = make_multi_domain(n_domains=8, random_state=0)
    >>> known, new = split_domains(data, ["domain-3"])
    >>> calibrator = DomainMixtureScaling().fit(known)
    >>> t = calibrator.predict_temperature(new)
    >>> bool(t.max() <= calibrator.domain_temperatures_.max())
    True
    """

    def __init__(self, *, max_rows: int = 20_000, random_state: int = 0) -> None:
        self.max_rows = max_rows
        self.random_state = random_state

    def _search(
        self, sample: DomainSample, rows: LabelledRows, temperatures: FloatArray
    ) -> PosteriorFit:
        """Choose by the NLL of the held-out rows at the mixture of the T_k of other domains."""

        def criterion(held_out: Array, test: IntArray) -> Callable[[FloatArray], FloatArray]:
            log_others = np.log(temperatures[~held_out])
            tested = select_rows(rows, test)

            def nll(q: FloatArray) -> FloatArray:
                found = [tested.sums(beta, per_row=True) for beta in np.exp(-(q @ log_others))]
                return np.stack([sums.nll[held_out] / sums.weight[held_out] for sums in found])

            return nll

        return fit_domain_posterior(sample, criterion)

    def _temperatures(
        self, logits: Array, features: ArrayLike | None, domains: ArrayLike | None
    ) -> FloatArray:
        t = self._mixed_temperatures()
        q = self._domain_probabilities(features, len(logits))
        # Rounding could leave the range of the T_k.
        return np.clip(np.exp(q @ np.log(t)), t.min(), t.max())

    def _torch_module(self) -> Any:
        from domaincal.calibrators.mixture.mixture_module import MixtureTemperatures

        return MixtureTemperatures(
            type(self).__name__, self.n_classes_, self.posterior_, self._mixed_temperatures()
        )
