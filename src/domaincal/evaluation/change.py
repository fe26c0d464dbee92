"""Gate on change: compare the calibration of a method with that of an earlier evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from domaincal._validation import check_option
from domaincal._wording import few
from domaincal.errors import InputError
from domaincal.evaluation.gate import (
    SCORES,
    check_limit,
    described_score,
    gate_rows,
    gate_value,
    kind_of,
)


@dataclass(frozen=True)
class Change:
    """Result of :func:`check_change`.

    Attributes
    ----------
    method : str
        Name of the method.
    score : str
        Name of the score: "excess", "ece" or "gap"; lower is better.
    kind : str
        Kind of the domains: "OOD" or "InD"; "all" if the table has no column ``kind``.
    worst : bool
        Whether the values are those of the worst domain, or means over domains.
    before, value : float
        Score in the baseline and now, as fractions, over the domains of both.
    limit : float or None
        Largest allowed difference; None if there is no limit.
    n_domains : int
        Number of domains that both have.
    added, removed : tuple
        Domains that only the table has, and domains that only the baseline has. They do not count.

    Examples
    --------
    >>> import pandas as pd
    >>> before = pd.DataFrame({"method": "TS", "domain": ["a", "b"], "ece": [0.01, 0.02]})
    >>> now = pd.DataFrame({"method": "TS", "domain": ["b", "c"], "ece": [0.05, 0.01]})
    >>> change = check_change(now, before, 0.01, score="ece")
    >>> change.n_domains, change.added, change.removed, change.holds
    (1, ('c',), ('a',), False)
    """

    method: str
    score: str
    kind: str
    worst: bool
    before: float
    value: float
    limit: float | None
    n_domains: int
    added: tuple[Any, ...]
    removed: tuple[Any, ...]

    @property
    def difference(self) -> float:
        """Score now minus score before; positive if it is worse."""
        return self.value - self.before

    @property
    def holds(self) -> bool:
        """Whether the difference is at most the limit; False for NaN, True without a limit."""
        return self.limit is None or self.difference <= self.limit

    def sentence(self) -> str:
        """The result as a sentence."""
        verdict, limit = "Change", ""
        if self.limit is not None:
            verdict = f"Gate on change {'holds' if self.holds else 'FAILED'}"
            limit = f", the limit {100 * self.limit:+.2f}"
        score = described_score(
            self.method, self.score, self.kind, self.n_domains, worst=self.worst
        )
        return (
            f"{verdict}: {score} is {100 * self.value:.2f}%, in the baseline "
            f"{100 * self.before:.2f}% (difference {100 * self.difference:+.2f} points{limit})."
        )

    def sentence_of_other_domains(self) -> str:
        """Sentence that names the domains that do not count; empty if both have the same."""
        parts = [
            f"only {where}: {few(map(repr, names), 5)}"
            for where, names in (("now", self.added), ("in the baseline", self.removed))
            if names
        ]
        return f"Domains that do not count for the change, {'; '.join(parts)}." if parts else ""


def check_change(
    table: pd.DataFrame,
    baseline: pd.DataFrame,
    limit: float | None = None,
    *,
    score: str = "excess",
    worst: bool = False,
) -> Change:
    """Compare a score of the last method of a results table with that of an earlier table.

    Both scores are over the domains that both tables have. The scores are comparable if both tables
    were made in the same way: the same function, OOD domains and number of bins.

    Parameters
    ----------
    table : DataFrame
        Results table of :func:`evaluate_split` or a similar function. If it has OOD domains in its
        column ``kind``, only those count.
    baseline : DataFrame
        Earlier results table, which has the same method.
    limit : float, optional
        Largest allowed difference, as a fraction: 0.005 is half a point of percent. By default,
        there is no limit.
    score : {"excess", "ece", "gap"}, default "excess"
        Score to compare; lower is better.
    worst : bool, default False
        Compare the worst domain of each table instead of the means over domains.

    Returns
    -------
    Change
        With the attributes ``difference`` and ``holds``.

    Examples
    --------
    >>> import domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=6, random_state=0)
    >>> before = dc.evaluate_split({"model": dc.MaxSoftmax()}, data)
    >>> now = dc.evaluate_split({"model": dc.TemperatureScaling()}, data)
    >>> change = dc.check_change(now, before, 0.005, score="ece")
    >>> change.difference < 0, change.holds
    (True, True)
    """
    check_option(score, "score", SCORES)
    if limit is not None:
        check_limit(limit)
    rows = gate_rows(table)
    method, kind = str(rows["method"].iloc[0]), kind_of(rows)
    now = _by_domain(rows, score, "table")
    before = _by_domain(_rows_of_method(baseline, method, kind), score, "baseline")
    common = [name for name in now.index if name in before.index]
    if not common:
        raise InputError(
            f"the baseline has none of the domains {few(now.index, 4)}, but "
            f"{few(before.index, 4)}; compare evaluations with common domains."
        )
    return Change(
        method=method, score=score, kind=kind, worst=worst,
        before=gate_value(before[common], worst=worst), value=gate_value(now[common], worst=worst),
        limit=None if limit is None else float(limit), n_domains=len(common),
        added=tuple(name for name in now.index if name not in before.index),
        removed=tuple(name for name in before.index if name not in now.index),
    )  # fmt: skip


def _rows_of_method(baseline: pd.DataFrame, method: str, kind: str) -> pd.DataFrame:
    """Rows of the baseline for a method and a kind of domains."""
    if not isinstance(baseline, pd.DataFrame) or not {"method", "domain"} <= set(baseline):
        raise InputError(
            "baseline must be a results table with the columns method and domain, got "
            f"{type(baseline).__name__}; make it with domaincal.evaluate_split(...)."
        )
    rows = baseline[baseline["method"] == method]
    if rows.empty:
        raise InputError(
            f"the baseline has no method {method!r}, only "
            f"{few(map(repr, baseline['method'].unique()), 8)}; compare the same method."
        )
    if kind == "all" and "kind" not in rows:
        return rows
    if "kind" not in rows or kind == "all" or not (rows["kind"] == kind).any():
        raise InputError(
            f"the baseline has no {kind} domains of {method!r}; compare evaluations with the same "
            "OOD domains."
        )
    return rows[rows["kind"] == kind]


def _by_domain(rows: pd.DataFrame, score: str, argument: str) -> pd.Series[float]:
    """Scores by the text of the domain: a file may hold the domain 7 as a number or as a text."""
    values = rows[score].set_axis(rows["domain"].map(str))
    twice = values.index[values.index.duplicated()]
    if len(twice):
        raise InputError(
            f"{argument} has the domain {twice[0]!r} twice for one method; pass a table with one "
            "row for each method and domain."
        )
    return values
