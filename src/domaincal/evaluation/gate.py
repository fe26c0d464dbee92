"""Gate: compare the calibration of a method with a limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from domaincal._validation import check_option
from domaincal.errors import InputError


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
        kind = "" if self.kind == "all" else f"{self.kind} "
        over = f"{self.n_domains} {kind}domain{'s' if self.n_domains > 1 else ''}"
        score = f"the worst {self.score}" if self.worst else f"the mean {self.score}"
        place = f" (in {self.domain})" if self.worst else ""
        return (
            f"Gate {'holds' if self.holds else 'FAILED'}: {score} of {self.method} over {over} is "
            f"{100 * self.value:.2f}%{place}, the limit {100 * self.limit:.2f}%."
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
    check_option(score, "score", ("excess", "ece", "gap"))
    real = isinstance(limit, int | float) and not isinstance(limit, bool)
    if not real or not -1.0 <= limit <= 1.0:
        raise InputError(f"limit must be a fraction such as 0.05, got {limit!r}.")
    if not len(table):
        raise InputError("table is empty; pass a results table with at least one row.")
    rows = table[table["method"] == table["method"].iloc[-1]]
    kind = "all"
    if "kind" in rows:
        kind = "OOD" if (rows["kind"] == "OOD").any() else "InD"
        rows = rows[rows["kind"] == kind]
    values = rows[score]
    worst_row = rows.iloc[int(values.to_numpy().argmax())]
    return Gate(
        method=str(rows["method"].iloc[0]), score=score, kind=kind, worst=worst,
        value=float(worst_row[score] if worst else values.mean(skipna=False)), limit=float(limit),
        n_domains=len(rows), domain=worst_row["domain"] if worst else None,
    )  # fmt: skip
