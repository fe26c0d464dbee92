"""Results in words."""

import pandas as pd

from domaincal.experiments.runner import Results
from domaincal.metrics import compare_methods

_METHOD, _OTHERS = "MD-TS", ("TS", "MSP")


def verdicts(results: Results) -> list[str]:
    """For each network and partition, how MD-TS does against TS and MSP on unseen domains.

    Says plainly where it loses. Repeats are averaged within a domain; a difference is clear where
    its 95% interval over domains leaves out 0.
    """
    titles = {asked.partition.name: asked.partition.title for _, asked in results.cells}
    sentences = []
    first = results.table["split"].iloc[0]
    table = results.table[results.table["split"] == first]
    for (network, partition), part in table.groupby(["network", "partition"], sort=False):
        kind = "OOD" if (part["kind"] == "OOD").any() else "InD"
        averaged = (
            part[part["kind"] == kind]
            .groupby(["method", "domain"], sort=False)[["ece"]].mean().reset_index()
        )  # fmt: skip
        known = set(averaged["method"])
        said = [_said(averaged, other) for other in _OTHERS if other in known]
        if _METHOD in known and said:
            where = f"{results.experiment.name}, {network}, {titles[str(partition)]} ({kind})"
            sentences.append(f"{where}: {_METHOD} {'; '.join(said)}.")
    return sentences


def _said(table: pd.DataFrame, other: str) -> str:
    found = compare_methods(table, _METHOD, other, score="ece")
    clear = found.n_domains > 1 and not found.low <= 0.0 <= found.high
    if not clear:
        verdict = f"does not differ clearly from {other}"
    else:
        verdict = f"beats {other}" if found.difference < 0 else f"LOSES to {other}"
    if found.losses > found.wins and not (clear and found.difference > 0):
        verdict += f" on average, but {other} is lower in most domains"
    return (
        f"{verdict} (ECE {100 * found.first:.2f}% against {100 * found.second:.2f}%, MD-TS lower "
        f"in {found.wins} of {found.n_domains})"
    )
