"""Domains for rows that have none: clusters of similar features."""

from __future__ import annotations

from typing import Any

import numpy as np

from domaincal._tensors import host_array
from domaincal._typing import Array, ArrayLike, FloatArray, IntArray
from domaincal._validation import (
    check_count,
    check_features,
    check_finite_features,
    check_labels,
    check_logits,
    check_not_empty,
    check_random_state,
    check_real_array,
)
from domaincal.calibrators.features.feature_projection import FeatureProjection
from domaincal.calibrators.features.row_clusters import RowClusters
from domaincal.data import CalibrationData
from domaincal.errors import InputError
from domaincal.statistics import LabelledRows, fit_temperature
from domaincal.statistics.blas_threads import one_blas_thread
from domaincal.statistics.feature_products import feature_blocks
from domaincal.statistics.temperature_solver import MINIMUM_ROWS

#: Numbers of domains among which the held-out NLL chooses; larger ones are multiples of 20.
CANDIDATES = (1, 2, 3, 5, 7, 10, 14, 20, 28, 40)
#: Rows from which the clusters are learned.
MAX_ROWS = 20_000
# Clusters are formed in this number of principal components.
_N_DIRECTIONS = 32


def discover_domains(
    features: ArrayLike | CalibrationData,
    *,
    logits: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    n_domains: int | None = None,
    max_domains: int = 40,
    random_state: int = 0,
) -> IntArray:
    """Find domains for rows that have none: clusters of rows with similar features.

    The features are standardised, reduced to at most 32 principal components, and clustered by
    k-means. More than 20,000 rows are assigned to the clusters of a random sample of them.

    Without ``n_domains``, the number of domains is chosen by held-out NLL: the clusters and their
    temperatures are learned from one half of the rows, and the other half is scored at the
    temperatures of its clusters. The result can be a single domain, if the features do not tell
    rows apart that need different temperatures.

    Parameters
    ----------
    features : array of shape (n, n_features), or CalibrationData
        Features of each row. A CalibrationData replaces features, logits and labels.
    logits : array of shape (n, n_classes), optional
        Needed, with ``labels``, unless ``n_domains`` is given.
    labels : array of shape (n,), optional
        Class of each row.
    n_domains : int, optional
        Number of domains. There are fewer if clusters with fewer than 10 rows were merged.
    max_domains : int, default 40
        Largest number of domains that is tried.
    random_state : int, default 0
        Seed of the clusters, the sample and the halves.

    Returns
    -------
    array of int, shape (n,)
        Domain of each row, from 0, in the order of the first row of each domain. Every domain has
        at least 10 rows, if there are 10 rows.

    Examples
    --------
    >>> import domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=8, random_state=0)
    >>> domains = dc.discover_domains(data.features, n_domains=8)
    >>> domains.shape == data.labels.shape
    True
    >>> calibrator = dc.MultiDomainTemperatureScaling("ridge", fit_intercept=True)
    >>> calibrator = calibrator.fit(
    ...     data.logits, data.labels, features=data.features, domains=domains
    ... )
    """
    given, logits, labels = _unpack(features, logits, labels)
    x = check_features(given, n_rows=_n_rows(given), needed_by="discover_domains")
    check_not_empty(x, "features")
    check_finite_features(x)
    check_count(max_domains, "max_domains")
    seeds = check_random_state(random_state).integers(1 << 31, size=3)
    rows = np.arange(len(x))
    if len(x) > MAX_ROWS:
        rows = np.sort(np.random.default_rng(seeds[0]).permutation(len(x))[:MAX_ROWS])
    with one_blas_thread():  # k-means has its own threads
        some = np.asarray(x[rows])
        projection = FeatureProjection.fit(some, max_directions=_N_DIRECTIONS)
        projected = projection(some)
        if n_domains is None:
            labelled = _labelled_rows(logits, labels, rows, len(x))
            n_domains = _choose_number(projected, labelled, max_domains, seeds)
        else:
            n_domains = check_count(n_domains, "n_domains")
        clusters = RowClusters.fit(projected, n_domains, int(seeds[1]))
        codes = np.empty(len(x), np.int64)
        for block in feature_blocks(*x.shape):
            codes[block] = clusters(projection(host_array(x[block])))
    _, first, codes = np.unique(codes, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[codes], np.int64)


def _unpack(features: Any, logits: Any, labels: Any) -> tuple[Any, Any, Any]:
    """Features, logits and labels; a CalibrationData replaces all three."""
    if not isinstance(features, CalibrationData):
        return features, logits, labels
    if logits is not None or labels is not None:
        raise InputError(
            "discover_domains got a CalibrationData, which already holds all arrays, and logits or "
            "labels as well; pass either the data or arrays."
        )
    return features.features, features.logits, features.labels


def _n_rows(features: Any) -> int:
    """Number of rows of features that are not checked yet."""
    if features is None:
        return 0
    checked = check_real_array(features, "features", keep_device=True)
    return len(checked) if checked.ndim else 0


def _labelled_rows(
    logits: ArrayLike | None, labels: ArrayLike | None, rows: IntArray, n_rows: int
) -> LabelledRows:
    """The given rows, from which the number of domains is chosen."""
    if logits is None or labels is None:
        missing = (
            "labels"
            if logits is not None
            else "logits and labels"
            if labels is None
            else ("logits")
        )
        raise InputError(
            f"n_domains is None, and there are no {missing} to choose it by; pass logits=... and "
            "labels=..., or n_domains=20."
        )
    z = check_logits(logits)
    if len(z) != n_rows:
        raise InputError(
            f"logits have {len(z)} rows, but features have {n_rows}; pass the same rows."
        )
    y = check_labels(labels, n_rows=n_rows, n_classes=z.shape[1])
    return LabelledRows(z[rows], y[rows])


def _choose_number(
    projected: FloatArray, rows: LabelledRows, max_domains: int, seeds: Array
) -> int:
    """Number of domains with the lowest NLL of the half of the rows that is held out."""
    n = len(projected)
    larger = range(60, max_domains + 1, 20)
    # A half has at least 10 rows for each domain, on average.
    most = min(max_domains, n // (2 * MINIMUM_ROWS))
    candidates = [k for k in (*CANDIDATES, *larger) if k <= most]
    if len(candidates) < 2:
        return 1
    shuffled = np.random.default_rng(seeds[2]).permutation(n)
    halves = np.sort(shuffled[: n // 2]), np.sort(shuffled[n // 2 :])
    nll = [
        sum(
            _held_out_nll(projected, rows, train, test, k, int(seeds[1]))
            for train, test in (halves, halves[::-1])
        )
        for k in candidates
    ]
    return int(candidates[int(np.argmin(nll))])


def _held_out_nll(
    projected: FloatArray,
    rows: LabelledRows,
    train: IntArray,
    test: IntArray,
    n_domains: int,
    seed: int,
) -> float:
    """NLL of the rows ``test`` at the temperatures of clusters of the rows ``train``."""
    clusters = RowClusters.fit(projected[train], n_domains, seed)
    n_clusters = len(clusters.centres)
    z, y = rows.logits[train], rows.labels[train]
    each = fit_temperature(LabelledRows(z, y, clusters(projected[train]), n_clusters))
    pooled = fit_temperature(LabelledRows(z, y))
    temperatures = np.where(each.at_bound, pooled.temperature, each.temperature)
    sums = LabelledRows(
        rows.logits[test], rows.labels[test], clusters(projected[test]), n_clusters
    ).sums(1.0 / temperatures)
    return float(sums.nll.sum())
