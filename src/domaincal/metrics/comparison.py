"""Comparisons that allow for chance: of many domains at once, and of two methods over domains."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import norm as normal, t as student

from domaincal._errors import InputError
from domaincal._typing import Array, ArrayLike, FloatArray
from domaincal._validation import check_number, real_array
from domaincal.statistics import BinSums


def compare_domains(bins: Mapping[Any, BinSums], *, level: float = 0.95) -> pd.DataFrame:
    """Which domains are miscalibrated, and which differ from the others, beyond chance.

    Who looks at many domains finds bad ones by chance alone. Here the intervals of all domains hold
    together with probability ``level`` (Sidak), and p-values are adjusted for the number of domains
    (Holm): the chance of a single false one below 0.05 is at most 5%. That is so for the errors,
    and for the differences, each on its own.

    Parameters
    ----------
    bins : mapping from domains to BinSums
        From :func:`bins_by_domain`, or sent by the domains themselves.
    level : float, default 0.95

    Returns
    -------
    DataFrame
        One row for each domain: domain, n, accuracy, mean_confidence, ece, floor; corrected, low
        and high (ECE without its bias, with interval, see :class:`ErrorInterval`); p_calibrated
        (adjusted p-value of perfect calibration); gap (mean confidence less accuracy: positive is
        overconfident), difference (gap less that of all other rows together), difference_low,
        difference_high, p_same (adjusted p-value of no difference).

    Examples
    --------
    >>> import domaincal as dc
    >>> c, hits = [0.75] * 800, [True, False] * 200 + [True, True, True, False] * 100
    >>> table = dc.compare_domains(dc.bins_by_domain(c, hits, ["a"] * 400 + ["b"] * 400))
    >>> table[["domain", "ece", "p_calibrated"]].round(3).values.tolist()
    [['a', 0.25, 0.0], ['b', 0.0, 1.0]]
    """
    check_number(level, "level", low=0.0, high=1.0)
    if not (isinstance(bins, Mapping) and all(isinstance(b, BinSums) for b in bins.values())):
        raise InputError(
            f"bins must map domains to BinSums, got {type(bins).__name__}; make them with "
            "domaincal.bins_by_domain(confidences, hits, domains)."
        )
    empty = next((name for name, sums in bins.items() if not sums.n), None)
    if not bins or empty is not None:
        raise InputError(
            "bins is empty; pass at least one domain."
            if not bins
            else f"bins has no rows in domain {empty!r}; leave it out."
        )
    each = level ** (1.0 / len(bins))
    intervals = [sums.interval(each) for sums in bins.values()]
    gaps = [_gap(sums) for sums in bins.values()]
    differences = [_gap_to_others(gaps, k) for k in range(len(gaps))]
    half = normal.ppf(0.5 + each / 2)
    change = np.array([d.value for d in differences])
    spread = np.sqrt([d.variance for d in differences])
    with np.errstate(invalid="ignore", divide="ignore"):
        p_same = 2.0 * normal.sf(np.abs(change) / spread)
    return pd.DataFrame({
        "domain": list(bins),
        "n": [sums.n for sums in bins.values()],
        "accuracy": [sums.accuracy for sums in bins.values()],
        "mean_confidence": [sums.mean_confidence for sums in bins.values()],
        "ece": [i.value for i in intervals],
        "floor": [sums.floor() for sums in bins.values()],
        "corrected": [i.corrected for i in intervals],
        "low": [i.low for i in intervals],
        "high": [i.high for i in intervals],
        "p_calibrated": adjust_p_values([i.p_value for i in intervals]),
        "gap": [g.value for g in gaps],
        "difference": change,
        "difference_low": change - half * spread,
        "difference_high": change + half * spread,
        "p_same": adjust_p_values(p_same),
    })  # fmt: skip


class MethodComparison(NamedTuple):
    """Two methods on the same domains.

    Attributes
    ----------
    first, second : mean score over the domains
    difference : first less second: negative where the first has the lower score
    low, high : Student's interval of the difference, over domains; NaN for a single one
    p_value : of no difference (paired t test); NaN for a single domain
    n_domains : int
    wins, losses : domains on which the first is lower, and higher
    """

    first: float
    second: float
    difference: float
    low: float
    high: float
    p_value: float
    n_domains: int
    wins: int
    losses: int


def compare_methods(
    table: pd.DataFrame, first: str, second: str, *, score: str = "ece", level: float = 0.95
) -> MethodComparison:
    """Paired comparison of two methods of a results table, domain by domain.

    The interval is for domains like these: it treats them as independent, which corruptions of the
    same images are not quite.

    Parameters
    ----------
    table : DataFrame
        From :func:`evaluate` or :func:`score_table`.
    first, second : str
        Names in its column ``method``.
    score : str, default "ece"
        Column to compare; low is good.
    level : float, default 0.95

    Examples
    --------
    >>> import domaincal as dc
    >>> data, _ = dc.make_multi_domain(random_state=0)
    >>> train, test = dc.split_halves(data)
    >>> methods = {"TS": dc.TemperatureScaling(), "DTS": dc.DomainTemperatureScaling()}
    >>> found = dc.compare_methods(dc.evaluate(methods, train=train, test=test), "DTS", "TS")
    >>> found.n_domains, found.high < 0
    (20, True)
    """
    check_number(level, "level", low=0.0, high=1.0)
    scores = [_scores_of(table, method, score, name)
              for method, name in ((first, "first"), (second, "second"))]  # fmt: skip
    a, b = scores[0].align(scores[1], join="inner")
    known = (a.notna() & b.notna()).to_numpy()
    a_values, b_values = a.to_numpy(np.float64)[known], b.to_numpy(np.float64)[known]
    n = len(a_values)
    if n == 0:
        raise InputError(f"table has no domain with a {score!r} of both {first!r} and {second!r}.")
    d = a_values - b_values
    mean = float(d.mean())
    error = float(d.std(ddof=1) / np.sqrt(n)) if n > 1 else float("nan")
    half = error * float(student.ppf(0.5 + level / 2, n - 1)) if n > 1 else float("nan")
    if error == 0.0:
        p_value = 1.0 if mean == 0.0 else 0.0
    else:
        p_value = float(2.0 * student.sf(abs(mean) / error, n - 1)) if n > 1 else float("nan")
    return MethodComparison(
        first=float(a_values.mean()), second=float(b_values.mean()), difference=mean,
        low=mean - half, high=mean + half, p_value=p_value, n_domains=n,
        wins=int((d < 0).sum()), losses=int((d > 0).sum()),
    )  # fmt: skip


def adjust_p_values(p_values: ArrayLike) -> FloatArray:
    """Holm's adjustment: the smallest of K times K, the next times K - 1, never falling."""
    p = real_array(p_values, "p_values").astype(np.float64)
    order = np.argsort(p)
    steps = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1.0)
    adjusted = np.empty(len(p))
    adjusted[order] = steps
    return adjusted


