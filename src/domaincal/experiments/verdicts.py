"""Verdicts: sentences that compare MD-TS with TS and MSP."""

from __future__ import annotations

import pandas as pd

from domaincal.experiments.results import Results
from domaincal.metrics import compare_methods

_METHOD, _BASELINES = "MD-TS", ("TS", "MSP")
# The first decides the verdict. With few rows in a domain, the floor is most of the ECE and hides a
# difference that the others show.
_SCORES = ("ece", "excess", "nll")


def verdicts(results: Results) -> list[str]:
    """One sentence for each network and partition: MD-TS against TS and MSP.

    The scores are ECE, excess and NLL.

    The domains are OOD ones, or InD ones in a partition without OOD domains. Scores are means over
    the repeats in each domain, of the first split. In an experiment without MD-TS, the last method
    is compared with the others. Methods that know the domains or their labels are left out.
    """
    titles = results.partition_titles
    excluded = [name for name, method in results.methods.items() if method.knows_domains]
    table = results.table
    table = table[(table["split"] == table["split"].iloc[0]) & ~table["method"].isin(excluded)]
    sentences = []
    for (network, partition), part in table.groupby(["network", "partition"], sort=False):
        kind = "OOD" if (part["kind"] == "OOD").any() else "InD"
        scores = part[part["kind"] == kind].groupby(["method", "domain"], sort=False)
        verdict = _verdict(scores[list(_SCORES)].mean().reset_index())
        if verdict:
            where = f"{results.experiment.name}, {network}, {titles[str(partition)]} ({kind})"
            sentences.append(f"{where}: {verdict}.")
    return sentences


def _verdict(table: pd.DataFrame) -> str:
    """Comparison of one method with the others; an empty text where there are no others."""
    known = table["method"].unique().tolist()
    method = _METHOD if _METHOD in known else known[-1]
    others = [name for name in _BASELINES if name in known and name != method]
    others = others or [name for name in known if name != method]
    if not others:
        return ""
    verdict = "; ".join(_sentence(table, method, other) for other in others)
    means = table.groupby("method")["ece"].mean()
    lowest = str(means.idxmin())
    if lowest not in (method, *others):
        verdict += f"; the lowest mean is that of {lowest} ({100 * means.min():.2f}%)"
    return verdict


def _sentence(table: pd.DataFrame, method: str, other: str) -> str:
    first, *more = (compare_methods(table, method, other, score=score) for score in _SCORES)
    return first.sentence(*more)
