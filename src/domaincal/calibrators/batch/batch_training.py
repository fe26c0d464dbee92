"""Fit of :class:`BatchMap` to batches that are resampled from the calibration rows.

For each size of batches there are Bayesian ridge regressions from statistics to log T relative to
the pooled log T: on the statistics of the logits, on these and the norms of the features, and on
all; for large batches twice, with two weights of a domain. None of them is best everywhere. Their
predictions are averaged with weights inversely proportional to their squared errors on left-out
folds of domains. The average is multiplied by a factor between 0 (the pooled temperature) and 1,
from the same left-out predictions. Sum and factor leave one vector of coefficients for each size.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np
import pandas as pd
import scipy.stats

from domaincal._typing import FloatArray, IntArray
from domaincal.calibrators.batch.batch_map import (
    LARGEST_VALUE,
    N_NORMS,
    SMALLEST_SCALE,
    BatchMap,
)
from domaincal.calibrators.batch.batch_rows import domain_profile
from domaincal.kernels.row_groups import rows_of_codes
from domaincal.statistics.batch_sums import LOGIT_STATISTICS, RowStatistics
from domaincal.statistics.bayesian_ridge import RidgeSums, fit_bayesian_ridge, sums_of_others

#: Sizes of the batches that are resampled, and how many of them from each domain.
BATCHES = {1: 128, 2: 64, 5: 32, 10: 24, 20: 16, 50: 12, 100: 8, 300: 8, 1000: 8}
#: Limits of log T: this part of the range of the targets and the log T_k beyond it.
MARGIN = 0.3
# A domain counts as 100 / size observations, and at least as 1: the statistics of large batches of
# one domain hardly differ. From few such observations, the evidence often concludes that a constant
# explains everything. For batches of more than 10 rows there is a second set of regressions, in
# which a domain counts as at least 10 (compared by python -m benchmarks.shift.few_domains).
_INDEPENDENT_ROWS = 100
LEAST_OBSERVATIONS = (1.0, 10.0)


@dataclass(frozen=True, eq=False)
class TrainingBatches:
    """Statistics of batches of one size, with the domain of each batch."""

    size: int
    statistics: FloatArray
    domain: IntArray


@dataclass(frozen=True, eq=False)
class Targets:
    """What the map should predict for each domain, relative to the pooled log T.

    Attributes
    ----------
    values : array of shape (n_domains,)
        Targets of the regression.
    log_temperatures : array of shape (n_domains,)
        log T_k, from which errors are measured.
    low, high : float
        Limits of predictions.
    """

    values: FloatArray
    log_temperatures: FloatArray
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class ResampledBatches:
    """Batches of each size, and what is known about each domain.

    Attributes
    ----------
    of_size : list of TrainingBatches
    profiles : array of shape (n_domains, n_statistics)
        Statistics of all rows of each domain, which tell which domains are similar.
    """

    of_size: list[TrainingBatches]
    profiles: FloatArray


def resample_batches(
    rows: Iterable[tuple[RowStatistics, FloatArray]], random: np.random.Generator
) -> ResampledBatches:
    """Batches of each size, drawn with replacement from the rows of each domain.

    ``rows`` yields the statistics and the weights of the rows of a domain, one domain at a time.
    The rows of a domain are drawn by quantiles of their cumulated weights, so that a weight is the
    same as a repetition if equal rows are neighbours.
    """
    size = np.repeat(list(BATCHES), list(BATCHES.values()))
    batch = np.repeat(np.arange(len(size)), size)
    statistics, profiles = [], []
    for one, weight in rows:
        shares = np.cumsum(weight)
        drawn = np.searchsorted(shares, random.random(len(batch)) * shares[-1], side="right")
        drawn = np.minimum(drawn, len(weight) - 1)
        statistics.append(one.sums(batch, len(size), rows=drawn).statistics())
        profiles.append(domain_profile(one, weight))
    of_domain = np.stack(statistics)
    of_size = [
        TrainingBatches(
            n,
            of_domain[:, size == n].reshape(-1, of_domain.shape[2]),
            np.repeat(np.arange(len(statistics)), count),
        )
        for n, count in BATCHES.items()
    ]
    return ResampledBatches(of_size, np.concatenate(profiles))


def fit_batch_map(
    batches: list[TrainingBatches],
    *,
    targets: FloatArray,
    log_temperatures: FloatArray,
    log_pooled: float,
    folds: IntArray,
) -> tuple[BatchMap, pd.DataFrame]:
    """Fit the map of each size; also return the table of errors on left-out domains.

    Parameters
    ----------
    batches : list
        Batches of each size.
    targets : array of shape (n_domains,)
        Target of each domain, a log temperature.
    log_temperatures : array of shape (n_domains,)
        log T_k, from which the errors are measured.
    log_pooled : float
        Log of the pooled temperature.
    folds : array of int, shape (n_domains,)
        Fold of each domain; the domains of a fold are left out together.
    """
    low, high = limits_of_log_t(targets, log_temperatures, log_pooled)
    relative = Targets(
        targets - log_pooled, log_temperatures - log_pooled, low - log_pooled, high - log_pooled
    )
    fits = [_fit_size(one, relative, folds) for one in batches]
    mean, scale, coef, error, reach = (np.stack(part) for part in zip(*fits, strict=True))
    sizes = np.array([one.size for one in batches], np.float64)
    fitted = BatchMap(sizes, mean, scale, coef, log_pooled, low, high, error, reach)
    pooled_error = standard_error(relative.log_temperatures, len(targets))
    return fitted, error_table(fitted, pooled_error)


def limits_of_log_t(
    targets: FloatArray, log_temperatures: FloatArray, log_pooled: float
) -> tuple[float, float]:
    """Limits of predictions: the range of all log temperatures, and some more."""
    ends = np.concatenate([targets, log_temperatures, [log_pooled]])
    margin = MARGIN * np.ptp(ends)
    return float(ends.min() - margin), float(ends.max() + margin)


def constant_map(log_pooled: float) -> BatchMap:
    """Map of every batch to the pooled temperature, with an unknown error."""
    n = len(LOGIT_STATISTICS)
    return BatchMap(
        np.ones(1), np.zeros((1, n)), np.ones((1, n)), np.zeros((1, n + 1)),
        log_pooled, log_pooled, log_pooled, np.array([np.nan]), np.ones(1),
    )  # fmt: skip


def error_table(fitted: BatchMap, pooled_error: float) -> pd.DataFrame:
    """Errors of log T on left-out domains, by the number of rows of a batch."""
    return pd.DataFrame(
        {
            "n_rows": fitted.sizes.astype(np.int64),
            "error": fitted.error,
            "pooled_error": pooled_error,
        }
    )


def _fit_size(
    batches: TrainingBatches, targets: Targets, folds: IntArray
) -> tuple[FloatArray, ...]:
    """Standardisation, coefficients, error and reach for batches of one size."""
    regression = _Regression(batches, targets)
    of_folds = regression.left_out(folds)
    squares = np.mean((of_folds - regression.t) ** 2, axis=1)
    share = 1.0 / np.maximum(squares, np.finfo(np.float64).tiny)
    share /= share.sum()
    factor = _factor(share @ of_folds, regression.t, folds[batches.domain])

    coef = factor * (share @ regression.coefs())
    # Domain by domain: the error of a batch from one new domain.
    of_domains = factor * (share @ regression.left_out(np.arange(len(folds))))
    differences = of_domains - targets.log_temperatures[batches.domain]
    error = standard_error(differences, len(folds))
    # At least 1, the norm of one standardised statistic, if all statistics are constant.
    reach = np.maximum(np.linalg.norm(regression.x[:, :-1], axis=1).max(), 1.0)
    return regression.mean, regression.scale, coef, np.array(error), reach


class _Regression:
    """Bayesian ridge regressions, from sums of each domain."""

    def __init__(self, batches: TrainingBatches, targets: Targets) -> None:
        s = batches.statistics
        self.mean, scale = s.mean(axis=0), s.std(axis=0)
        constant = scale <= SMALLEST_SCALE * np.maximum(np.abs(self.mean), 1.0)
        # Nothing can be learned from a statistic that is constant: its x is 0 in every batch.
        self.scale = np.where(constant, LARGEST_VALUE, scale)
        self.x = np.hstack([(s - self.mean) / self.scale, np.ones((len(s), 1))])
        self.domain = batches.domain
        self.t = targets.values[batches.domain]
        self.targets = targets
        n_domains = len(targets.values)
        n_batches = len(s) // n_domains
        weight = np.full(n_batches, 1.0 / n_batches)
        # The batches of a domain are consecutive.
        own = [slice(k * n_batches, (k + 1) * n_batches) for k in range(n_domains)]
        self.size = batches.size
        self.sums = [RidgeSums.from_rows(self.x[rows], self.t[rows], weight) for rows in own]

    def coefs(self, total: RidgeSums | None = None) -> FloatArray:
        """Coefficients of each regression on these sums (default: all domains)."""
        return regressions(reduce(add, self.sums) if total is None else total, self.size)

    def left_out(self, folds: IntArray) -> FloatArray:
        """Predictions of each regression for each batch, without the domains of its fold."""
        n_folds = int(folds.max()) + 1
        of_fold = [
            reduce(add, (self.sums[k] for k in own)) for own in rows_of_codes(folds, n_folds)
        ]
        of_others = [self.coefs(others) for others in sums_of_others(of_fold)]
        predicted = np.empty((len(of_others[0]), len(self.t)))
        batches = rows_of_codes(folds[self.domain], n_folds)
        for own, coefs in zip(batches, of_others, strict=True):
            predicted[:, own] = coefs @ self.x[own].T
        return np.clip(predicted, self.targets.low, self.targets.high)


def regressions(total: RidgeSums, size: int) -> FloatArray:
    """Coefficients of all regressions for batches of a size, shape (n_regressions, n_columns).

    In ``total``, a domain has the weight 1.
    """
    coefs = []
    for n_observations in _observations(size):
        counted = total.times(n_observations)
        for columns in _statistics_sets(len(total.moments) - 1):
            coef = np.zeros(len(total.moments))
            coef[columns] = fit_bayesian_ridge(counted.select(columns)).coef
            coefs.append(coef)
    return np.stack(coefs)


def _observations(size: int) -> list[float]:
    """Numbers of observations that a domain counts as."""
    return sorted({max(least, _INDEPENDENT_ROWS / size) for least in LEAST_OBSERVATIONS})


def _statistics_sets(n_statistics: int) -> list[IntArray]:
    """Columns of nested sets of statistics, each with the constant."""
    n_logits = len(LOGIT_STATISTICS)
    ends = sorted({n_logits, min(n_logits + N_NORMS, n_statistics), n_statistics})
    # The last column is the constant.
    return [np.append(np.arange(end), n_statistics) for end in ends]


def _factor(predicted: FloatArray, t: FloatArray, fold: IntArray) -> float:
    """Factor between 0 and 1 of predictions of left-out folds."""
    sums = (np.bincount(fold, values) for values in (predicted * t, predicted**2))
    return shrinkage(*(of_folds.astype(np.float64) for of_folds in sums))


def shrinkage(product: FloatArray, square: FloatArray) -> float:
    """Factor between 0 and 1 of predictions of left-out folds.

    ``product`` holds the sum of prediction times target of each fold, ``square`` that of squared
    predictions.

    It is the least-squares factor f of the targets on the predictions. A new domain is usually
    less unlike the others than a whole fold of similar domains: if f is larger than its standard
    error over the folds, this error is added.
    """
    total = max(float(square.sum()), np.finfo(np.float64).tiny)
    f = float(product.sum()) / total
    n_folds = len(product)
    residual = product - f * square
    error = float(np.sqrt(residual @ residual * n_folds / (n_folds - 1))) / total
    return float(np.clip(f + error if f > error else f, 0.0, 1.0))


def standard_error(differences: FloatArray, n_domains: int) -> float:
    """Standard error such that 95% of the differences are at most 1.96 times it.

    A root mean square would cover too much if a few differences are large. The quantile of few
    domains is uncertain: it is raised as that of a t-distribution.
    """
    few_domains = scipy.stats.t.ppf(0.975, n_domains - 1) / scipy.stats.norm.ppf(0.975)
    return float(np.quantile(np.abs(differences), 0.95) / 1.96 * few_domains)
