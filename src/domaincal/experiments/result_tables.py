"""The paper's tables, with our numbers beside its own."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from domaincal.experiments.methods import HEAD_NAMES, ORACLE, Method
from domaincal.experiments.paper_numbers import paper_cells
from domaincal.experiments.results import Results
from domaincal.experiments.text_table import Block, Line, TextTable

_SPLITS = {"row": "", "group": ", disjoint in groups"}
# What methods are, by what is written for them.
_NOTES = {
    "msp": "the softmax as it is.",
    "ts": "one temperature for all.",
    "md-ts": "a temperature for each row, predicted from its features.",
    "domain-ts": "a temperature for each seen domain, fitted on its calibration half.",
    ORACLE: "temperature scaling fitted in sample, on the labels of the very rows that are scored, "
    "domain by domain.",
}


@dataclass(frozen=True)
class ResultTable:
    """A table of results: the numbers, and how they are printed.

    Attributes
    ----------
    numbers : DataFrame
        One row for each printed number, in %: ours, its standard error, and the paper's where the
        paper has it.
    printed : TextTable
    """

    numbers: pd.DataFrame
    printed: TextTable


def ece_table(runs: Sequence[Results], methods: Sequence[Method], title: str, paper: int | None,
              score: str = "ece") -> ResultTable:  # fmt: skip
    """Mean over domains of a score, for each network and kind of domains."""
    means = pd.concat([run.means() for run in runs], ignore_index=True)
    numbers = means[["data", "network", "partition", "split", "kind", "method", "head",
                     "n_domains", "repeats"]].copy()  # fmt: skip
    numbers["value"] = 100 * means[score]
    numbers["standard_error"] = 100 * means[f"{score}_standard_error"]
    error = (
        "InD: domains that calibrate, of which other rows are scored; OOD: domains that were kept "
        "from it. In brackets: how many, over all repeats. ±: standard error: repeats are averaged "
        "within a domain, then the standard deviation over the domains is divided by the root of "
        "their number."
    )
    return _table(numbers, runs, methods, title, paper, [error])


def pooled_table(
    runs: Sequence[Results], methods: Sequence[Method], title: str, paper: int | None
) -> ResultTable:
    """ECE of all rows of a kind together; the standard error is over repeats."""
    pooled = pd.concat([run.pooled for run in runs], ignore_index=True)
    keys = ["data", "network", "partition", "split", "kind", "method", "head"]
    grouped = pooled.groupby(keys, sort=False)["ece"]
    numbers = pd.DataFrame({
        "repeats": grouped.size(), "value": 100 * grouped.mean(),
        "standard_error": 100 * grouped.std(ddof=1) / grouped.size() ** 0.5,
    }).reset_index()  # fmt: skip
    error = (
        "±: standard error over the repeats, for want of domains to take it over; 0 where all "
        "repeats score the same rows."
    )
    return _table(numbers, runs, methods, title, paper, [error])


def _table(
    numbers: pd.DataFrame,
    runs: Sequence[Results],
    methods: Sequence[Method],
    title: str,
    paper: int | None,
    notes: list[str],
) -> ResultTable:
    numbers = _with_paper(numbers, paper)
    names = [method.name for method in methods]
    titles = {a.partition.name: a.partition.title for run in runs for _, a in run.cells}
    used = {a.method.name: a.method for run in runs for _, a in run.cells}
    knowing = [name for name, method in used.items() if method.is_oracle or method.ind_only]
    slips: list[str] = []
    blocks = []
    keys = ["data", "network", "partition", "split"]
    for (data, network, partition, split), rows in numbers.groupby(keys, sort=False):
        lines = []
        for kind, part in rows.groupby("kind", sort=False):
            cells = part.set_index("method").reindex(names)
            ours = _texts(cells["value"], cells["standard_error"])
            lines.append(
                Line(_domains(str(kind), part), ours, _best(cells["value"], names, knowing))
            )
            if cells["paper"].notna().any():
                marks = [_mark(slip, slips) for slip in cells["slip"]]
                theirs = _texts(cells["paper"], cells["paper_standard_error"])
                marked = tuple(text + mark for text, mark in zip(theirs, marks, strict=True))
                lines.append(Line(f"{kind}, paper", marked))
        heading = f"{data}, {network}: {titles[str(partition)]}{_SPLITS[str(split)]}"
        blocks.append(Block(heading, tuple(lines)))
    known = [f"{name}: {_NOTES[m.text]}" for name, m in used.items() if m.text in _NOTES]
    notes = [*notes, " ".join(known)] if known else notes
    if "group" in set(numbers["split"]):
        notes = [*notes, "Disjoint in groups: no group, of one image, say, is fitted and scored."]
    notes += [f"[{k}] The paper's cell is doubtful: {slip}" for k, slip in enumerate(slips, 1)]
    lowest = "the lowest of those that need not know the domain of a row"
    printed = TextTable(title, "domains", tuple(names), tuple(blocks), lowest, tuple(notes))
    return ResultTable(numbers, printed)


def _domains(kind: str, part: pd.DataFrame) -> str:
    """The kind, and how many domains there are where they count."""
    return f"{kind} ({part['n_domains'].max()})" if "n_domains" in part else kind


def _best(values: "pd.Series[float]", names: list[str], knowing: list[str]) -> int | None:
    """The lowest of methods that need not know the domain of a row."""
    fair = values.astype(float).drop(index=knowing, errors="ignore").dropna()
    return names.index(str(fair.idxmin())) if len(fair) > 1 else None


def _mark(slip: object, slips: list[str]) -> str:
    """A number for a doubtful cell, the same for the same doubt."""
    if not isinstance(slip, str) or not slip:
        return ""
    if slip not in slips:
        slips.append(slip)
    return f" [{slips.index(slip) + 1}]"


def _with_paper(numbers: pd.DataFrame, table: int | None) -> pd.DataFrame:
    """Numbers with the paper's own, where it has that cell."""
    columns = ["paper", "paper_standard_error", "slip"]
    if table is None:
        return numbers.assign(**dict.fromkeys(columns))
    cells = paper_cells(table).rename(columns={
        "dataset": "data", "architecture": "network", "value": "paper",
        "standard_error": "paper_standard_error",
    })  # fmt: skip
    if table == 3:  # its methods are the heads
        cells["method"] = cells["head"].map({name.lower(): name for name in HEAD_NAMES})
    keys = ["data", "network", "kind", "method"]
    return numbers.merge(cells[[*keys, *columns]], on=keys, how="left")


def _texts(values: "pd.Series[float]", errors: "pd.Series[float]") -> tuple[str, ...]:
    pairs = zip(values.astype(float), errors.astype(float), strict=True)
    return tuple(_text(value, error) for value, error in pairs)


def _text(value: float, error: float) -> str:
    if value != value:
        return ""
    return f"{value:.2f}" if error != error else f"{value:.2f} ± {error:.2f}"
