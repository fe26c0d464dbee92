"""Result of ``domaincal evaluate``: as tables, and as a JSON document."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from domaincal.cli.console import print_json, records, say
from domaincal.cli.protocol_sentence import protocol_sentence
from domaincal.cli.table_layout import Section, print_numbers
from domaincal.cli.tables import percent
from domaincal.evaluation import summary_table
from domaincal.metrics import compare_last

if TYPE_CHECKING:
    from domaincal.evaluation import Change, Gate

SCORES_LEGEND = (
    "Floor: expected ECE of a calibrated model; excess: ECE - floor; gap: |mean confidence - "
    "accuracy|. All but NLL in %."
)
# Of more domains, only the worst are printed; -o and --json have all.
_SHOWN_DOMAINS = 60
_WORST_DOMAINS = 20


@dataclass(frozen=True, eq=False)
class EvaluationResult:
    """Scores of methods, and what is known about them.

    Attributes
    ----------
    data : dict
        Path, size and fingerprint of the data.
    protocol : dict
        Which rows were fitted and scored, and how.
    table : DataFrame
        Results table with the column ``kind``.
    gate, change : Gate and Change, or None
    output, figure : Path or None
        Files that were written.
    """

    data: dict[str, Any]
    protocol: dict[str, Any]
    table: pd.DataFrame
    gate: Gate | None
    change: Change | None
    output: Path | None
    figure: Path | None

    @property
    def sentence(self) -> str:
        """Which rows were fitted and scored."""
        return protocol_sentence(self.protocol, has_domains=self.data["n_domains"] is not None)

    def comparisons(self) -> list[str]:
        """Sentences that compare the last method with each of the others."""
        # With few rows in a domain, the floor is most of the ECE and hides a difference.
        by_score = [compare_last(self.table, score=score) for score in ("ece", "excess", "nll")]
        return [
            f"{kind}: {found.sentence(*(other for _, other in others))}."
            for (kind, found), *others in zip(*by_score, strict=True)
        ]

    def files(self) -> list[str]:
        """Sentences that name the files that were written."""
        written = {"Table": self.output, "Figure": self.figure}
        return [f"{what} written to {path}." for what, path in written.items() if path is not None]


def print_evaluation_tables(result: EvaluationResult) -> None:
    """Print ECE of each domain and method, means over domains, comparisons and gates."""
    say(result.sentence)
    table, n_domains = result.table, result.table["domain"].nunique()
    if n_domains > _SHOWN_DOMAINS:
        last = table[table["method"] == table["method"].iloc[-1]]
        table = table[table["domain"].isin(last.nlargest(_WORST_DOMAINS, "ece")["domain"])]
        say(f"Shown: the worst {_WORST_DOMAINS} of {n_domains} domains; -o FILE writes all.")
    _print_ece(table, n_bins=result.protocol["n_bins"])
    _print_means(summary_table(result.table))
    say(SCORES_LEGEND)
    for sentence in result.comparisons():
        say(sentence)
    if result.gate is not None:
        say(result.gate.sentence())
    if result.change is not None:
        say(result.change.sentence())
    for sentence in result.files():
        say(sentence)


def print_evaluation_document(result: EvaluationResult) -> None:
    """Print the result as one JSON document."""
    gate, change = result.gate, result.change
    comparisons = compare_last(result.table)
    content = {
        "data": result.data,
        "protocol": result.protocol,
        "table": records(result.table),
        "means": records(summary_table(result.table)),
        "comparisons": [{"kind": kind, **found._asdict()} for kind, found in comparisons],
        "gate": None if gate is None else {**asdict(gate), "holds": gate.holds},
        "change": None
        if change is None
        else {**asdict(change), "difference": change.difference, "holds": change.holds},
        "output": None if result.output is None else str(result.output),
        "figure": None if result.figure is None else str(result.figure),
    }
    print_json("evaluation", content)


def with_error(value: float, error: float) -> str:
    """Percentage with its standard error, if there is one."""
    return percent(value) if error != error else f"{percent(value)} ± {percent(error)}"


def _print_ece(table: pd.DataFrame, *, n_bins: int) -> None:
    methods = table["method"].unique().tolist()
    sections = []
    for kind in ("InD", "OOD"):
        rows = []
        for domain, part in table[table["kind"] == kind].groupby("domain"):
            ece = part.set_index("method")["ece"]
            first = part.iloc[0]
            rows.append(
                [str(domain), str(first["n"]), percent(first["accuracy"])]
                + [percent(ece[method]) for method in methods]
            )
        if rows:
            sections.append(Section(f"{kind} domains", rows))
    columns = ["domain", "n", "accuracy %", *methods]
    print_numbers(f"ECE of each domain in %, {n_bins} bins", columns, sections)


def _print_means(means: pd.DataFrame) -> None:
    sections = []
    for kind, part in means.groupby("kind", sort=False):
        n_domains = part["n_domains"].iloc[0]
        rows = [
            [
                row["method"],
                with_error(row["ece"], row["ece_standard_error"]),
                *(percent(row[score]) for score in ("worst_ece", "floor", "excess", "gap")),
                f"{row['nll']:.3f}",
            ]
            for row in records(part)
        ]
        name = f"{n_domains} {kind} domain{'s' if n_domains > 1 else ''}"
        sections.append(Section(name, rows))
    columns = ["method", "ECE %", "worst", "floor", "excess", "gap", "NLL"]
    print_numbers("Mean over domains ± standard error", columns, sections)
