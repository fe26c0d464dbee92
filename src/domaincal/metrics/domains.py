"""Metrics by domain, and their means over domains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import t as student

from domaincal._typing import Array, ArrayLike, FloatArray
from domaincal._validation import (
    check_confidences,
    check_domain_weights,
    check_domains,
    check_hits,
    check_number,
    check_real_array,
    check_sample_weight,
)
from domaincal.errors import InputError
from domaincal.kernels.row_groups import rows_of_codes
from domaincal.metrics.predictions import check_predictions, confidence_and_hit
from domaincal.statistics import BinSums
from domaincal.statistics.bin_sums import Norm, Strategy
from domaincal.statistics.domain_bins import DomainBins

# Number of parts of a domain; the jackknife leaves each part out once.
_JACKKNIFE_PARTS = 20


class DomainMean(NamedTuple):
    """Mean over domains, its standard error, and the number of domains.

    Examples
    --------
    >>> found = mean_over_domains([1.0, 3.0])
    >>> found.mean, found.standard_error, found.n_domains
    (2.0, 1.0, 2)
    """

    mean: float
    standard_error: float
    n_domains: int


def mean_over_domains(values: ArrayLike) -> DomainMean:
    """Mean over K domains, with the standard error ``sd / sqrt(K)``.

    Parameters
    ----------
    values : array, shape (K,)
        One value for each domain. Domains with NaN are left out.

    Examples
    --------
    >>> mean_over_domains([1.0, 3.0])
    DomainMean(mean=2.0, standard_error=1.0, n_domains=2)
    """
    v = check_real_array(values, "values").astype(np.float64)
    known = v[~np.isnan(v)] if v.ndim == 1 else v
    if v.ndim != 1 or len(known) == 0 or np.isinf(known).any():
        raise InputError(
            f"values must be a 1-D array with one finite number for each domain, got {values!r}; "
            "pass at least one number."
        )
    v = known
    error = float(v.std(ddof=1) / np.sqrt(len(v))) if len(v) > 1 else float("nan")
    return DomainMean(float(v.mean()), error, len(v))


def per_domain(
    metric: Callable[[Any, Any], float],
    predictions: ArrayLike,
    outcomes: ArrayLike,
    domains: ArrayLike,
    *,
    level: float = 0.95,
) -> pd.DataFrame:
    """Any metric by domain, with its standard error and confidence interval.

    Parameters
    ----------
    metric : callable
        Function of the predictions and outcomes of some rows that returns a number, e.g.
        :func:`expected_calibration_error`; set its options with :func:`functools.partial`.
    predictions, outcomes : arrays with the same number of rows
        Arguments of the metric: probabilities and labels, or confidences and hits.
    domains : array, shape (n,)
    level : float, default 0.95
        Coverage of the interval.

    Returns
    -------
    DataFrame
        One row for each domain, sorted by domain, with the columns domain, n, value,
        standard_error, low, high. The standard error is the jackknife over 20 parts of the domain,
        drawn at random with a fixed seed; the interval is Student's interval. Both are NaN for a
        domain of one row. For ECE they describe the binned statistic including its floor, and are
        too wide near the floor; use :func:`compare_domains` instead.

    Examples
    --------
    >>> import domaincal as dc
    >>> p = [[0.75, 0.25]] * 4
    >>> table = dc.per_domain(dc.metrics.accuracy, p, [0, 1, 0, 0], ["a", "a", "b", "b"])
    >>> table[["domain", "n", "value"]].values.tolist()
    [['a', 2, 0.5], ['b', 2, 1.0]]
    """
    check_number(level, "level", low=0.0, high=1.0)
    if not callable(metric):
        raise InputError(
            f"metric must be a function, got {metric!r}; pass e.g. domaincal.brier_score."
        )
    p, o = _check_rows(predictions, outcomes)
    codes, names = check_domains(domains, n_rows=len(p), needed_by="per_domain")
    records = []
    for name, rows in domain_rows(codes, names):
        value = float(metric(p[rows], o[rows]))
        error = _jackknife(metric, p[rows], o[rows])
        parts = min(len(rows), _JACKKNIFE_PARTS)
        half = error * student.ppf(0.5 + level / 2, parts - 1) if parts > 1 else np.nan
        records.append((name, len(rows), value, error, value - half, value + half))
    columns = ["domain", "n", "value", "standard_error", "low", "high"]
    return pd.DataFrame(records, columns=columns)


def bins_by_domain(
    confidences: ArrayLike,
    hits: ArrayLike,
    domains: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    sample_weight: ArrayLike | None = None,
) -> dict[Any, BinSums]:
    """:class:`BinSums` by domain.

    Parameters
    ----------
    confidences : array, shape (n,)
    hits : array of bool, shape (n,)
        Whether each prediction is correct.
    domains : array, shape (n,)
    n_bins, strategy, sample_weight
        See :func:`expected_calibration_error`.

    Returns
    -------
    dict from domains to BinSums
        Sorted by domain.

    Examples
    --------
    >>> bins = bins_by_domain([0.9, 0.8, 0.6], [True, True, False], ["a", "a", "b"])
    >>> {name: sums.n for name, sums in bins.items()}
    {'a': 2.0, 'b': 1.0}
    """
    c = check_confidences(confidences)
    h = check_hits(hits, n_rows=len(c))
    codes, names = check_domains(domains, n_rows=len(c), needed_by="bins_by_domain")
    weight = check_sample_weight(sample_weight, n_rows=len(c))
    check_domain_weights(weight, codes, names)
    if strategy == "uniform":
        found = DomainBins.from_confidences(c, h, codes, len(names), n_bins=n_bins, weight=weight)
        return {name: found.of_domain(k) for k, name in enumerate(names.tolist())}
    # Each domain has the edges of its own quantiles.
    return {
        name: BinSums.from_confidences(
            c[rows], h[rows], n_bins=n_bins, strategy=strategy,
            sample_weight=None if weight is None else weight[rows],
        )
        for name, rows in domain_rows(codes, names)
    }  # fmt: skip


def multi_domain_calibration_error(
    probabilities: ArrayLike,
    labels: ArrayLike,
    domains: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    norm: Norm = "l1",
    sample_weight: ArrayLike | None = None,
) -> float:
    """Multi-domain ECE (MDECE): mean over the domains of the ECE of each domain.

    Parameters
    ----------
    probabilities : array, shape (n, n_classes)
    labels, domains : arrays, shape (n,)
    n_bins, strategy, norm, sample_weight
        See :func:`expected_calibration_error`.

    Examples
    --------
    >>> p = [[0.75, 0.25]] * 4
    >>> multi_domain_calibration_error(p, [0, 1, 0, 0], ["a", "a", "b", "b"])
    0.25
    """
    bins = _domain_bins(probabilities, labels, domains, n_bins, strategy, sample_weight)
    return float(np.mean([sums.calibration_error(norm) for sums in bins]))


def accuracy_prediction_error(
    probabilities: ArrayLike,
    labels: ArrayLike,
    domains: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Mean over the domains of ``|mean confidence - accuracy|`` (MAE in the paper).

    It is the error of the mean confidence as a prediction of the accuracy on an unlabelled domain.

    Examples
    --------
    >>> p = [[0.75, 0.25]] * 4
    >>> accuracy_prediction_error(p, [0, 1, 0, 0], ["a", "a", "b", "b"])
    0.25
    """
    bins = _domain_bins(probabilities, labels, domains, 1, "uniform", sample_weight)
    return float(np.mean([abs(sums.mean_confidence - sums.accuracy) for sums in bins]))


