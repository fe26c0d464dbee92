"""Comparisons of domains and of methods, with confidence intervals and tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import norm as normal, t as student

from domaincal._notebook_view import DrawnRow, draw_rows, notebook_view
from domaincal._typing import Array, ArrayLike, FloatArray
from domaincal._validation import check_number, check_real_array
from domaincal.errors import InputError
from domaincal.statistics import BinSums
from domaincal.statistics.paired_interval import paired_interval


def compare_domains(bins: Mapping[Any, BinSums], *, level: float = 0.95) -> pd.DataFrame:
    """Test which domains are miscalibrated, and which differ from the others.

    Among many domains, some look bad by chance. The intervals of all domains therefore hold
    simultaneously with probability ``level`` (Sidak), and p-values are adjusted for the number of
    domains (Holm): the probability of any false p-value below 0.05 is at most 5%. This holds
    separately for the calibration errors and for the differences.

    Parameters
    ----------
    bins : mapping from domains to BinSums
        From :func:`bins_by_domain`, or computed at the domains.
    level : float, default 0.95

    Returns
    -------
    DataFrame
        One row for each domain: domain, n, accuracy, mean_confidence, ece, floor; corrected, low
        and high (ECE without its bias, and its interval, see :class:`ErrorInterval`); p_calibrated
        (adjusted p-value of perfect calibration); gap (mean confidence minus accuracy; positive if
        overconfident); difference (gap minus the gap of all other rows), difference_low,
        difference_high; p_same (adjusted p-value of no difference).

    Examples
    --------
    >>> import domaincal as dc
    >>> c, hits = [0.75] * 800, [True, False] * 200 + [True, True, True, False] * 100
    >>> table = dc.compare_domains(dc.metrics.bins_by_domain(c, hits, ["a"] * 400 + ["b"] * 400))
    >>> table[["domain", "ece", "p_calibrated"]].round(3).values.tolist()
    [['a', 0.25, 0.0], ['b', 0.0, 1.0]]
    """
    check_number(level, "level", low=0.0, high=1.0)
    _check_domain_bins(bins)
    each = level ** (1.0 / len(bins))
    intervals = [sums.interval(each) for sums in bins.values()]
    gaps = [_gap(sums) for sums in bins.values()]
    half = normal.ppf(0.5 + each / 2)
    change, variance = _gaps_to_others(gaps)
    spread = np.sqrt(variance)
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


def _check_domain_bins(bins: Mapping[Any, BinSums]) -> None:
    if not (isinstance(bins, Mapping) and all(isinstance(b, BinSums) for b in bins.values())):
        raise InputError(
            f"bins must map domains to BinSums, got {type(bins).__name__}; make them with "
            "domaincal.metrics.bins_by_domain(confidences, hits, domains)."
        )
    if not bins:
        raise InputError("bins is empty; pass at least one domain.")
    empty = [name for name, sums in bins.items() if not sums.n]
    if empty:
        raise InputError(f"bins has no rows in domain {empty[0]!r}; leave it out.")


#: Scores that sentences give in %.
_FRACTIONS = ("ece", "floor", "excess", "gap")


class MethodComparison(NamedTuple):
    """Comparison of two methods on the same domains.

    Attributes
    ----------
    method, against : str
        Names of the first and of the second method.
    score : str
        Name of the score; lower is better.
    level : float
        Coverage of the interval.
    first, second : float
        Mean score over the domains.
    difference : float
        First minus second; negative if the first method is better.
    low, high : float
        Student's interval of the difference over the domains; NaN for a single domain.
    p_value : float
        Of the paired t test of no difference; NaN for a single domain.
    n_domains : int
    wins, losses : int
        Number of domains in which the first method has the lower, and the higher, score.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"method": list("AABB"), "domain": [1, 2] * 2, "ece": [4, 5, 1, 2]})
    >>> found = compare_methods(table, "B", "A")
    >>> found.difference, found.wins, found.is_clear
    (-3.0, 2, True)
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
        """Whether the interval of the difference excludes 0."""
        return self.n_domains > 1 and not self.low <= 0.0 <= self.high

    def sentence(self, *others: MethodComparison) -> str:
        """The result as a sentence, without a full stop.

        ``others`` are comparisons of the same methods by other scores, which the sentence adds. It
        says "but" before them if one of them is clear and this one is not, or says the opposite.

        Examples
        --------
        >>> import pandas as pd, domaincal as dc
        >>> domains, ece = ["a", "b", "c"] * 2, [0.01, 0.02, 0.04, 0.05, 0.05, 0.07]
        >>> table = pd.DataFrame({"method": ["B"] * 3 + ["A"] * 3, "domain": domains, "ece": ece})
        >>> print(dc.compare_methods(table, "B", "A").sentence())
        B is better than A: ECE 2.33% against 5.67% (difference -3.33 points, 95% interval -4.77 to
        -1.90), lower in 3 of 3 domains
        """
        if self.n_domains == 1:
            means = ", ".join(c._means for c in (self, *others))
            return f"{self.method} against {self.against} in the only domain: {means}"
        text = (
            f"{self.method} {self._verdict()}: {self._means} (difference {self._change}, "
            f"{100 * self.level:g}% interval {self._interval}), lower in {self.wins} of "
            f"{self.n_domains} domains"
        )
        if others:
            contradicted = any(
                c.is_clear and not (self.is_clear and (c.difference < 0) == (self.difference < 0))
                for c in others
            )
            more = " and ".join(f"{c._means} ({c._change}, {c._interval})" for c in others)
            text += f", {'but' if contradicted else 'with'} {more}"
        return text

    def _repr_html_(self) -> str:
        """HTML for notebooks: the result, and the interval of the difference."""
        facts = {"mean over domains": self._means, "difference": self._change}
        drawing = ""
        if self.n_domains > 1:
            facts["interval"] = f"{100 * self.level:g}%: {self._interval}"
            facts["p-value"] = f"{self.p_value:.2g}"
            row = DrawnRow("difference", (self.low, self.high), dots=(self.difference,))
            span = (min(self.low, 0.0), max(self.high, 0.0))
            caption = "left of the dashed line, the first method is better"
            drawing = draw_rows([row], span, caption, reference=0.0)
            facts["result"] = f"{self.method} {self._verdict()}"
        facts["domains"] = f"{self.n_domains}; lower in {self.wins}, higher in {self.losses}"
        return notebook_view(f"{self.method} against {self.against}", facts, drawing)

    @property
    def _means(self) -> str:
        return f"{self._label} {self._number(self.first)} against {self._number(self.second)}"

    @property
    def _change(self) -> str:
        unit = " points" if self.score in _FRACTIONS else ""
        return f"{self._signed(self.difference)}{unit}"

    @property
    def _interval(self) -> str:
        return f"{self._signed(self.low)} to {self._signed(self.high)}"

    def _signed(self, value: float) -> str:
        return f"{100 * value:+.2f}" if self.score in _FRACTIONS else f"{value:+.3f}"

    @property
    def _label(self) -> str:
        return self.score.upper() if self.score in ("ece", "nll") else self.score

    def _number(self, value: float) -> str:
        return f"{100 * value:.2f}%" if self.score in _FRACTIONS else f"{value:.3f}"

    def _verdict(self) -> str:
        """Which method is better on average; whether more domains say the opposite."""
        if not self.is_clear:
            return f"does not differ clearly from {self.against}"
        better = self.difference < 0
        verdict = f"is {'better' if better else 'worse'} than {self.against}"
        if (self.losses > self.wins) == better and self.losses != self.wins:
            number, opposite = (self.losses, "higher") if better else (self.wins, "lower")
            score = self._label
            return f"{verdict} on average, but its {score} is {opposite} in {number} domains"
        return verdict


