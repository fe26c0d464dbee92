"""Gate: compare the calibration of a method with a limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from domaincal._validation import check_option
from domaincal.errors import InputError

#: Scores that a gate can compare.
SCORES = ("excess", "ece", "gap")


@dataclass(frozen=True)
class Gate:
    """Result of :func:`check_gate`.

    Attributes
    ----------
    method : str
        Name of the method.
    score : str
        Name of the score: "excess", "ece" or "gap".
    kind : str
        Domains that were scored: "OOD"; "InD" if the table has no others; "all" if the table has
        no column ``kind``.
    worst : bool
        Whether ``value`` is the score of the worst domain, or the mean over domains.
    value, limit : float
        The score and its limit, as fractions.
    n_domains : int
        Number of domains.
    domain : str, int or None
        Worst domain; None for a mean.

    Examples
    --------
    >>> import domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=4, random_state=0)
    >>> table = dc.evaluate_leave_one_domain_out(dc.TemperatureScaling(), data)
    >>> gate = dc.check_gate(table, 0.5, score="ece")
    >>> gate.kind, gate.n_domains, gate.holds
    ('OOD', 4, True)
    """

    method: str
    score: str
    kind: str
    worst: bool
    value: float
    limit: float
    n_domains: int
    domain: Any

    @property
    def holds(self) -> bool:
        """Whether the value is at most the limit; False for NaN."""
        return self.value <= self.limit

    def sentence(self) -> str:
        """The result as a sentence."""
        score = described_score(
            self.method, self.score, self.kind, self.n_domains, worst=self.worst
        )
        place = f" (in {self.domain})" if self.worst else ""
        return (
            f"Gate {'holds' if self.holds else 'FAILED'}: {score} is {100 * self.value:.2f}%"
            f"{place}, the limit {100 * self.limit:.2f}%."
        )


def check_gate(
    table: pd.DataFrame, limit: float, *, score: str = "excess", worst: bool = False
) -> Gate:
    """Compare a score of the last method of a results table with a limit.

    Parameters
    ----------
    table : DataFrame
        Results table of :func:`evaluate_split` or a similar function. If it has OOD domains in
        its column ``kind``, only those count.
    limit : float
        Largest allowed score, as a fraction.
    score : {"excess", "ece", "gap"}, default "excess"
        Score to compare.
    worst : bool, default False
        Compare the worst domain instead of the mean over domains.

    Returns
    -------
    Gate
        With the attribute ``holds``.

    Examples
    --------
    >>> import domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=6, random_state=0)
    >>> table = dc.evaluate_split(dc.TemperatureScaling(), data, ood="*-[45]")
    >>> dc.check_gate(table, 0.5).holds
    True
    """
    check_option(score, "score", SCORES)
    check_limit(limit)
    rows = gate_rows(table)
    place = worst_place(rows[score])
    return Gate(
        method=str(rows["method"].iloc[0]), score=score, kind=kind_of(rows), worst=worst,
        value=gate_value(rows[score], worst=worst), limit=float(limit), n_domains=len(rows),
        domain=rows["domain"].iloc[place] if worst else None,
    )  # fmt: skip


def gate_rows(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of the last method: its OOD domains if the table has any, else all its domains."""
    if not len(table):
        raise InputError("table is empty; pass a results table with at least one row.")
    chosen = table["method"] == table["method"].iloc[-1]
    if "kind" in table and (chosen & (table["kind"] == "OOD")).any():
        chosen &= table["kind"] == "OOD"
    rows: pd.DataFrame = table.loc[chosen]
    return rows


def kind_of(rows: pd.DataFrame) -> str:
    """Kind of the rows of :func:`gate_rows`; "all" if they have none."""
    return str(rows["kind"].iloc[0]) if "kind" in rows else "all"


def gate_value(values: pd.Series[float], *, worst: bool) -> float:
    """Score of the worst domain, or mean over domains; NaN if the score of a domain is NaN."""
    return float(values.iloc[worst_place(values)] if worst else values.mean(skipna=False))


def worst_place(values: pd.Series[float]) -> int:
    """Position of the largest score; of the first NaN if there is one."""
    return int(values.to_numpy().argmax())


def check_limit(limit: object) -> None:
    """Raise an error if the limit is not a fraction."""
    real = isinstance(limit, int | float) and not isinstance(limit, bool)
    if not real or not -1.0 <= limit <= 1.0:  # type: ignore[operator]
        raise InputError(f"limit must be a fraction such as 0.05, got {limit!r}.")


def described_score(method: str, score: str, kind: str, n_domains: int, *, worst: bool) -> str:
    """Text such as "the mean excess of TS over 4 OOD domains"."""
    kind = "" if kind == "all" else f"{kind} "
    over = f"{n_domains} {kind}domain{'s' if n_domains > 1 else ''}"
    return f"the {'worst' if worst else 'mean'} {score} of {method} over {over}"
