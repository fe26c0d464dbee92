"""Batch temperature scaling from sums: moments of the statistics of resampled batches.

Every site draws batches from its own domains, as a fit to rows does, and sends their means and
covariances. The regressions need no more. Three numbers of a fit to rows do: the 95% quantile of
the errors and the largest distance of a batch, for which the statistics of a domain are taken to be
normal, and the limits of left-out predictions, which are not applied.

Which rows are drawn is known to the site only: whoever knew the rows of many batches could compute
the statistics of single rows from the means.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from typing import Any, cast

import numpy as np
import pandas as pd
import scipy.linalg
import scipy.stats

from domaincal._row_arrays import is_row_array
from domaincal._typing import Array, FloatArray, IntArray
from domaincal.calibrators.batch.batch_map import (
    LARGEST_VALUE,
    N_NORMS,
    SMALLEST_SCALE,
    BatchMap,
    FeatureDirections,
)
from domaincal.calibrators.batch.batch_rows import domain_rows, domain_values
from domaincal.calibrators.batch.batch_sample import sample_for_batches
from domaincal.calibrators.batch.batch_temperature import REACH
from domaincal.calibrators.batch.batch_training import (
    BATCHES,
    error_table,
    limits_of_log_t,
    regressions,
    resample_batches,
    shrinkage,
    standard_error,
)
from domaincal.calibrators.inputs import TrainingRows
from domaincal.distributed.site_summary import CheckedSite
from domaincal.distributed.site_sums import SiteSums
from domaincal.kernels.row_groups import rows_of_codes
from domaincal.statistics import TemperatureFit
from domaincal.statistics.batch_sums import LOGIT_STATISTICS
from domaincal.statistics.bayesian_ridge import RidgeSums, sums_of_others
from domaincal.statistics.consistent_temperature import consistent_log_temperatures
from domaincal.statistics.domain_folds import similar_domain_folds

#: Most directions of a plan.
N_DIRECTIONS = 8
#: Directions whose variance is below this fraction of the largest are rounding errors.
SMALLEST_VARIANCE = 1e-10
# Points of a normal distribution, in place of the errors of batches.
_NORMAL_POINTS = scipy.stats.norm.ppf((np.arange(200) + 0.5) / 200)


@dataclass(frozen=True, eq=False)
class BatchPlan:
    """What a site needs to draw batches.

    Attributes
    ----------
    log_pooled : float
        Log of the pooled temperature.
    directions : FeatureDirections or None
        Projection of the features; None without features.
    """

    log_pooled: float
    directions: FeatureDirections | None


@dataclass(frozen=True, eq=False)
class BatchMoments:
    """Sums over the batches of each domain; 0 for domains that are not used.

    Attributes
    ----------
    profiles : array, shape (n_domains, n_statistics)
        Statistics of all rows of each domain together.
    targets : array, shape (n_domains,)
        Log temperature at which the mean confidence of a domain equals its accuracy.
    batch_means : array, shape (n_domains, n_sizes, n_statistics)
        Means over the batches of a size.
    batch_covariances : array, shape (n_domains, n_sizes, n_statistics, n_statistics)
    """

    profiles: FloatArray
    targets: FloatArray
    batch_means: FloatArray
    batch_covariances: FloatArray


def plan_batches(sums: SiteSums, log_pooled: float) -> BatchPlan:
    """Plan of the batches, with directions from the sums of the first round."""
    directions = None if sums.rows.features != "given" else _directions(sums)
    return BatchPlan(log_pooled, directions)


def answer_batches(
    site: CheckedSite, plan: BatchPlan, fit: TemperatureFit, used: Array
) -> BatchMoments:
    """Moments of the batches of each domain, from at most 4,096 rows of each."""
    rows, n_domains = site.labelled, len(site.about.domains)
    targets = consistent_log_temperatures(
        rows.logits, rows.labels, site.codes, np.log(fit.temperature), reach=REACH
    )
    n_values = 0 if plan.directions is None else N_NORMS + plan.directions.directions.shape[1]
    s = len(LOGIT_STATISTICS) + n_values
    found = BatchMoments(
        np.zeros((n_domains, s)), np.where(used, targets, 0.0),
        np.zeros((n_domains, len(BATCHES), s)), np.zeros((n_domains, len(BATCHES), s, s)),
    )  # fmt: skip
    domains = np.flatnonzero(used)
    logits, features, codes = _rows_for_batches(site, used)
    chosen = domain_rows(logits, codes, domains, None)
    values = domain_values(
        logits, None if plan.directions is None else features, chosen,
        beta=float(np.exp(-plan.log_pooled)), directions=plan.directions,
    )  # fmt: skip
    for k, of_domain in zip(domains, values, strict=True):
        batches = resample_batches([of_domain], _private_random())
        found.profiles[k] = batches.profiles[0]
        for j, of_size in enumerate(batches.of_size):
            mean = of_size.statistics.mean(axis=0)
            centred = of_size.statistics - mean
            found.batch_means[k, j] = mean
            found.batch_covariances[k, j] = centred.T @ centred / len(centred)
    return found


def _rows_for_batches(site: CheckedSite, used: Array) -> tuple[Array, Any, IntArray]:
    """Logits, features and domains; of rows that are read in blocks, some of each domain."""
    rows, x, codes = site.labelled, site.features, site.codes
    if not is_row_array(codes):
        return rows.logits, x, codes
    given = TrainingRows(rows.logits, rows.labels, x, None, None)
    numbers = sample_for_batches(given, cast(Array, codes), used, name="answer_plan")
    return rows.logits[numbers], None if x is None else x[numbers], codes[numbers]


def fit_batches(
    sums: SiteSums, used: Array, moments: BatchMoments, log_pooled: float
) -> tuple[BatchMap, pd.DataFrame]:
    """Map from the statistics of a batch to log T, and the table of its errors."""
    log_temperatures = np.log(sums.fit.temperature[used])
    targets = moments.targets[used]
    folds = similar_domain_folds(moments.profiles[used])
    low, high = limits_of_log_t(targets, log_temperatures, log_pooled)
    fits = [
        _fit_size(
            _Moments.of(size, moments.batch_means[used, j], moments.batch_covariances[used, j]),
            targets - log_pooled, log_temperatures - log_pooled, folds,
        )
        for j, size in enumerate(BATCHES)
    ]  # fmt: skip
    mean, scale, coef, error, reach = (np.stack(part) for part in zip(*fits, strict=True))
    sizes = np.array(list(BATCHES), np.float64)
    fitted = BatchMap(sizes, mean, scale, coef, log_pooled, low, high, error, reach)
    pooled_error = standard_error(log_temperatures - log_pooled, len(targets))
    return fitted, error_table(fitted, pooled_error)


@dataclass(frozen=True, eq=False)
class _Moments:
    """Standardised statistics of the batches of one size, with a last column of ones."""

    size: int
    mean: FloatArray
    scale: FloatArray
    x: FloatArray  # means of each domain
    covariance: FloatArray

    @classmethod
    def of(cls, size: int, means: FloatArray, covariances: FloatArray) -> _Moments:
        mean = means.mean(axis=0)
        variance = np.diagonal(covariances, axis1=1, axis2=2) + (means - mean) ** 2
        scale = np.sqrt(variance.mean(axis=0))
        constant = scale <= SMALLEST_SCALE * np.maximum(np.abs(mean), 1.0)
        scale = np.where(constant, LARGEST_VALUE, scale)
        n_domains, s = means.shape
        x = np.hstack([(means - mean) / scale, np.ones((n_domains, 1))])
        covariance = np.zeros((n_domains, s + 1, s + 1))
        covariance[:, :s, :s] = covariances / scale / scale[:, None]
        return cls(size, mean, scale, x, covariance)

    def seconds(self) -> FloatArray:
        """Means of ``x x'`` of each domain."""
        return self.covariance + self.x[:, :, None] * self.x[:, None, :]

    def variances(self, coef: FloatArray) -> FloatArray:
        """Variance of the predictions of each domain, with one vector of coefficients for each."""
        return np.asarray(np.einsum("ki,kij,kj->k", coef, self.covariance, coef))


