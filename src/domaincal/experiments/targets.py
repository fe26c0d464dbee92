"""Targets of ``reproduce``: the paper's tables and figures, and overviews of experiments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from domaincal.errors import InputError
from domaincal.experiments.experiment import Experiment
from domaincal.experiments.figures import (
    accuracy_figure,
    overview_figure,
    reliability_figure,
    scatter_figure,
    split_figure,
    temperature_figure,
)
from domaincal.experiments.methods import (
    BINNING_METHODS,
    MAIN_METHODS,
    MD_TS,
    MSP,
    ONE_VS_REST_METHODS,
    TS,
    Method,
    head_methods,
)
from domaincal.experiments.paper_tables import ResultTable, ece_table, pooled_table
from domaincal.experiments.partitions import Partition
from domaincal.experiments.results import Results
from domaincal.experiments.trials import Trial, trials_of


@dataclass(frozen=True)
class Target:
    """A table or a figure.

    Attributes
    ----------
    name, about : str
        Name, and a few words for lists.
    trials : callable
        From an experiment to the trials that the target needs; no trials where the experiment
        lacks the partition.
    make : callable
        From the results of experiments to a :class:`ResultTable` or a matplotlib figure.
    needs : str
        Description of the partition that the target needs.
    reading : str
        How to read a figure: what is good.
    """

    name: str
    about: str
    trials: Callable[[Experiment], list[Trial]]
    make: Callable[[Sequence[Results]], Any]
    needs: str = "the main partition"
    reading: str = ""

    @property
    def caption(self) -> str:
        """What the target shows, and how to read it."""
        about = f"{self.about[0].upper()}{self.about[1:]}."
        return f"{about} {self.reading}" if self.reading else about

    @property
    def is_table(self) -> bool:
        """Whether it is a table rather than a figure."""
        return self.name.startswith(("table", "summary"))


def select_targets(names: Sequence[str], experiments: Sequence[Experiment]) -> list[Target]:
    """Targets by name; ``"all"`` selects those whose partitions the experiments have."""
    unknown = [name for name in names if name not in TARGETS and name != "all"]
    if unknown or not names:
        problem = f"there is no target {', '.join(map(repr, unknown))}"
        choices = ", ".join(TARGETS)
        raise InputError(f"{problem if names else 'names is empty'}; choose from {choices}, all.")
    if "all" in names:
        return [t for t in TARGETS.values() if any(t.trials(e) for e in experiments)]
    chosen = [TARGETS[name] for name in dict.fromkeys(names)]
    for target in chosen:
        if not any(target.trials(experiment) for experiment in experiments):
            known = ", ".join(p.name for e in experiments for p in e.partitions)
            raise InputError(
                f"{target.name} needs {target.needs}, which the experiment does not have; its "
                f"partitions are {known}."
            )
    return chosen


def _as_defined(experiment: Experiment, methods: Sequence[Method]) -> list[Method]:
    """The methods; one that the experiment defines under the same name takes its place."""
    known = {method.name: method for method in experiment.methods}
    heads = {method.name: method for method in head_methods(known.get(MD_TS.name, MD_TS))}
    return [known.get(method.name, heads.get(method.name, method)) for method in methods]


def _trials(
    partitions: Callable[[Experiment], Sequence[Partition]],
    methods: Sequence[Method],
    repeats: int | None = None,
) -> Callable[[Experiment], list[Trial]]:
    """Trials of some partitions and methods, in the first split of the experiment."""
    return lambda experiment: trials_of(
        experiment, partitions=partitions(experiment), methods=_as_defined(experiment, methods),
        splits=experiment.splits[:1], repeats=repeats,
    )  # fmt: skip


def _main(experiment: Experiment) -> list[Partition]:
    return [experiment.main]


def _named(pattern: str) -> Callable[[Experiment], list[Partition]]:
    """Partitions whose names match."""
    return lambda experiment: [p for p in experiment.partitions if fnmatchcase(p.name, pattern)]


def _overview(experiment: Experiment) -> list[Partition]:
    """Partitions with OOD domains, or all partitions if none has them."""
    with_ood = [p for p in experiment.partitions if p.ood or p.random_ind]
    return with_ood or list(experiment.partitions)


def _ece_table(
    runs: Sequence[Results],
    *,
    methods: Sequence[Method],
    title: str,
    paper: int,
    score: str = "ece",
) -> ResultTable:
    return ece_table(runs, methods, title, paper, score)


def _pooled_table(runs: Sequence[Results]) -> ResultTable:
    title = "Table 4: ECE in % of all rows of InD and of OOD domains together"
    return pooled_table(runs, (MSP, TS, MD_TS), title, 4)


def _summary(runs: Sequence[Results]) -> ResultTable:
    methods = list({m.name: m for run in runs for m in run.experiment.methods}.values())
    n_bins = " and ".join(dict.fromkeys(str(run.experiment.n_bins) for run in runs))
    return ece_table(runs, methods, f"Per-domain ECE in %, {n_bins} bins", None)


def _of_first(make: Callable[[Results], Any]) -> Callable[[Sequence[Results]], Any]:
    """A figure of the first experiment that has the trials."""
    return lambda runs: make(runs[0])


_PER_DOMAIN = "Per-domain ECE in %"
_SCATTER = (
    "One point for each domain. Below the diagonal: MD-TS has the lower ECE. Legends count these "
    "domains."
)
_ACCURACY = (
    "One point for each domain and method. On the diagonal: mean confidence equals accuracy; below "
    "it: the method is too confident. MAE: mean of |confidence - accuracy|, lower is better."
)
_TEMPERATURE = (
    "One point for each domain. On the diagonal: the predicted temperature is the one that the "
    "domain needs; above it: too low."
)
_RELIABILITY = (
    "Left and middle, points on the diagonal: confidence equals accuracy. Right: lower is better; "
    "points above the dotted line: the ECE of pooled rows hides how bad these domains are."
)
_TWO = (TS, MD_TS)
_HEADS = head_methods()
_BASELINES = (*BINNING_METHODS, *ONE_VS_REST_METHODS)
_TARGETS = (
    Target("summary", "every partition and method of the experiment", trials_of, _summary),
    Target("domains", "ECE of TS against MD-TS in every domain, partition by partition",
           _trials(_overview, _TWO), partial(overview_figure, what="domains"), reading=_SCATTER),
    Target("accuracy", "true against predicted accuracy, partition by partition",
           _trials(_overview, (MSP, *_TWO)), partial(overview_figure, what="accuracy"),
           reading=_ACCURACY),
    Target("temperatures", "learned against predicted temperatures, partition by partition",
           _trials(_overview, (MD_TS,), 1), partial(overview_figure, what="temperatures"),
           reading=_TEMPERATURE),
    Target("table-1", "per-domain ECE", _trials(_main, MAIN_METHODS),
           partial(_ece_table, methods=MAIN_METHODS, title=f"Table 1: {_PER_DOMAIN}", paper=1)),
    Target("table-2", "error of the accuracy that confidence predicts",
           _trials(_main, MAIN_METHODS),
           partial(_ece_table, methods=MAIN_METHODS,
                   title="Table 2: MAE of the predicted accuracy in %", paper=2, score="gap")),
    Target("table-3", "heads of MD-TS: per-domain ECE", _trials(_main, _HEADS),
           partial(_ece_table, methods=_HEADS, title=f"Table 3: {_PER_DOMAIN}, heads of MD-TS",
                   paper=3)),
    Target("table-4", "ECE of pooled domains", _trials(_main, (MSP, TS, MD_TS)), _pooled_table),
    Target("table-5", "other baselines: per-domain ECE", _trials(_main, _BASELINES),
           partial(_ece_table, methods=_BASELINES,
                   title=f"Table 5: {_PER_DOMAIN}, other baselines", paper=5)),
    Target("table-6", "per-domain ECE, severity 5 unseen",
           _trials(_named("unseen-severity-5"), MAIN_METHODS),
           partial(_ece_table, methods=MAIN_METHODS,
                   title=f"Table 6: {_PER_DOMAIN}, severity 5 unseen", paper=6),
           "the partition unseen-severity-5"),
    Target("figure-1", "reliability of TS pooled and on one domain; ECE of 41 domains",
           _trials(_named("eight-corruptions"), (TS,), 1), _of_first(reliability_figure),
           "the partition eight-corruptions", _RELIABILITY),
    Target("figure-2", "learned against predicted temperature, 41 domains",
           _trials(_named("eight-corruptions"), (MD_TS,), 1), _of_first(temperature_figure),
           "the partition eight-corruptions", _TEMPERATURE),
    Target("figure-3", "ECE of TS against MD-TS in every domain, InD and OOD",
           _trials(_main, _TWO), scatter_figure, reading=_SCATTER),
    Target("figure-4", "true against predicted accuracy of OOD domains", _trials(_main, _TWO),
           partial(accuracy_figure, all_networks=False), reading=_ACCURACY),
    Target("figure-5", "true against predicted accuracy, network by network", _trials(_main, _TWO),
           partial(accuracy_figure, all_networks=True), reading=_ACCURACY),
    Target("figure-6", "ECE of TS against MD-TS for random InD domains, three seeds",
           _trials(_named("random-*"), _TWO), _of_first(split_figure),
           "partitions named random-...", _SCATTER),
    Target("figure-7", "figure 1 on all domains", _trials(_named("all"), (TS,), 1),
           _of_first(reliability_figure), "the partition all", _RELIABILITY),
    Target("figure-8", "figure 2 on all domains", _trials(_named("all"), (MD_TS,), 1),
           _of_first(temperature_figure), "the partition all", _TEMPERATURE),
)  # fmt: skip
#: All targets, by name.
TARGETS = {target.name: target for target in _TARGETS}
