"""Results of an experiment: one tidy table, its means, and where they come from."""

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from domaincal._files import atomic_file
from domaincal.evaluation.evaluate import bin_scores
from domaincal.experiments.experiment import Asked, Experiment
from domaincal.experiments.trial_results import Cell
from domaincal.experiments.versions import versions
from domaincal.metrics import mean_over_domains

#: What tells the rows of a results table apart, before the domain.
KEYS = ("data", "network", "partition", "split", "repeat", "method", "head")
SCORES = ("accuracy", "mean_confidence", "ece", "floor", "excess", "gap", "nll", "brier")
_PACKAGES = ("domaincal", "numpy", "scipy", "scikit-learn", "pandas", "numba",
             "imagecorruptions-imaug", "torch", "timm")  # fmt: skip


@dataclass(frozen=True, eq=False)
class Results:
    """What an experiment gave.

    Attributes
    ----------
    experiment : Experiment
    cells : dict
        From (network, Asked) to Cell.
    data : dict
        What tells the rows of each network from others; of the first repeat.
    table : DataFrame
        One row for each network, partition, split, repeat, method, kind (InD or OOD) and domain: n,
        accuracy, mean_confidence, ece, floor, excess, gap, nll, brier; learned, predicted, low and
        high are temperatures, as in :func:`temperature_table`.
    pooled : DataFrame
        The same scores of all InD and of all OOD rows together, without nll and brier.
    provenance : dict
        The experiment, the identity of its data and what they say of themselves, and versions.
    """

    experiment: Experiment
    cells: dict[tuple[str, Asked], Cell]
    data: dict[str, dict[str, Any]]

    def only(self, asked: Sequence[Asked]) -> "Results":
        """The results of some cells."""
        chosen = set(asked)
        kept = {name: cell for name, cell in self.cells.items() if name[1] in chosen}
        return Results(self.experiment, kept, self.data)

    @cached_property
    def table(self) -> pd.DataFrame:
        """See the class."""
        tables = []
        for name, cell in self.cells.items():
            key = pd.DataFrame([self._key(*name)] * len(cell.table), columns=list(KEYS))
            tables.append(pd.concat([key, cell.table], axis=1))
        return pd.concat(tables, ignore_index=True)

    @cached_property
    def pooled(self) -> pd.DataFrame:
        """See the class."""
        records = []
        for name, cell in self.cells.items():
            for kind in cell.table["kind"].unique():
                sums = cell.sums((cell.table["kind"] == kind).to_numpy())
                records.append((*self._key(*name), kind, *bin_scores(sums)))
        return pd.DataFrame(records, columns=[*KEYS, "kind", "n", *SCORES[:6]])

    @property
    def provenance(self) -> dict[str, Any]:
        """See the class."""
        asked = [cell for _, cell in self.cells]
        return {
            "experiment": self.experiment.name,
            "bins": self.experiment.bins,
            "repeats": self.experiment.repeats,
            "seed": self.experiment.seed,
            "data": self.data,
            "rows": self._rows(),
            "splits": list(dict.fromkeys(cell.split for cell in asked)),
            "partitions": {c.partition.name: c.partition.definition() for c in asked},
            "methods": {cell.method.name: cell.method.definition() for cell in asked},
            "versions": versions(*_PACKAGES),
            "python": platform.python_version(),
        }

    def means(self) -> pd.DataFrame:
        """Means over domains: repeats are averaged within a domain, then domains.

        Returns
        -------
        DataFrame
            One row for each data set, network, partition, split, kind, method and head: n_domains,
            repeats, the mean of every score, and ece_standard_error and gap_standard_error, the
            standard deviation over the domains divided by the root of their number.
        """
        return means_over_domains(self.table)

    def _rows(self) -> dict[str, list[Mapping[str, Any]]]:
        """Provenance of each network's rows; of several, where repeats have rows of their own."""
        found: dict[str, list[Mapping[str, Any]]] = {}
        for (network, _), cell in self.cells.items():
            known = found.setdefault(network, [])
            if cell.provenance not in known:
                known.append(cell.provenance)
        return found

    def _key(self, network: str, asked: Asked) -> tuple[Any, ...]:
        return (
            self.experiment.name, network, asked.partition.name, asked.split, asked.repeat,
            asked.method.name, asked.method.head,
        )  # fmt: skip


def write_results(results: Sequence[Results], folder: Path) -> None:
    """Write results.csv, pooled.csv, means.csv and provenance.json of one or more experiments."""
    table = pd.concat([r.table for r in results], ignore_index=True)
    tables = {
        "results.csv": table,
        "pooled.csv": pd.concat([r.pooled for r in results], ignore_index=True),
        "means.csv": means_over_domains(table),
    }
    for name, content in tables.items():
        with atomic_file(folder / name) as file:
            content.to_csv(file, index=False, float_format="%.9g")
    with atomic_file(folder / "provenance.json") as file:
        file.write(json.dumps([r.provenance for r in results], indent=1).encode())


def means_over_domains(table: pd.DataFrame) -> pd.DataFrame:
    """See :meth:`Results.means`."""
    keys = [key for key in (*KEYS, "kind") if key != "repeat"]
    per_domain = table.groupby([*keys, "domain"], sort=False, dropna=False)[list(SCORES)].mean()
    grouped = per_domain.groupby(keys, sort=False, dropna=False)
    out = grouped.mean()
    out.insert(0, "n_domains", grouped.size())
    repeats = table.groupby(keys, sort=False, dropna=False)["repeat"].nunique()
    out.insert(1, "repeats", repeats)
    for score in ("ece", "gap"):
        errors = grouped[score].apply(lambda values: mean_over_domains(values).standard_error)
        out[f"{score}_standard_error"] = errors
    return out.reset_index()