def compare_methods(
    table: pd.DataFrame, first: str, second: str, *, score: str = "ece", level: float = 0.95
) -> MethodComparison:
    """Paired comparison of two methods over the domains of a results table.

    The interval generalises to domains like these. It treats domains as independent, which is only
    approximately true of corruptions of the same images.

    Parameters
    ----------
    table : DataFrame
        From :func:`evaluate` or :func:`score_table`.
    first, second : str
        Names in the column ``method``.
    score : str, default "ece"
        Column to compare; lower is better.
    level : float, default 0.95
        Coverage of the interval.

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
    if len(a_values) == 0:
        raise InputError(
            f"table has no domain with a {score!r} of both {first!r} and {second!r}; pass a table "
            "in which both methods are evaluated on the same domains."
        )
    d = a_values - b_values
    low = high = p_value = float("nan")
    if len(d) > 1:
        low, high = paired_interval(d, confidence=level)
        p_value = _p_value(d)
    return MethodComparison(
        method=first, against=second, score=score, level=level,
        first=float(a_values.mean()), second=float(b_values.mean()),
        difference=float(d.mean()), low=low, high=high, p_value=p_value, n_domains=len(d),
        wins=int((d < 0).sum()), losses=int((d > 0).sum()),
    )  # fmt: skip


def _p_value(differences: FloatArray) -> float:
    """Of the paired t test of a mean difference of 0."""
    n = len(differences)
    mean = float(differences.mean())
    error = float(differences.std(ddof=1) / np.sqrt(n))
    if error == 0.0:
        return 1.0 if mean == 0.0 else 0.0
    return float(2.0 * student.sf(abs(mean) / error, n - 1))


def compare_last(table: pd.DataFrame, *, score: str = "ece") -> list[tuple[str, MethodComparison]]:
    """Compare the last method of a results table with each other method, for InD and OOD domains.

    Parameters
    ----------
    table : DataFrame
        With a column ``kind``, as from :func:`evaluate_split`.
    score : str, default "ece"
        Column to compare; lower is better.

    Returns
    -------
    list of (kind, MethodComparison)
        The kind is ``"InD"`` or ``"OOD"``.

    Examples
    --------
    >>> import domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=6, random_state=0)
    >>> methods = {"TS": dc.TemperatureScaling(), "MD-TS": dc.MultiDomainTemperatureScaling()}
    >>> table = dc.evaluate_split(methods, data, ood="*-[45]")
    >>> for kind, found in dc.metrics.compare_last(table):
    ...     print(kind, found.method, found.against, found.n_domains)
    InD MD-TS TS 4
    OOD MD-TS TS 2
    """
    if not isinstance(table, pd.DataFrame) or not {"method", "kind"} <= set(table.columns):
        raise InputError(
            "table must be a results table with the columns method and kind, got "
            f"{type(table).__name__}; make it with domaincal.evaluate_split(...)."
        )
    *others, last = table["method"].unique().tolist()
    return [
        (kind, compare_methods(table[table["kind"] == kind], last, other, score=score))
        for kind in table["kind"].unique().tolist()
        for other in others
    ]


def adjust_p_values(p_values: ArrayLike) -> FloatArray:
    """Holm's adjustment: the smallest of K p-values times K, the next times K - 1, and so on.

    Adjusted p-values keep the order of the p-values, and are at most 1.
    """
    p = check_real_array(p_values, "p_values").astype(np.float64)
    order = np.argsort(p)
    steps = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1.0)
    adjusted = np.empty(len(p))
    adjusted[order] = steps
    return adjusted


class _Gap(NamedTuple):
    """Mean confidence minus accuracy of some rows, and its variance given the confidences."""

    n: float
    value: float
    variance: float


def _gap(sums: BinSums) -> _Gap:
    # Half a hit and half a miss are added, so that a bin of hits alone has a positive variance.
    accuracy = (sums.hits + 0.5) / (sums.weight + 1.0)
    variance = float(sums.weight @ (accuracy * (1.0 - accuracy)) / sums.n**2)
    return _Gap(sums.n, sums.mean_confidence - sums.accuracy, variance)


def _gaps_to_others(gaps: list[_Gap]) -> tuple[FloatArray, FloatArray]:
    """Gap of each domain minus the gap of all other rows, and its variance.

    NaN for a single domain.
    """
    n, value, variance = (np.array(column) for column in zip(*gaps, strict=True))
    if len(n) == 1:
        return np.full(1, np.nan), np.full(1, np.nan)
    others = _sums_of_others(n)
    mean = _sums_of_others(n * value) / others
    return value - mean, variance + _sums_of_others(n**2 * variance) / others**2


def _sums_of_others(values: FloatArray) -> FloatArray:
    """Sum of all values except each, without the rounding of a difference from the total."""
    before = np.concatenate([[0.0], np.cumsum(values)[:-1]])
    after = np.concatenate([np.cumsum(values[::-1])[::-1][1:], [0.0]])
    return np.asarray(before + after)


def _scores_of(table: pd.DataFrame, method: str, score: str, argument: str) -> pd.Series[float]:
    """Scores of a method, indexed by domain."""
    if not isinstance(table, pd.DataFrame) or not {"method", "domain"} <= set(table.columns):
        raise InputError(
            f"table must be a results table with the columns method and domain, got "
            f"{type(table).__name__}; make it with domaincal.evaluate(...)."
        )
    numbers = table.drop(columns=["method", "domain"]).select_dtypes("number").columns
    if score not in numbers:
        raise InputError(
            f"score must be a numeric column of the table, got {score!r}; choose from "
            f"{', '.join(map(str, numbers))}."
        )
    rows = table[table["method"] == method]
    if len(rows) == 0:
        names: Array = table["method"].unique()
        raise InputError(
            f"{argument}={method!r} is not a method of the table; choose from "
            f"{', '.join(map(repr, names.tolist()))}."
        )
    if rows["domain"].duplicated().any():
        raise InputError(
            f"table has {method!r} more than once on domain "
            f"{rows['domain'][rows['domain'].duplicated()].tolist()[0]!r}; select the rows of one "
            "experiment."
        )
    return rows.set_index("domain")[score]
