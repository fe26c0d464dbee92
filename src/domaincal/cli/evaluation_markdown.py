"""Result of ``domaincal evaluate`` as a summary in GitHub's Markdown, for pages of CI."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pandas as pd

from domaincal.cli.console import emit, printable, records
from domaincal.cli.evaluation_result import SCORES_LEGEND, EvaluationResult, with_error
from domaincal.cli.tables import percent
from domaincal.evaluation import summary_table
from domaincal.evaluation.gate import gate_rows

# Domains in the table of the worst.
_WORST_DOMAINS = 5
# Signs with a meaning in Markdown.
_MARKUP = re.compile(r"([\\`*_\[\]<>|~#$])")


def print_evaluation_markdown(result: EvaluationResult) -> None:
    """Print protocol, gates, means of each method, worst domains and comparisons.

    Lines are not wrapped: a page shows a line break in a paragraph as such.
    """
    blocks = [f"### Calibration: {_text(result.data['path'])}", _text(result.sentence)]
    blocks += _verdicts(result)
    blocks += [_means(part) for _, part in summary_table(result.table).groupby("kind", sort=False)]
    blocks.append(_text(SCORES_LEGEND))
    blocks += _worst_domains(result.table)
    comparisons = "\n".join(f"- {_text(sentence)}" for sentence in result.comparisons())
    emit("\n\n".join(block for block in (*blocks, comparisons) if block))


def _verdicts(result: EvaluationResult) -> list[str]:
    """The gates, with what they say in bold, and the change against the baseline."""
    out = []
    for found in (result.gate, result.change):
        if found is None:
            continue
        verdict, rest = found.sentence().split(": ", 1)
        passed = verdict.replace("holds", "passed")
        out.append(f"**{passed}**: {_text(rest)}")
    other = "" if result.change is None else result.change.sentence_of_other_domains()
    return [*out, _text(other)] if other else out


def _means(means: pd.DataFrame) -> str:
    """Table of the means of each method over domains of one kind."""
    kind, n_domains = means["kind"].iloc[0], means["n_domains"].iloc[0]
    over = f"{n_domains} {kind} domain{'s' if n_domains > 1 else ''}"
    rows = [
        [
            _text(row["method"]),
            with_error(row["ece"], row["ece_standard_error"]),
            *(percent(row[score]) for score in ("worst_ece", "floor", "excess", "gap")),
            f"{row['nll']:.3f}",
        ]
        for row in records(means)
    ]
    header = [f"mean over {over}", "ECE % ± standard error", "worst", "floor", "excess", "gap"]
    return _table([*header, "NLL"], rows)


def _worst_domains(table: pd.DataFrame) -> list[str]:
    """Table of the domains with the largest ECE of the last method, among those of the gates."""
    last = gate_rows(table)
    kind, methods = last["kind"].iloc[0], table["method"].unique().tolist()
    ece = table[table["kind"] == kind].pivot(index="domain", columns="method", values="ece")
    rows = [
        [_text(row["domain"]), str(row["n"]), percent(row["accuracy"])]
        + [percent(ece.loc[row["domain"], method]) for method in methods]
        for row in records(last.nlargest(_WORST_DOMAINS, "ece"))
    ]
    title = f"{kind} domains with the largest ECE of {_text(methods[-1])}; ECE in %:"
    return [title, _table(["domain", "n", "accuracy %", *map(_text, methods)], rows)]


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _text(text: object) -> str:
    """Text that a page shows as it is."""
    return _MARKUP.sub(r"\\\1", printable(text))
