"""Comparisons that allow for chance: of many domains at once, and of two methods over domains."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import norm as normal, t as student

from domaincal._typing import Array, ArrayLike, FloatArray
from domaincal._validation import check_number, real_array
from domaincal.errors import InputError
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
    >>> table = dc.compare_domains(dc.metrics.bins_by_domain(c, hits, ["a"] * 400 + ["b"] * 400))
    >>> table[["domain", "ece", "p_calibrated"]].round(3).values.tolist()
    [['a', 0.25, 0.0], ['b', 0.0, 1.0]]
    """
    check_number(level, "level", low=0.0, high=1.0)
    if not (isinstance(bins, Mapping) and all(isinstance(b, BinSums) for b in bins.values())):
        raise InputError(
            f"bins must map domains to BinSums, got {type(bins).__name__}; make them with "
            "domaincal.metrics.bins_by_domain(confidences, hits, domains)."
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


#: Scores that are fractions, and are told in %.
_FRACTIONS = ("ece", "floor", "excess", "gap")


class MethodComparison(NamedTuple):
    """Two methods on the same domains.

    Attributes
    ----------
    method, against : names of the first and of the second method
    score : name of the score, of which low values are good
    level : coverage of the interval
    first, second : mean score over the domains
    difference : first less second: negative where the first has the lower score
    low, high : Student's interval of the difference, over domains; NaN for a single one
    p_value : of no difference (paired t test); NaN for a single domain
    n_domains : int
    wins, losses : domains on which the first is lower, and higher
    """

    method: str
    against: str
    score: str
    level: float
    first: float
    second: float
    difference: float
    low: float
    high: float
    p_value: float
    n_domains: int
    wins: int
    losses: int

    @property
    def is_clear(self) -> bool:
        """Whether the interval of the difference leaves out 0."""
        return self.n_domains > 1 and not self.low <= 0.0 <= self.high

    def sentence(self) -> str:
        """The result in words, without a full stop.

        Examples
        --------
        >>> import pandas as pd, domaincal as dc
        >>> domains, ece = ["a", "b", "c"] * 2, [0.01, 0.02, 0.04, 0.05, 0.05, 0.07]
        >>> table = pd.DataFrame({"method": ["B"] * 3 + ["A"] * 3, "domain": domains, "ece": ece})
        >>> print(dc.compare_methods(table, "B", "A").sentence())
        B is better than A: ECE 2.33% against 5.67% (difference -3.33 points, 95% interval -4.77 to
        -1.90), lower in 3 of 3 domains
        """
        means = f"{self._label} {self._number(self.first)} against {self._number(self.second)}"
        if self.n_domains == 1:
            return f"{self.method} against {self.against} in the only domain: {means}"
        scale, unit = (100.0, " points") if self.score in _FRACTIONS else (1.0, "")
        difference, low, high = (scale * x for x in (self.difference, self.low, self.high))
        return (
            f"{self.method} {self._verdict()}: {means} (difference {difference:+.2f}{unit}, "
            f"{100 * self.level:g}% interval {low:+.2f} to {high:+.2f}), lower in {self.wins} of "
            f"{self.n_domains} domains"
        )

    @property
    def _label(self) -> str:
        return self.score.upper() if self.score in ("ece", "nll") else self.score

    def _number(self, value: float) -> str:
        return f"{100 * value:.2f}%" if self.score in _FRACTIONS else f"{value:.3f}"

    def _verdict(self) -> str:
        """Which method is better; where most domains say otherwise, that too."""
        if self.is_clear and self.difference > 0:
            most = self.wins > self.losses
            return f"is worse than {self.against}{' on average, but lower in most' if most else ''}"
        verdict = "is better than" if self.is_clear else "does not differ clearly from"
        most = self.losses > self.wins
        return f"{verdict} {self.against}{' on average, but higher in most' if most else ''}"


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
        method=first, against=second, score=score, level=level,
        first=float(a_values.mean()), second=float(b_values.mean()), difference=mean,
        low=mean - half, high=mean + half, p_value=p_value, n_domains=n,
        wins=int((d < 0).sum()), losses=int((d > 0).sum()),
    )  # fmt: skip


def compare_last(table: pd.DataFrame, *, score: str = "ece") -> list[tuple[str, MethodComparison]]:
    """The last method of a results table against each other one, for InD and for OOD domains.

    Parameters
    ----------
    table : DataFrame
        With a column ``kind``, as from :func:`evaluate_split`.
    score : str, default "ece"

    Returns
    -------
    list of pairs of a kind, "InD" or "OOD", and a MethodComparison
    """
    *others, last = table["method"].unique().tolist()
    return [
        (kind, compare_methods(table[table["kind"] == kind], last, other, score=score))
        for kind in table["kind"].unique().tolist()
        for other in others
    ]


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
