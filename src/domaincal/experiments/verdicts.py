"""How MD-TS compares with TS and MSP, in sentences."""

import pandas as pd

from domaincal.experiments.results import Results
from domaincal.metrics import compare_methods

_SUBJECT, _USUAL = "MD-TS", ("TS", "MSP")


def verdicts(results: Results) -> list[str]:
    """For each network and partition, how MD-TS does against TS and MSP on unseen domains.

    Says plainly where it loses. Repeats are averaged within a domain; a difference is clear where
    its 95% interval over domains leaves out 0. In an experiment without MD-TS, the last method is
    compared with the others. Methods that know labels of the scored domains are left out.
    """
    titles = {asked.partition.name: asked.partition.title for _, asked in results.cells}
    knowing = {
        asked.method.name
        for _, asked in results.cells
        if asked.method.is_oracle or asked.method.ind_only
    }
    table = results.table
    table = table[(table["split"] == table["split"].iloc[0]) & ~table["method"].isin(knowing)]
    sentences = []
    for (network, partition), part in table.groupby(["network", "partition"], sort=False):
        kind = "OOD" if (part["kind"] == "OOD").any() else "InD"
        scored = part[part["kind"] == kind].groupby(["method", "domain"], sort=False)[["ece"]]
        said = _compared(scored.mean().reset_index())
        if said:
            where = f"{results.experiment.name}, {network}, {titles[str(partition)]} ({kind})"
            sentences.append(f"{where}: {said}.")
    return sentences


def _compared(table: pd.DataFrame) -> str:
    """One method against the others; nothing where there are no others."""
    known = table["method"].unique().tolist()
    subject = _SUBJECT if _SUBJECT in known else known[-1]
    others = [name for name in _USUAL if name in known and name != subject]
    others = others or [name for name in known if name != subject]
    if not others:
        return ""
    said = "; ".join(compare_methods(table, subject, other).sentence() for other in others)
    means = table.groupby("method")["ece"].mean()
    lowest = str(means.idxmin())
    if lowest not in (subject, *others):
        said += f"; the lowest is {lowest} ({100 * means.min():.2f}%)"
    return said
