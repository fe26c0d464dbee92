"""Results of an experiment: a tidy table, means over domains, provenance, and their files."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from domaincal._files import atomic_file
from domaincal._version import versions
from domaincal.evaluation.score_table import bin_scores
from domaincal.experiments.experiment import Experiment
from domaincal.experiments.methods import Method
from domaincal.experiments.trial_results import TrialResult
from domaincal.experiments.trials import Trial
from domaincal.metrics import mean_over_domains

#: Columns that identify a trial in the results table.
KEYS = ("data", "network", "partition", "split", "repeat", "method", "head")
#: Columns of scores.
SCORES = ("accuracy", "mean_confidence", "ece", "floor", "excess", "gap", "nll", "brier")
# The pixels of JPEG files depend on libjpeg-turbo, which Pillow and simplejpeg contain: its
# versions 2 and 3 decode incomplete progressive files differently.
_PACKAGES = ("domaincal", "numpy", "scipy", "scikit-learn", "pandas", "numba",
             "imagecorruptions-imaug", "torch", "timm", "pillow", "simplejpeg")  # fmt: skip


@dataclass(frozen=True, eq=False)
class Results:
    """Results of an experiment.

    Attributes
    ----------
    experiment : Experiment
    trial_results : dict
        From (network, Trial) to TrialResult.
    data : dict
        Identity of the data of each network, in the first repeat.
    table : DataFrame
        One row for each network, partition, split, repeat, method, kind (InD or OOD) and domain: n,
        accuracy, mean_confidence, ece, floor, excess, gap, nll, brier; learned, predicted, low and
        high are temperatures, as in :func:`temperature_table`.
    pooled : DataFrame
        The scores of all InD rows together and of all OOD rows together, without nll and brier.
    provenance : dict
        The experiment, the identity and the provenance of its data, and package versions.
    """

    experiment: Experiment
    trial_results: dict[tuple[str, Trial], TrialResult]
    data: dict[str, dict[str, Any]]

    def only(self, trials: Sequence[Trial]) -> Results:
        """The results of the given trials."""
        chosen = set(trials)
        kept = {name: result for name, result in self.trial_results.items() if name[1] in chosen}
        return Results(self.experiment, kept, self.data)

    @property
    def partition_titles(self) -> dict[str, str]:
        """Titles of the partitions, by name."""
        return {trial.partition.name: trial.partition.title for _, trial in self.trial_results}

    @property
    def methods(self) -> dict[str, Method]:
        """Methods of the trials, by name."""
        return {trial.method.name: trial.method for _, trial in self.trial_results}

    @cached_property
    def table(self) -> pd.DataFrame:
        """See the class."""
        tables = []
        for name, result in self.trial_results.items():
            key = pd.DataFrame([self._key(*name)] * len(result.table), columns=list(KEYS))
            tables.append(pd.concat([key, result.table], axis=1))
        return pd.concat(tables, ignore_index=True)

    @cached_property
    def pooled(self) -> pd.DataFrame:
        """See the class."""
        records = []
        for name, result in self.trial_results.items():
            for kind in result.table["kind"].unique():
                sums = result.sums((result.table["kind"] == kind).to_numpy())
                records.append((*self._key(*name), kind, *bin_scores(sums)))
        return pd.DataFrame(records, columns=[*KEYS, "kind", "n", *SCORES[:6]])

    @property
    def provenance(self) -> dict[str, Any]:
        """See the class."""
        trials = [trial for _, trial in self.trial_results]
        return {
            "experiment": self.experiment.name,
            "n_bins": self.experiment.n_bins,
            "repeats": self.experiment.repeats,
            "random_state": self.experiment.random_state,
            "data": self.data,
            "rows": self._data_provenance(),
            "splits": list(dict.fromkeys(trial.split for trial in trials)),
            "partitions": {t.partition.name: t.partition.definition() for t in trials},
            "methods": {name: method.definition() for name, method in self.methods.items()},
            "versions": versions(*_PACKAGES),
            "python": platform.python_version(),
        }

    def means(self) -> pd.DataFrame:
        """Means over domains, of the means over repeats in each domain.

        Returns
        -------
        DataFrame
            One row for each data set, network, partition, split, kind, method and head: n_domains,
            repeats, the mean of every score, and ece_standard_error and gap_standard_error, the
            standard deviation over the domains divided by the root of their number.
        """
        return means_over_domains(self.table)

    def _data_provenance(self) -> dict[str, list[Mapping[str, Any]]]:
        """Provenance of the data of each network; repeats with their own data have their own."""
        found: dict[str, list[Mapping[str, Any]]] = {}
        for (network, _), result in self.trial_results.items():
            known = found.setdefault(network, [])
            if result.provenance not in known:
                known.append(result.provenance)
        return found

    def _key(self, network: str, trial: Trial) -> tuple[Any, ...]:
        """Values of the columns KEYS."""
        return (
            self.experiment.name, network, trial.partition.name, trial.split, trial.repeat,
            trial.method.name, trial.method.head,
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
    means = grouped.mean()
    means.insert(0, "n_domains", grouped.size())
    repeats = table.groupby(keys, sort=False, dropna=False)["repeat"].nunique()
    means.insert(1, "repeats", repeats)
    for score in ("ece", "gap"):
        errors = grouped[score].apply(lambda values: mean_over_domains(values).standard_error)
        means[f"{score}_standard_error"] = errors
    return means.reset_index()
