"""Temperature scaling for an unlabelled batch, with domains weighted by their likeness to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from domaincal._typing import Array, ArrayLike, FloatArray, IntArray
from domaincal._validation import check_domains, check_logits
from domaincal.calibrators.batch.batch_calibrator import BatchCalibrator
from domaincal.calibrators.domain_calibrator import DomainFit
from domaincal.calibrators.inputs import TrainingRows, order_features, unpack_arguments
from domaincal.calibrators.mixture.domain_posterior import (
    Criterion,
    DomainSample,
    PosteriorFit,
    fit_domain_posterior,
    select_rows,
)
from domaincal.calibrators.mixture.posterior_calibrator import PosteriorCalibrator
from domaincal.calibrators.mixture.weighted_temperature import SlopeTable
from domaincal.data import CalibrationData
from domaincal.statistics import LabelledRows

#: Candidates for the number of steps of the EM algorithm. After one step, a share is the mean of
#: Q(k | x); after many, it is the maximum of the likelihood. The first is taken with fewer than
#: three domains, where leaving one out shows nothing.
EM_STEPS = (100, 1)
#: Weight of the prior, which is the same for all domains, in rows of the batch.
PRIOR_ROWS = 1.0
# In the search, a domain that is left out counts as a batch of so many rows.
_SEARCH_BATCH = 100.0
#: Largest change of a share in the last step.
TOLERANCE = 1e-9


class ShiftWeightedScaling(BatchCalibrator, PosteriorCalibrator):
    """Temperature scaling to the mixture of known domains that an unlabelled batch looks like.

    A classifier Q(k | x) learns from the features which domain a row comes from. For the rows of
    a new place, which need no labels, the shares alpha_k of the known domains are estimated by the
    EM algorithm. All rows of the batch get the temperature that minimises
    ``sum_k alpha_k NLL_k``, where NLL_k is the mean NLL of the rows of domain k in the fit. It lies
    between the smallest and the largest T_k.

    At prediction, ``domains`` only groups the rows into batches: rows of one domain are one batch.
    Without domains, all rows are one batch. A batch of 20 rows is enough; for a single row,
    :class:`DomainMixtureScaling` is made. A weak prior keeps the shares of small batches apart
    from 0 and 1: it counts as one row that looks like all domains.

    The classifier is that of :class:`DomainMixtureScaling`. Its shrinkage and sharpness, and the
    number of EM steps, are chosen by the NLL of domains that are left out, each of which is one
    batch. After one step, alpha_k is the mean of Q(k | x) over the batch. After many, it is the
    estimate of maximum likelihood, which suits batches that are mixtures of known domains.

    Parameters
    ----------
    max_rows : int, default 20000
        Maximum number of rows from which the classifier is learned. Larger data are sampled, with
        equally many rows of each domain and a :class:`SubsampleWarning`. Also the maximum number
        of rows of a batch from which its shares are estimated.
    random_state : int, default 0
        Seed of the sample.

    Attributes
    ----------
    temperature_ : float
        Pooled temperature: one temperature for all rows. Used if no domain can be used.
    domain_temperatures_, domain_standard_errors_ : Series indexed by domain
        T_k, and the standard error of log T_k (NaN if T_k is at a bound).
    used_domains_ : array
        Domains of the mixture: at least 10 rows, T_k not at a bound.
    posterior_ : callable
        Domain classifier: maps features to the probabilities of the used domains.
    posterior_search_ : DataFrame
        One row for each candidate: shrinkage, sharpness, em_steps, and nll, the mean NLL of the
        domains that were left out (NaN with fewer than three domains).
    em_steps_ : int
        Number of steps of the EM algorithm.
    slope_table_ : SlopeTable
        Slope of the NLL of each used domain, from which temperatures are computed without the rows
        of the fit.
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
    >>> from domaincal import ShiftWeightedScaling, make_multi_domain, split_domains
    >>> data, _ = make_multi_domain(n_domains=8, random_state=0)
    >>> known, new = split_domains(data, ["domain-3"])
    >>> calibrator = ShiftWeightedScaling().fit(known)
    >>> len(set(calibrator.predict_temperature(new).tolist()))
    1
    >>> calibrator.mixture_weights(new).shape
    (1, 7)
    """

    slope_table_: SlopeTable
    em_steps_: int

    def __init__(self, *, max_rows: int = 20_000, random_state: int = 0) -> None:
        self.max_rows = max_rows
        self.random_state = random_state

    def mixture_weights(
        self,
        logits: ArrayLike | CalibrationData,
        *,
        features: ArrayLike | None = None,
        domains: ArrayLike | None = None,
    ) -> pd.DataFrame:
        """Shares of the known domains in each batch.

        The parameters are those of :meth:`predict_proba`.

        Returns
        -------
        DataFrame
            One row for each batch, under the name of its domain (0 if no domains are given), and
            one column for each used domain. The shares of a batch sum to 1.
        """
        check_is_fitted(self)
        inputs = unpack_arguments("mixture_weights", logits, features=features, domains=domains)
        n_rows = len(check_logits(inputs.logits, n_classes=self.n_classes_))
        x = order_features(inputs.features, inputs.feature_names, self.feature_columns_)
        codes, n_batches = self._batches(inputs.domains, n_rows)
        names = np.zeros(1, np.int64)
        if inputs.domains is not None:
            names = check_domains(inputs.domains, n_rows=n_rows, needed_by=type(self).__name__)[1]
        shares = self._batch_shares(x, n_rows, codes, n_batches)
        columns = self.used_domains_ if len(self.used_domains_) else ["pooled"]
        return pd.DataFrame(
            shares,
            index=pd.Index(names, name="batch"),
            columns=pd.Index(columns, name="domain"),
        )

    def _learn_tables(self, rows: TrainingRows, domains: DomainFit) -> None:
        if not domains.used.any():
            log_t = np.log(domains.pooled.temperature)
            self.em_steps_ = EM_STEPS[0]
            self.slope_table_ = SlopeTable(np.repeat(log_t, 4), np.zeros((4, 1)))
            return
        labelled = LabelledRows(
            rows.logits, rows.labels, domains.codes, len(domains.names), rows.weight
        )
        temperatures = np.where(domains.used, domains.each.temperature, np.nan)
        self.slope_table_ = SlopeTable.from_rows(labelled, temperatures)

    def _search(
        self, sample: DomainSample, rows: LabelledRows, temperatures: FloatArray
    ) -> PosteriorFit:
        fits, tables = [], []
        for n_steps in EM_STEPS:
            found = fit_domain_posterior(sample, self._criterion(rows, temperatures, n_steps))
            fits.append(found)
            tables.append(found.search.assign(em_steps=n_steps))
        best = min(range(len(fits)), key=lambda k: fits[k].search["nll"].min())
        self.em_steps_ = EM_STEPS[best]
        return PosteriorFit(fits[best].posterior, pd.concat(tables, ignore_index=True))

    def _criterion(self, rows: LabelledRows, temperatures: FloatArray, n_steps: int) -> Criterion:
        """NLL of the held-out domains, each a batch of unlabelled rows for the other domains."""
        table, domain = self.slope_table_, np.asarray(rows.domain)

        def of_fold(held_out: Array, test: IntArray) -> Callable[[FloatArray], FloatArray]:
            others = SlopeTable(table.log_temperatures, table.slopes[:, ~held_out])
            low, high = temperatures[~held_out].min(), temperatures[~held_out].max()
            tested = select_rows(rows, test)
            batch = (np.cumsum(held_out) - 1)[domain[test]]
            weight = np.ones(len(test)) if tested.weight is None else tested.weight
            weight = _SEARCH_BATCH * weight / np.bincount(batch, weight)[batch]

            def nll(q: FloatArray) -> FloatArray:
                n_candidates, n_batches = len(q), int(held_out.sum())
                # The same batch by another candidate is another batch.
                codes = (batch + n_batches * np.arange(n_candidates)[:, None]).ravel()
                q = q.reshape(len(codes), -1)
                shares = estimate_shares(
                    q, codes, n_candidates * n_batches, n_steps, np.tile(weight, n_candidates)
                )
                found = np.clip(others.temperatures(shares), low, high)
                return np.stack([own_nll(t) for t in found.reshape(n_candidates, n_batches)])

            def own_nll(predicted: FloatArray) -> FloatArray:
                beta = np.ones(rows.n_domains)
                beta[held_out] = 1.0 / predicted
                sums = tested.sums(beta)
                return np.asarray(sums.nll[held_out] / sums.weight[held_out])

            return nll

        return of_fold

    def _batch_temperatures(
        self, logits: Array, features: ArrayLike | None, codes: IntArray, n_batches: int
    ) -> FloatArray:
        shares = self._batch_shares(features, len(logits), codes, n_batches)
        t = self._mixed_temperatures()
        # Interpolation and rounding could leave the range of the T_k.
        return np.clip(self.slope_table_.temperatures(shares), t.min(), t.max())

    def _batch_shares(
        self, features: ArrayLike | None, n_rows: int, codes: IntArray, n_batches: int
    ) -> FloatArray:
        """Shares of the used domains in each batch."""
        x = self._prediction_features(features, n_rows)
        rows = _thinned(codes, n_batches, self.max_rows)
        q = self._domain_probabilities(x if len(rows) == n_rows else x[rows], len(rows))
        return estimate_shares(q, codes[rows], n_batches, self.em_steps_)

    def _torch_module(self) -> Any:
        from domaincal.calibrators.mixture.shift_module import ShiftTemperatures

        return ShiftTemperatures(
            type(self).__name__,
            self.n_classes_,
            self.posterior_,
            self.slope_table_,
            self._mixed_temperatures(),
            n_steps=self.em_steps_,
            max_rows=self.max_rows,
        )


def estimate_shares(
    q: FloatArray,
    codes: IntArray,
    n_batches: int,
    n_steps: int,
    weight: FloatArray | None = None,
) -> FloatArray:
    """Shares of the domains in each batch, from the posterior probabilities of its rows.

    EM algorithm: a row belongs to domain k with probability proportional to alpha_k Q(k | x), and
    alpha_k is the mean of these probabilities and of a uniform prior.

    Examples
    --------
    >>> import numpy as np
    >>> q = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> estimate_shares(q, np.zeros(3, int), 1, n_steps=1).tolist()
    [[0.625, 0.375]]
    """
    weight = np.ones(len(q)) if weight is None else weight
    counts = np.bincount(codes, minlength=n_batches)
    shares = np.empty((n_batches, q.shape[1]))
    sorted_rows = np.argsort(codes, kind="stable")
    first = np.cumsum(counts) - counts
    for size in np.unique(counts):  # batches of the same size are one array of three dimensions
        batches = np.flatnonzero(counts == size)
        rows = sorted_rows[first[batches][:, None] + np.arange(size)]
        shares[batches] = _equal_batches_shares(q[rows], weight[rows], n_steps)
    return shares


def _equal_batches_shares(q: FloatArray, weight: FloatArray, n_steps: int) -> FloatArray:
    """Shares of the domains in batches with the same number of rows.

    ``q`` has the shape (n_batches, n_rows, n_domains), ``weight`` (n_batches, n_rows).
    """
    n_batches, _, n_domains = q.shape
    total = weight.sum(axis=1, keepdims=True) + PRIOR_ROWS
    shares = np.full((n_batches, n_domains), 1.0 / n_domains)
    active = np.arange(n_batches)
    for _ in range(n_steps):
        own, old = q if len(active) == n_batches else q[active], shares[active]
        # Of a row, alpha_k Q(k | x) / sum_j alpha_j Q(j | x) belongs to domain k.
        factor = weight[active] / (own @ old[:, :, None])[:, :, 0]
        new = old * (factor[:, None, :] @ own)[:, 0, :] + PRIOR_ROWS / n_domains
        new /= total[active]
        shares[active] = new
        # A batch stops by itself, so that its shares do not depend on other batches.
        active = active[np.abs(new - old).max(axis=1) > TOLERANCE]
        if not len(active):
            break
    return shares


def _thinned(codes: IntArray, n_batches: int, max_rows: int) -> IntArray:
    """Numbers of at most ``max_rows`` rows of each batch, evenly spread over it."""
    counts = np.bincount(codes, minlength=n_batches)
    if counts.max() <= max_rows:
        return np.arange(len(codes))
    every = -(-counts // max_rows)
    rank = pd.Series(codes).groupby(codes).cumcount().to_numpy()
    return np.flatnonzero(rank % every[codes] == 0)