class _Gap(NamedTuple):
    """Mean confidence less accuracy of some rows, and its variance given the confidences."""

    n: float
    value: float
    variance: float


def _gap(sums: BinSums) -> _Gap:
    # Half a hit and half a miss more: a bin of hits alone does not know its accuracy exactly.
    accuracy = (sums.hits + 0.5) / (sums.weight + 1.0)
    variance = float(sums.weight @ (accuracy * (1.0 - accuracy)) / sums.n**2)
    return _Gap(sums.n, sums.mean_confidence - sums.accuracy, variance)


def _gap_to_others(gaps: list[_Gap], k: int) -> _Gap:
    """Difference of one gap and that of all other rows; NaN for a single domain."""
    others = [gap for j, gap in enumerate(gaps) if j != k]
    n = sum(gap.n for gap in others)
    if n == 0:
        return _Gap(gaps[k].n, float("nan"), float("nan"))
    value = sum(gap.n * gap.value for gap in others) / n
    variance = sum(gap.n**2 * gap.variance for gap in others) / n**2
    return _Gap(gaps[k].n, gaps[k].value - value, gaps[k].variance + variance)


def _scores_of(table: pd.DataFrame, method: str, score: str, argument: str) -> "pd.Series[float]":
    """Scores of a method by domain."""
    if not isinstance(table, pd.DataFrame) or not {"method", "domain"} <= set(table.columns):
        raise InputError(
            f"table must be a results table with the columns method and domain, got "
            f"{type(table).__name__}; make it with domaincal.evaluate(...)."
        )
    numbers = table.drop(columns=["method", "domain"]).select_dtypes("number").columns
    if score not in numbers:
        raise InputError(
            f"score must be a column of numbers of the table, got {score!r}; it has "
            f"{', '.join(map(str, numbers))}."
        )
    rows = table[table["method"] == method]
    if len(rows) == 0:
        names: Array = table["method"].unique()
        raise InputError(
            f"{argument}={method!r} is no method of the table, which has "
            f"{', '.join(map(repr, names.tolist()))}."
        )
    if rows["domain"].duplicated().any():
        raise InputError(
            f"table has {method!r} more than once on domain "
            f"{rows['domain'][rows['domain'].duplicated()].tolist()[0]!r}; select one experiment."
        )
    return rows.set_index("domain")[score]
