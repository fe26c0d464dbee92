"""Choice among candidates by their scores on left-out domains."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from domaincal._typing import FloatArray
from domaincal.data.batches import BatchSize
from domaincal.statistics.paired_interval import paired_interval

#: Confidence of the intervals that decide. With a few domains, higher ones hardly ever decide.
CONFIDENCE = 0.8
#: Columns of a table of a selection.
COLUMNS = (
    "method", "n_domains", "ece", "excess", "nll", "difference", "low", "high", "chosen",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Selection:
    """How :class:`AutoCalibration` chose a calibrator; the ``provenance_`` of the winner.

    Attributes
    ----------
    table : DataFrame
        Scores of the candidates on left-out domains, one row for each; see
        ``AutoCalibration.selection_``.
    batch_size : int or "domain"
        Number of rows that were predicted together, or all rows of a domain.
    """

    table: pd.DataFrame
    batch_size: BatchSize

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """The candidates with their scores, and the choice, as lines of text."""
        if self.table.empty:
            return ["too few domains to leave any out: nothing is known about new domains"]
        used = {1: "row by row", "domain": "whole domains"}
        batches = used.get(self.batch_size, f"batches of {self.batch_size} rows")
        records = self.table.to_dict("records")
        width = max(len(one["method"]) for one in records)
        candidates = [
            f"  {one['method']:{width}}  ECE {100 * one['ece']:.1f}%, "
            f"excess {100 * one['excess']:.1f}%, NLL {one['nll']:.3f}"
            for one in records
        ]
        first = f"left-out domains ({records[0]['n_domains']}, {batches}):"
        return [first, *candidates, self._verdict()]

    def _verdict(self) -> str:
        reference, *_ = records = self.table.to_dict("records")
        chosen = next(one for one in records if one["chosen"])
        if chosen is reference:
            return f"{chosen['method']} kept: the candidates are worse or not clearly better"
        difference, low, high = (100 * chosen[name] for name in ("difference", "low", "high"))
        side = "below" if difference < 0 else "above"
        compared = f"excess {abs(difference):.1f} points {side} {reference['method']}"
        interval = f"{CONFIDENCE:.0%} interval {low:+.1f} to {high:+.1f}"
        sure = "" if high < 0 else ", not clearly different"
        return f"{chosen['method']} chosen: {compared} ({interval}{sure})"


def choose(
    scores: dict[str, pd.DataFrame], reference: str, trusted: str | None = None
) -> pd.DataFrame:
    """Table of a selection.

    ``scores`` holds, for each candidate, a frame with the columns ece, excess and nll and one row
    for each left-out domain.

    The start is the trusted candidate, or the reference if there is none, or if the trusted
    candidate is worse: if the 80% t-interval of its difference to the reference, in excess or NLL,
    is above 0. From there, the candidate with the lowest mean excess is taken if the 80%
    t-interval of its difference in excess is below 0 and its mean NLL is not higher.

    Examples
    --------
    >>> import pandas as pd
    >>> ts = pd.DataFrame({"ece": [0.2, 0.3, 0.25], "excess": [0.2, 0.3, 0.25], "nll": [1.0] * 3})
    >>> table = choose({"ts": ts, "half": ts / 2}, "ts")
    >>> table.loc[table["chosen"], "method"].tolist()
    ['half']
    """
    records = []
    for method, frame in scores.items():
        difference = _difference(scores, method, reference, "excess")
        low, high = _interval(scores, method, reference, "excess")
        means = frame[["ece", "excess", "nll"]].mean()
        records.append((method, len(frame), *means, difference.mean(), low, high))
    start = reference
    if trusted is not None and not _is_worse(scores, trusted, reference):
        start = trusted
    best = min(scores, key=lambda method: scores[method]["excess"].mean())
    is_better = _interval(scores, best, start, "excess")[1] < 0
    if is_better and _difference(scores, best, start, "nll").mean() <= 0:
        start = best
    table = pd.DataFrame(records, columns=list(COLUMNS[:-1]))
    table["chosen"] = table["method"] == start
    return table


def _difference(
    scores: dict[str, pd.DataFrame], method: str, other: str, column: str
) -> FloatArray:
    """Differences of two candidates in each left-out domain."""
    return (scores[method][column] - scores[other][column]).to_numpy()


def _is_worse(scores: dict[str, pd.DataFrame], method: str, other: str) -> bool:
    return any(_interval(scores, method, other, column)[0] > 0 for column in ("excess", "nll"))


def _interval(
    scores: dict[str, pd.DataFrame], method: str, other: str, column: str
) -> tuple[float, float]:
    return paired_interval(_difference(scores, method, other, column), confidence=CONFIDENCE)


def empty_table() -> pd.DataFrame:
    """Table without candidates."""
    return pd.DataFrame(columns=list(COLUMNS))