def _fit_size(
    moments: _Moments, targets: FloatArray, log_temperatures: FloatArray, folds: IntArray
) -> tuple[FloatArray, ...]:
    """Standardisation, coefficients, error and reach for batches of one size."""
    x, seconds = moments.x, moments.seconds()
    sums = [
        RidgeSums(xx, t * mean, float(t**2), 1.0)
        for xx, mean, t in zip(seconds, x, targets, strict=True)
    ]
    coefs = partial(regressions, size=moments.size)

    n_folds = int(folds.max()) + 1
    of_fold = [reduce(add, (sums[k] for k in own)) for own in rows_of_codes(folds, n_folds)]
    left_out = np.stack([coefs(others) for others in sums_of_others(of_fold)])[folds]
    predicted = np.einsum("ksi,ki->sk", left_out, x)
    squared = np.einsum("ksi,kij,ksj->sk", left_out, seconds, left_out)
    squares = (squared - 2 * targets * predicted + targets**2).mean(axis=1)
    share = 1.0 / np.maximum(squares, np.finfo(np.float64).tiny)
    share /= share.sum()
    mean_coef = np.einsum("s,ksi->ki", share, left_out)
    product = np.einsum("ki,ki->k", mean_coef, x) * targets
    square = np.einsum("ki,kij,kj->k", mean_coef, seconds, mean_coef)
    of_folds = (np.bincount(folds, values) for values in (product, square))
    factor = shrinkage(*(values.astype(np.float64) for values in of_folds))
    each = factor * np.stack([share @ coefs(others) for others in sums_of_others(sums)])
    middle = np.einsum("ki,ki->k", each, x) - log_temperatures
    spread = np.sqrt(np.maximum(moments.variances(each), 0.0))
    differences = middle[:, None] + spread[:, None] * _NORMAL_POINTS
    error = standard_error(differences.ravel(), len(targets))
    coef = factor * (share @ coefs(reduce(add, sums)))
    return moments.mean, moments.scale, coef, np.array(error), np.array(_reach(moments))


