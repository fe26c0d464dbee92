"""Risk-coverage curves: the error rate of the rows that are kept if unsure rows are left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import isnan, nan
from typing import Any

import numpy as np
import pandas as pd

from domaincal._typing import Array, ArrayLike, FloatArray, IntArray
from domaincal._validation import check_confidences, check_domains, check_hits, check_number
from domaincal.errors import InputError
from domaincal.metrics.domains import domain_rows
from domaincal.statistics.binomial import accuracy_limits, binomial_cdf

#: Name of the curve of all rows.
ALL_ROWS = "all"


@dataclass(frozen=True, eq=False)
class RiskCurve:
    """Risk of the rows with a confidence of at least t, for every useful threshold t.

    Rows of equal confidence are kept or left out together, so that there is one entry for each
    different confidence.

    Attributes
    ----------
    thresholds : array, shape (m,)
        Different confidences, highest first.
    kept, hits : arrays of int, shape (m,)
        Number of rows with a confidence of at least the threshold, and of hits among them.

    Examples
    --------
    >>> import domaincal as dc
    >>> found = dc.risk_coverage([0.9, 0.8, 0.8, 0.6], [True, True, False, False])
    >>> curve = found.curves["all"]
    >>> curve.thresholds.tolist(), curve.coverage.tolist(), curve.risk.round(2).tolist()
    ([0.9, 0.8, 0.6], [0.25, 0.75, 1.0], [0.0, 0.33, 0.5])
    """

    thresholds: FloatArray
    kept: IntArray
    hits: IntArray

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.kept[-1])

    @property
    def coverage(self) -> FloatArray:
        """Share of the rows that are kept."""
        return np.asarray(self.kept / self.n)

    @property
    def accuracy(self) -> FloatArray:
        """Share of hits among the rows that are kept."""
        return np.asarray(self.hits / self.kept)

    @property
    def risk(self) -> FloatArray:
        """Error rate among the rows that are kept, ``1 - accuracy``."""
        return np.asarray((self.kept - self.hits) / self.kept)

    @property
    def area(self) -> float:
        """Area under the curve (AURC): the mean of ``risk(c_i)`` over the rows i.

        ``risk(c_i)`` is the error rate among the rows whose confidence is at least that of row i.
        Without ties this is the mean risk of the 1, 2, ..., n most confident rows. Equal
        confidences for all rows give the error rate, and so does a random order on average.
        """
        return float(self.risk @ np.diff(self.kept, prepend=0) / self.n)

    @property
    def best_area(self) -> float:
        """Smallest area with the same number of hits: all hits before all errors, without ties."""
        hits = int(self.hits[-1])
        kept = np.arange(hits + 1, self.n + 1)
        return float(np.sum((kept - hits) / kept) / self.n)


@dataclass(frozen=True, eq=False, repr=False)
class RiskCoverage:
    """Result of :func:`risk_coverage`.

    Attributes
    ----------
    curves : dict from domains to RiskCurve
        Sorted by domain; the last one, ``"all"``, has the rows of all domains.

    Examples
    --------
    >>> import domaincal as dc
    >>> found = dc.risk_coverage([0.9, 0.8, 0.6], [True, True, False], ["a", "a", "b"])
    >>> found
    RiskCoverage(3 rows, 2 domains)
    >>> found.at(0.7)[["domain", "kept", "accuracy"]].values.tolist()
    [['a', 2, 1.0], ['b', 0, nan], ['all', 2, 1.0]]
    """

    curves: Mapping[Any, RiskCurve]

    def __repr__(self) -> str:
        n_domains = len(self.curves) - 1
        return (
            f"RiskCoverage({self.curves[ALL_ROWS].n} rows, "
            f"{n_domains or 'no'} domain{'' if n_domains == 1 else 's'})"
        )

    @property
    def table(self) -> pd.DataFrame:
        """One row for each domain, and one for all rows.

        Columns: domain, n, accuracy, area (see :attr:`RiskCurve.area`), best_area (of the best
        order of these rows), excess_area (their difference: 0 if every hit is more confident than
        every error). The areas depend on the order of the confidences only: a map that raises all
        confidences of a domain keeps its area, but may change that of ``"all"``.
        """
        curves = self.curves.values()
        table = pd.DataFrame({
            "domain": list(self.curves),
            "n": [curve.n for curve in curves],
            "accuracy": [float(curve.accuracy[-1]) for curve in curves],
            "area": [curve.area for curve in curves],
            "best_area": [curve.best_area for curve in curves],
        })  # fmt: skip
        table["excess_area"] = table["area"] - table["best_area"]
        return table

    def at(self, threshold: float, *, level: float = 0.95) -> pd.DataFrame:
        """Coverage and accuracy of every domain at one shared threshold.

        Parameters
        ----------
        threshold : float
            Rows with a confidence of at least this are kept.
        level : float, default 0.95
            Coverage of the interval of the accuracy. The interval is exact (Clopper and Pearson)
            in each domain, for a threshold that was not chosen with these rows.

        Returns
        -------
        DataFrame
            One row for each domain, and one for all rows: domain, n, kept (number of rows),
            coverage (share of rows), accuracy of the kept rows, low, high. Accuracy and interval
            are NaN if no row is kept.

        Examples
        --------
        >>> import domaincal as dc
        >>> found = dc.risk_coverage([0.9, 0.8, 0.6], [True, True, False])
        >>> found.at(0.8)[["kept", "accuracy", "low"]].round(2).values.tolist()
        [[2.0, 1.0, 0.16]]
        """
        if isinstance(threshold, float) and isnan(threshold):
            raise InputError(
                "threshold is NaN, which threshold_for gives where no threshold reaches the "
                "accuracy; ask it for a lower accuracy, or keep no row."
            )
        t = check_number(threshold, "threshold", low=0.0, high=1.0, closed=True, closed_above=True)
        check_number(level, "level", low=0.0, high=1.0)
        table = self._kept_at([t] * len(self.curves), level)
        return table.rename(columns={"accuracy_low": "low", "accuracy_high": "high"})

    def threshold_for(self, accuracy: float = 0.95, *, level: float = 0.95) -> pd.DataFrame:
        """Smallest confidence above which the rows of a domain are as accurate as asked.

        Parameters
        ----------
        accuracy : float, default 0.95
            Accuracy that the kept rows shall have, above 0 and at most 1.
        level : float, default 0.95
            Coverage of the intervals.

        Returns
        -------
        DataFrame
            One row for each domain, and one for all rows:

            - domain, n
            - threshold: the lowest confidence for which the rows of at least this confidence reach
              the accuracy on these rows; NaN if there is none
            - low, high: interval of the threshold, see below
            - kept, coverage: number and share of the rows at ``threshold``; 0 if that is NaN
            - accuracy, accuracy_low, accuracy_high: of these rows, with the exact interval for a
              threshold fixed beforehand
            - coverage_at_high: share of the rows at ``high``; 0 if that is NaN

        Notes
        -----
        Use ``threshold`` to describe these rows, and ``high`` to decide about new ones.

        ``threshold`` is chosen with the rows on which its accuracy is measured. It promises nothing
        for new rows: in simulations, their accuracy was below the target in about half of the data
        sets, and in nearly all if it is just below the target at every confidence. The lower limit
        of the accuracy was above the accuracy of new rows in 2 to 3% of the data sets, as for a
        threshold fixed beforehand (2.5%).

        ``high`` promises that the accuracy of new rows with the confidences of the rows kept there
        is below the target with a probability of at most ``(1 - level) / 2``. A search for the
        lowest threshold whose lower limit reaches the target would look at many limits, and be
        wrong more often: in 23% of the simulated data sets of 10,000 rows whose accuracy is just
        below the target at every confidence (``high``: 1.9%). Therefore thresholds are tested from
        high to low, by the fallback procedure of Wiens (2003). The allowed probability is shared
        equally among the thresholds that keep all rows, 1/2, 1/4, ... of them, down to the fewest
        rows that could pass without an error; a test that passes hands its share on to the next
        lower threshold, and the share is lost where a test fails. ``high`` is the lowest threshold
        that passes; NaN if none does, because there are too few rows or too many errors. A
        threshold of NaN keeps no row. With fewer than 72 rows, nothing can pass at the defaults.
        The simulations are those of ``python -m benchmarks.thresholds`` in the repository.

        ``low`` is the lowest threshold whose upper limit reaches the target. If the accuracy rises
        with the threshold, the threshold of infinitely many rows is between ``low`` and ``high``
        with a probability of at least ``level``; a ``high`` of NaN counts as no upper end.

        All this holds for one domain at a time, not for all of them at once, and for independent
        rows from the same domain. It says nothing about a domain that is not among these, or that
        has changed since: :meth:`at` shows how different the domains are at one threshold.

        Examples
        --------
        >>> import numpy as np, domaincal as dc
        >>> confidences = np.linspace(0.5, 1.0, 1000)
        >>> hits = np.random.default_rng(0).random(1000) < confidences
        >>> found = dc.risk_coverage(confidences, hits).threshold_for(accuracy=0.9)
        >>> found[["low", "threshold", "high", "coverage"]].round(2).values.tolist()
        [[0.7, 0.75, 0.84, 0.5]]
        """
        target = check_number(accuracy, "accuracy", low=0.0, high=1.0, closed_above=True)
        check_number(level, "level", low=0.0, high=1.0)
        tail = 0.5 * (1.0 - level)
        curves = self.curves.values()
        threshold = [_lowest(c, c.accuracy >= target) for c in curves]
        low = [_lowest(c, _upper_limit_reaches(c, target, tail)) for c in curves]
        high = [_safe_threshold(c, target, tail) for c in curves]
        table = self._kept_at(threshold, level)
        table.insert(2, "threshold", threshold)
        table.insert(3, "low", low)
        table.insert(4, "high", high)
        table["coverage_at_high"] = self._kept_at(high, level)["coverage"]
        return table

    def _kept_at(self, thresholds: list[float], level: float) -> pd.DataFrame:
        """Coverage and accuracy of each curve at its own threshold; NaN keeps no row."""
        n = np.array([curve.n for curve in self.curves.values()])
        counts = [_counts(c, t) for c, t in zip(self.curves.values(), thresholds, strict=True)]
        kept, hits = np.array(counts).T
        low, high = accuracy_limits(hits, kept, level)
        return pd.DataFrame({
            "domain": list(self.curves),
            "n": n,
            "kept": kept,
            "coverage": kept / n,
            "accuracy": hits / np.where(kept > 0, kept, np.nan),
            "accuracy_low": low,
            "accuracy_high": high,
        })  # fmt: skip


def risk_coverage(
    confidences: ArrayLike, hits: ArrayLike, domains: ArrayLike | None = None
) -> RiskCoverage:
    """Error rate of the rows that are kept if the least confident ones are left out.

    For each threshold t, the rows with a confidence of at least t are kept. Their share of all rows
    is the coverage, their error rate the risk.

    Parameters
    ----------
    confidences : array, shape (n,)
    hits : array of bool, shape (n,)
        Whether each prediction is correct.
    domains : array, shape (n,), optional
        Without domains, there is one curve, of all rows.

    Returns
    -------
    RiskCoverage
        ``curves`` by domain, a ``table`` of their areas, ``threshold_for(accuracy=0.95)`` and
        ``at(threshold)``. :func:`domaincal.plots.plot_risk_coverage` draws the curves.

    Examples
    --------
    >>> import domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=2, n_classes=3, random_state=0)
    >>> confidences = dc.TemperatureScaling().fit(data).predict_confidence(data)
    >>> hits = data.logits.argmax(axis=1) == data.labels
    >>> found = dc.risk_coverage(confidences, hits, data.domains)
    >>> found.table[["domain", "n", "accuracy", "area", "best_area"]].round(3)
         domain     n  accuracy   area  best_area
    0  domain-0   500     0.730  0.103      0.041
    1  domain-1   500     0.712  0.131      0.046
    2       all  1000     0.721  0.119      0.043
    >>> found.threshold_for(accuracy=0.9)[["domain", "threshold", "coverage", "high"]].round(3)
         domain  threshold  coverage   high
    0  domain-0      0.767     0.550  0.903
    1  domain-1      0.725     0.422  0.881
    2       all      0.751     0.471  0.836
    """
    c = check_confidences(confidences)
    h = check_hits(hits, n_rows=len(c))
    curves: dict[Any, RiskCurve] = {}
    if domains is not None:
        codes, names = check_domains(domains, n_rows=len(c), needed_by="risk_coverage")
        curves = {name: _curve(c[rows], h[rows]) for name, rows in domain_rows(codes, names)}
        if ALL_ROWS in curves:
            raise InputError(
                f"domains contains {ALL_ROWS!r}, which stands for the rows of all domains; rename "
                "that domain, or leave domains out if all rows are one domain."
            )
    curves[ALL_ROWS] = _curve(c, h)
    return RiskCoverage(curves)


def _curve(confidences: FloatArray, hits: Array) -> RiskCurve:
    order = np.argsort(-confidences, kind="stable")
    c = confidences[order]
    last = np.flatnonzero(np.append(c[1:] != c[:-1], True))  # last row of each confidence
    return RiskCurve(c[last], last + 1, np.cumsum(hits[order], dtype=np.int64)[last])


def _counts(curve: RiskCurve, threshold: float) -> tuple[int, int]:
    """Number of rows with a confidence of at least the threshold, and of hits among them."""
    k = int((curve.thresholds >= threshold).sum())
    return (int(curve.kept[k - 1]), int(curve.hits[k - 1])) if k else (0, 0)


def _lowest(curve: RiskCurve, reached: Array) -> float:
    """Lowest threshold at which the condition holds; NaN if it never does."""
    places = np.flatnonzero(reached)
    return float(curve.thresholds[places[-1]]) if len(places) else nan


def _upper_limit_reaches(curve: RiskCurve, target: float, tail: float) -> Array:
    """Whether so few hits, or fewer, are not too unlikely for an accuracy of the target."""
    return binomial_cdf(curve.hits, curve.kept, target) >= tail


def _safe_threshold(curve: RiskCurve, target: float, tail: float) -> float:
    """Lowest threshold that passes a test of the accuracy; NaN if none does.

    The p-value of a threshold is the probability of so many hits, or more, for an accuracy of the
    target. The probability that any threshold of a lower accuracy passes is at most ``tail``.
    """
    starts = _starting_points(curve, target, tail)
    p_values = binomial_cdf(curve.kept - curve.hits, curve.kept, 1.0 - target)
    lowest, allowed = nan, 0.0
    for first, end in pairwise([*starts, len(p_values)]):
        allowed += tail / len(starts)
        failed = np.flatnonzero(p_values[first:end] > allowed)
        passed = int(failed[0]) if len(failed) else end - first
        if passed:
            lowest = float(curve.thresholds[first + passed - 1])
        if len(failed):
            allowed = 0.0
    return lowest


def _starting_points(curve: RiskCurve, target: float, tail: float) -> list[int]:
    """Places of the thresholds that share ``tail``, from high to low; they ignore the hits."""
    kept: list[float] = []
    rows = float(curve.n)
    while target**rows <= tail / (len(kept) + 1):
        kept.append(rows)
        rows /= 2
    return [int(k) for k in np.searchsorted(curve.kept, kept[::-1])]
