"""Tables of results, with the numbers of the paper beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pandas as pd

from domaincal.experiments.methods import HEAD_NAMES, ORACLE, Method
from domaincal.experiments.paper_numbers import paper_cells
from domaincal.experiments.results import Results
from domaincal.experiments.text_table import Block, Line, TextTable
from domaincal.statistics.paired_interval import paired_interval

# Additions to the heading of a block, by split.
_SPLIT_TITLES = {"row": "", "group": ", disjoint in groups"}
# Descriptions of methods, by their texts.
_METHOD_NOTES = {
    "msp": "softmax of the uncalibrated logits.",
    "ts": "one temperature for all rows.",
    "md-ts": "a temperature for each row, predicted from its features.",
    "domain-ts": "a temperature for each seen domain, fitted to its calibration half.",
    ORACLE: "a temperature for each domain, fitted to the labels of the scored rows themselves.",
}
_GROUPS_NOTE = (
    "Disjoint in groups: no group, e.g. one image in all its domains, is both fitted and scored."
)
# The legend of bold numbers.
_BEST = (
    "the lowest of the methods that do not use the domain of a row, where it is clearly lower than "
    "each of the others (95% t-interval of the differences, paired over {units}, below 0)"
)
# Columns that identify a line of a table.
_LINE = ("data", "network", "partition", "split", "kind")


class _Notes(NamedTuple):
    """Notes of a table whose lines are means over domains or over repeats."""

    best: str
    errors: str
    paper: str


_DOMAIN_NOTES = _Notes(
    best=_BEST.format(units="domains"),
    errors="InD: domains used for calibration, scored on their other rows; OOD: domains not used "
    "for calibration. In brackets: the number of domains over all repeats. ±: standard error over "
    "domains, after the repeats are averaged in each domain. ± and intervals take domains as "
    "independent, although some are alike, such as the severities of a corruption.",
    # The paper says only "standard error of per-domain ECE". Its errors are smaller than the spread
    # of domains allows.
    paper="The paper's ± cannot be compared with ours: it seems to be over domains and repeats "
    "together.",
)
_REPEAT_NOTES = _Notes(
    best=_BEST.format(units="repeats"),
    errors="±: standard error over the repeats, since pooled rows have no domains; 0 where all "
    "repeats score the same rows. ± and intervals do not say how much other data would differ.",
    # Its ± is 0 where all repeats score the same rows (MSP on OOD domains of RxRx1).
    paper="The paper's ± seems to be over repeats too, but the paper does not give their number.",
)


@dataclass(frozen=True)
class ResultTable:
    """A table of results.

    Attributes
    ----------
    numbers : DataFrame
        One row for each number, in %: value and standard_error are ours, paper and
        paper_standard_error those of the paper, NaN where it has none.
    printed : TextTable
        The same numbers as text.
    """

    numbers: pd.DataFrame
    printed: TextTable


def ece_table(
    runs: Sequence[Results],
    methods: Sequence[Method],
    title: str,
    paper: int | None,
    score: str = "ece",
) -> ResultTable:
    """Table of the mean over domains of a score.

    Parameters
    ----------
    runs : list of Results
    methods : list of Method
        The columns.
    title : str
    paper : int or None
        Number of the paper's table that has the same cells.
    score : str, default "ece"
        Column of the results.
    """
    means = pd.concat([run.means() for run in runs], ignore_index=True)
    numbers = means[["data", "network", "partition", "split", "kind", "method", "head",
                     "n_domains", "repeats"]].copy()  # fmt: skip
    numbers["value"] = 100 * means[score]
    numbers["standard_error"] = 100 * means[f"{score}_standard_error"]
    table = pd.concat([run.table for run in runs], ignore_index=True)
    paired = _paired_scores(table, "domain", score)
    return _table(_with_paper(numbers, paper), paired, runs, methods, title, _DOMAIN_NOTES)


def pooled_table(
    runs: Sequence[Results], methods: Sequence[Method], title: str, paper: int | None
) -> ResultTable:
    """Table of the ECE of all InD rows together and of all OOD rows together."""
    pooled = pd.concat([run.pooled for run in runs], ignore_index=True)
    keys = ["data", "network", "partition", "split", "kind", "method", "head"]
    grouped = pooled.groupby(keys, sort=False)["ece"]
    numbers = pd.DataFrame({
        "repeats": grouped.size(), "value": 100 * grouped.mean(),
        "standard_error": 100 * grouped.std(ddof=1) / grouped.size() ** 0.5,
    }).reset_index()  # fmt: skip
    paired = _paired_scores(pooled, "repeat", "ece")
    return _table(_with_paper(numbers, paper), paired, runs, methods, title, _REPEAT_NOTES)


def _table(
    numbers: pd.DataFrame,
    paired: Mapping[tuple[Any, ...], pd.DataFrame],
    runs: Sequence[Results],
    methods: Sequence[Method],
    title: str,
    notes: _Notes,
) -> ResultTable:
    """One block for each network, partition and split; one line for each kind of domains."""
    columns = [method.name for method in methods]
    titles = {name: text for run in runs for name, text in run.partition_titles.items()}
    used = {name: method for run in runs for name, method in run.methods.items()}
    compared = [name for name in columns if name in used and not used[name].knows_domains]
    slips: list[str] = []
    blocks = []
    for key, rows in numbers.groupby(list(_LINE[:-1]), sort=False):
        data, network, partition, split = key
        heading = f"{data}, {network}: {titles[str(partition)]}{_SPLIT_TITLES[str(split)]}"
        lines = []
        for kind, part in rows.groupby("kind", sort=False):
            best = _best(paired[*key, kind], compared)
            lines += _lines(str(kind), part, columns, best, slips)
        blocks.append(Block(heading, tuple(lines)))
    described = [
        f"{n}: {_METHOD_NOTES[m.text]}" for n, m in used.items() if m.text in _METHOD_NOTES
    ]
    texts = [notes.errors]
    if numbers["paper_standard_error"].notna().any():
        texts.append(notes.paper)
    if described:
        texts.append(" ".join(described))
    if "group" in set(numbers["split"]):
        texts.append(_GROUPS_NOTE)
    texts += [f"[{k}] The paper's cell is doubtful: {slip}" for k, slip in enumerate(slips, 1)]
    printed = TextTable(title, "domains", tuple(columns), tuple(blocks), notes.best, tuple(texts))
    return ResultTable(numbers, printed)


def _lines(
    kind: str, part: pd.DataFrame, columns: list[str], best: str | None, slips: list[str]
) -> list[Line]:
    """Our numbers, and those of the paper if there are any; new doubts are added to ``slips``."""
    cells = part.set_index("method").reindex(columns)
    ours = _texts(cells["value"], cells["standard_error"])
    lines = [Line(_line_name(kind, part), ours, None if best is None else columns.index(best))]
    if cells["paper"].notna().any():
        marks = [_mark(slip, slips) for slip in cells["slip"]]
        theirs = _texts(cells["paper"], cells["paper_standard_error"])
        marked = tuple(text + mark for text, mark in zip(theirs, marks, strict=True))
        lines.append(Line(f"{kind}, paper", marked))
    return lines


def _line_name(kind: str, part: pd.DataFrame) -> str:
    """The kind, with the number of domains where the number is a mean over them."""
    return f"{kind} ({part['n_domains'].max()})" if "n_domains" in part else kind


def _paired_scores(
    table: pd.DataFrame, unit: str, score: str
) -> dict[tuple[Any, ...], pd.DataFrame]:
    """For each line, the scores with one row for each unit and one column for each method."""
    return {
        key: rows.pivot_table(index=unit, columns="method", values=score)
        for key, rows in table.groupby(list(_LINE), sort=False)
    }


def _best(scores: pd.DataFrame, compared: Sequence[str]) -> str | None:
    """The method with the lowest mean, if its difference from every other one is clear."""
    shown = scores[[name for name in compared if name in scores]]
    if shown.shape[1] < 2:
        return None
    lowest = str(shown.mean().idxmin())
    others = shown.drop(columns=lowest)
    differences = others.rsub(shown[lowest], axis="index")
    intervals = [paired_interval(differences[name].dropna().to_numpy()) for name in others]
    return lowest if all(high < 0 for _, high in intervals) else None


def _mark(slip: object, slips: list[str]) -> str:
    """Footnote mark of a doubtful cell; cells with the same doubt share it."""
    if not isinstance(slip, str) or not slip:
        return ""
    if slip not in slips:
        slips.append(slip)
    return f" [{slips.index(slip) + 1}]"


def _with_paper(numbers: pd.DataFrame, table: int | None) -> pd.DataFrame:
    """The numbers with those of the paper's table beside them."""
    columns = ["paper", "paper_standard_error", "slip"]
    if table is None:
        return numbers.assign(**dict.fromkeys(columns))
    cells = paper_cells(table).rename(columns={
        "dataset": "data", "architecture": "network", "value": "paper",
        "standard_error": "paper_standard_error",
    })  # fmt: skip
    if table == 3:  # its columns are heads of MD-TS
        cells["method"] = cells["head"].map({name.lower(): name for name in HEAD_NAMES})
    keys = ["data", "network", "kind", "method"]
    return numbers.merge(cells[[*keys, *columns]], on=keys, how="left")


def _texts(values: pd.Series[float], errors: pd.Series[float]) -> tuple[str, ...]:
    pairs = zip(values.astype(float), errors.astype(float), strict=True)
    return tuple(_text(value, error) for value, error in pairs)


def _text(value: float, error: float) -> str:
    if value != value:
        return ""
    return f"{value:.2f}" if error != error else f"{value:.2f} ± {error:.2f}"