def _reach(moments: _Moments) -> float:
    """About the largest norm of the standardised statistics of all batches."""
    x, covariance = moments.x[:, :-1], moments.covariance[:, :-1, :-1]
    mean = (x**2).sum(axis=1) + np.trace(covariance, axis1=1, axis2=2)
    across = np.einsum("ki,kij,kj->k", x, covariance, x)
    variance = 2 * np.einsum("kij,kij->k", covariance, covariance) + 4 * across
    n_batches = len(x) * BATCHES[moments.size]
    largest = mean + scipy.stats.norm.ppf(1 - 1 / n_batches) * np.sqrt(np.maximum(variance, 0.0))
    # At least 1, the norm of one standardised statistic, if all statistics are constant.
    return max(float(np.sqrt(largest.max())), 1.0)


def _directions(sums: SiteSums) -> FeatureDirections:
    """First eight whitened principal directions of the features of all sites."""
    assert sums.features is not None
    n, used = np.asarray(sums.n_rows, np.float64), sums.used
    equations = sums.features.equations(n, used, equal_domains=False, fit_intercept=True)
    total, mean = equations.weight.sum(), equations.mean()
    covariance = equations.gram / total - np.outer(mean, mean)
    scale = float(np.sqrt(max(np.diagonal(covariance).max(), 0.0))) or 1.0
    width = len(mean)
    first = max(0, width - N_DIRECTIONS)
    values, vectors = scipy.linalg.eigh(covariance / scale**2, subset_by_index=(first, width - 1))
    # The sign of an eigenvector is arbitrary: it must not depend on the machine.
    largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=0)[None], axis=0)
    vectors = vectors * np.where(largest < 0, -1.0, 1.0)
    kept = values > SMALLEST_VARIANCE * max(values[-1], np.finfo(np.float64).tiny)
    directions = np.zeros((width, width - first))
    directions[:, : int(kept.sum())] = (vectors[:, kept] / np.sqrt(values[kept]))[:, ::-1]
    return FeatureDirections(mean + equations.shift, scale, directions)


def _private_random() -> np.random.Generator:
    """Generator that nobody outside can repeat."""
    return np.random.default_rng(secrets.randbits(256))
