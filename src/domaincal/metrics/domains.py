"""Metrics domain by domain, and over domains."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import t as student

from domaincal._typing import Array, ArrayLike, FloatArray
from domaincal._validation import (
    check_confidences,
    check_domains,
    check_hits,
    check_number,
    check_sample_weight,
    real_array,
)
from domaincal.errors import InputError
from domaincal.metrics.predictions import check_predictions, confidence_and_hit
from domaincal.statistics import BinSums
from domaincal.statistics.bins import Norm, Strategy

# Parts of a domain that the jackknife leaves out in turn.
_JACKKNIFE_PARTS = 20


class DomainMean(NamedTuple):
    """Mean over domains, its standard error and the number of domains."""

    mean: float
    standard_error: float
    n_domains: int


def mean_over_domains(values: ArrayLike) -> DomainMean:
    """Mean and standard error ``sd / sqrt(K)`` of one value for each of K domains.

    NaN values (domains without one) are left out.

    Examples
    --------
    >>> mean_over_domains([1.0, 3.0])
    DomainMean(mean=2.0, standard_error=1.0, n_domains=2)
    """
    v = real_array(values, "values").astype(np.float64)
    known = v[~np.isnan(v)] if v.ndim == 1 else v
    if v.ndim != 1 or len(known) == 0 or np.isinf(known).any():
        raise InputError(
            f"values must hold one finite number for each of at least one domain, got {values!r}."
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
    """Any metric on each domain, with its standard error and interval.

    Parameters
    ----------
    metric : callable
        From the predictions and outcomes of some rows to a number, e.g.
        :func:`expected_calibration_error`; give it options with :func:`functools.partial`.
    predictions, outcomes : arrays with the same number of rows
        What the metric takes: probabilities and labels, or confidences and hits.
    domains : array, shape (n,)
    level : float, default 0.95
        Coverage of the interval.

    Returns
    -------
    DataFrame
        One row for each domain, sorted: domain, n, value, standard_error, low, high. The standard
        error is a jackknife over twenty parts of the domain, dealt at random with a fixed seed; the
        interval is Student's around the value. Both are NaN for a single row. For ECE they
        describe the binned statistic, floor included, and are too wide near the floor:
        :func:`compare_domains` has proper ones.

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
        raise InputError(f"metric must be a function, got {metric!r}; e.g. domaincal.brier_score.")
    p, o = np.asarray(predictions), np.asarray(outcomes)
    if p.ndim == 0 or o.ndim == 0:
        raise InputError(
            f"predictions and outcomes must have one entry for each row, got {predictions!r} and "
            f"{outcomes!r}."
        )
    if len(p) == 0:
        raise InputError("predictions is empty; pass at least one row.")
    codes, names = check_domains(domains, n_rows=len(p), needed_by="per_domain")
    if len(o) != len(p):
        raise InputError(f"outcomes has {len(o)} rows, but predictions has {len(p)}.")
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
    """:class:`BinSums` of each domain, by its name.

    A weight counts as that many repetitions of the row.

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
    """Multi-domain ECE (MDECE): the mean over domains of the ECE of each.

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
    """Mean over domains of ``|mean confidence - accuracy|`` (the paper's MAE).

    How far off is the accuracy that the confidence promises, on a domain without labels?

    Examples
    --------
    >>> p = [[0.75, 0.25]] * 4
    >>> accuracy_prediction_error(p, [0, 1, 0, 0], ["a", "a", "b", "b"])
    0.25
    """
    bins = _domain_bins(probabilities, labels, domains, 1, "uniform", sample_weight)
    return float(np.mean([abs(sums.mean_confidence - sums.accuracy) for sums in bins]))


def domain_rows(codes: Array, names: Array) -> list[tuple[Any, Array]]:
    """Name and row numbers of each domain, in the order of the names."""
    order = np.argsort(codes, kind="stable")
    parts = np.split(order, np.cumsum(np.bincount(codes, minlength=len(names)))[:-1])
    return list(zip(names.tolist(), parts, strict=True))


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
    """Standard error from leaving out parts of the rows in turn."""
    n = len(p)
    parts = min(n, _JACKKNIFE_PARTS)
    if parts < 2:
        return float("nan")
    # Dealt at random, with a seed of its own: rows may have a period.
    part = np.random.default_rng(n).permutation(n) % parts
    values: FloatArray = np.array([metric(p[part != k], o[part != k]) for k in range(parts)])
    return float(np.sqrt((parts - 1) / parts * np.square(values - values.mean()).sum()))