def domain_rows(codes: Array, names: Array) -> list[tuple[Any, Array]]:
    """Name and row numbers of each domain, sorted by name."""
    return list(zip(names.tolist(), rows_of_codes(codes, len(names)), strict=True))


def _check_rows(predictions: ArrayLike, outcomes: ArrayLike) -> tuple[Array, Array]:
    """Check two arrays with the same number of rows."""
    p, o = np.asarray(predictions), np.asarray(outcomes)
    if p.ndim == 0 or o.ndim == 0:
        raise InputError(
            "predictions and outcomes must be arrays with one entry for each row, got "
            f"{predictions!r} and {outcomes!r}."
        )
    if len(p) == 0:
        raise InputError("predictions is empty; pass at least one row.")
    if len(o) != len(p):
        raise InputError(
            f"outcomes has {len(o)} rows, but predictions has {len(p)}; pass one for each row."
        )
    return p, o


def _domain_bins(
    probabilities: ArrayLike,
    labels: ArrayLike,
    domains: ArrayLike,
    n_bins: int,
    strategy: Strategy,
    sample_weight: ArrayLike | None,
) -> list[BinSums]:
    confidences, hits = confidence_and_hit(*check_predictions(probabilities, labels))
    bins = bins_by_domain(
        confidences, hits, domains, n_bins=n_bins, strategy=strategy, sample_weight=sample_weight
    )
    return list(bins.values())


def _jackknife(metric: Callable[[Any, Any], float], p: Array, o: Array) -> float:
    """Jackknife standard error: the metric without each part of the rows."""
    n = len(p)
    parts = min(n, _JACKKNIFE_PARTS)
    if parts < 2:
        return float("nan")
    # Parts are drawn at random, because rows may be ordered periodically.
    part = np.random.default_rng(n).permutation(n) % parts
    values: FloatArray = np.array([metric(p[part != k], o[part != k]) for k in range(parts)])
    return float(np.sqrt((parts - 1) / parts * np.square(values - values.mean()).sum()))
