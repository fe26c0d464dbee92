"""A limit that a method's calibration must keep."""

from dataclasses import dataclass
from typing import Any

import pandas as pd

from domaincal._validation import check_option
from domaincal.errors import InputError


@dataclass(frozen=True)
class Gate:
    """Whether a score keeps its limit.

    Attributes
    ----------
    method, score, kind : str
        ``kind`` of the domains that were looked at: OOD, or InD where there are no others; all
        where the table does not tell.
    worst : bool
        Whether ``value`` is that of the worst domain, ``domain``, or the mean over domains.
    value, limit : float
    n_domains : int
    domain : str, int or None
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
        """True where the value is at most the limit; never for NaN."""
        return self.value <= self.limit

    def sentence(self) -> str:
        """The result in words."""
        kind = "" if self.kind == "all" else f"{self.kind} "
        over = f"{self.n_domains} {kind}domain{'s' if self.n_domains > 1 else ''}"
        what = f"the worst {self.score}" if self.worst else f"the mean {self.score}"
        where = f" (in {self.domain})" if self.worst else ""
        return (
            f"Gate {'holds' if self.holds else 'FAILED'}: {what} of {self.method} over {over} is "
            f"{100 * self.value:.2f}%{where}, the limit {100 * self.limit:.2f}%."
        )


def check_gate(
    table: pd.DataFrame, limit: float, *, score: str = "excess", worst: bool = False
) -> Gate:
    """Compare the last method of a results table with a limit.

    Parameters
    ----------
    table : DataFrame
        From :func:`evaluate_split` or the like. Of OOD domains, if its column ``kind`` knows any.
    limit : float
        As a fraction.
    score : {"excess", "ece", "gap"}, default "excess"
    worst : bool, default False
        Look at the worst domain in place of the mean over domains.

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
        raise InputError("table is empty; there is nothing to judge.")
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
