"""What ``reproduce`` makes: the paper's tables and figures, and overviews of experiments."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

from domaincal._files import atomic_file
from domaincal._typing import Track
from domaincal.errors import InputError
from domaincal.experiments.experiment import Asked, Experiment, asked_by
from domaincal.experiments.figures import (
    accuracy_figure,
    overview_figure,
    reliability_figure,
    save_figure,
    scatter_figure,
    split_figure,
    temperature_figure,
)
from domaincal.experiments.methods import BINNING, MAIN, MD_TS, MSP, TS, Method, heads_of
from domaincal.experiments.partitions import Partition
from domaincal.experiments.result_tables import ResultTable, ece_table, pooled_table
from domaincal.experiments.results import Results, write_results
from domaincal.experiments.runner import run_experiment
from domaincal.experiments.verdicts import verdicts


@dataclass(frozen=True)
class Target:
    """A table or a figure.

    Attributes
    ----------
    name, about : str
    asks : callable
        From an experiment to the cells that are needed of it; none where it has no such partition.
    make : callable
        From the results of experiments to a :class:`ResultTable` or a figure.
    needs : str
        The partition without which there is nothing to show.
    """

    name: str
    about: str
    asks: Callable[[Experiment], list[Asked]]
    make: Callable[[Sequence[Results]], Any]
    needs: str = "the main partition"

    @property
    def is_table(self) -> bool:
        """Whether it is a table rather than a figure."""
        return self.name.startswith(("table", "summary"))


@dataclass(frozen=True)
class Made:
    """A target that was made: its files, and what is printed of it."""

    target: Target
    files: tuple[Path, ...]
    table: ResultTable | None
    sentences: tuple[str, ...]


def _own(experiment: Experiment, methods: Sequence[Method]) -> list[Method]:
    """Methods of a table, each as the experiment defines it under that name, if it does."""
    known = {method.name: method for method in experiment.methods}
    heads = {method.name: method for method in heads_of(known.get(MD_TS.name, MD_TS))}
    return [known.get(method.name, heads.get(method.name, method)) for method in methods]


def _main(methods: Sequence[Method]) -> Callable[[Experiment], list[Asked]]:
    """Cells of the main partition, halved as the experiment says first."""
    return lambda experiment: asked_by(
        experiment, partitions=[experiment.main], methods=_own(experiment, methods),
        splits=experiment.splits[:1],
    )  # fmt: skip


def _named(name: str, methods: Sequence[Method], *, repeats: int | None = None
           ) -> Callable[[Experiment], list[Asked]]:  # fmt: skip
    """Cells of the partitions whose names match."""

    def asks(experiment: Experiment) -> list[Asked]:
        chosen = [p for p in experiment.partitions if fnmatchcase(p.name, name)]
        return asked_by(
            experiment, partitions=chosen, methods=_own(experiment, methods),
            splits=experiment.splits[:1], repeats=repeats,
        )  # fmt: skip

    return asks


def _overviewed(experiment: Experiment) -> list[Partition]:
    """Partitions that the overviews show: with domains kept out, as far as there are any."""
    outside = [p for p in experiment.partitions if p.ood or p.random_ind]
    return outside or list(experiment.partitions)


def _overview(methods: Sequence[Method], *, repeats: int | None = None
              ) -> Callable[[Experiment], list[Asked]]:  # fmt: skip
    return lambda experiment: asked_by(
        experiment, partitions=_overviewed(experiment), methods=_own(experiment, methods),
        splits=experiment.splits[:1], repeats=repeats,
    )  # fmt: skip


def _ece(runs: Sequence[Results], *, methods: Sequence[Method], title: str, paper: int,
         score: str = "ece") -> ResultTable:  # fmt: skip
    return ece_table(runs, methods, title, paper, score)


def _pooled(runs: Sequence[Results]) -> ResultTable:
    title = "Table 4: ECE in % of all rows of InD and of OOD domains together"
    return pooled_table(runs, (MSP, TS, MD_TS), title, 4)


def _summary(runs: Sequence[Results]) -> ResultTable:
    methods = list({m.name: m for run in runs for m in run.experiment.methods}.values())
    bins = " and ".join(dict.fromkeys(str(run.experiment.bins) for run in runs))
    return ece_table(runs, methods, f"Per-domain ECE in %, {bins} bins", None)


def _first(make: Callable[[Results], Any]) -> Callable[[Sequence[Results]], Any]:
    """A figure of one experiment: the first that has what it needs."""
    return lambda runs: make(runs[0])


_PER_DOMAIN = "Per-domain ECE in %"
_TWO = (TS, MD_TS)
_HEADS = heads_of()
_TARGETS = (
    Target("summary", "every partition and method of the experiment", asked_by, _summary),
    Target("domains", "TS against MD-TS in every domain, partition by partition",
           _overview(_TWO), partial(overview_figure, what="domains")),
    Target("accuracy", "predicted against true accuracy, partition by partition",
           _overview((MSP, *_TWO)), partial(overview_figure, what="accuracy")),
    Target("temperatures", "predicted against learned temperatures, partition by partition",
           _overview((MD_TS,), repeats=1), partial(overview_figure, what="temperatures")),
    Target("table-1", "per-domain ECE", _main(MAIN),
           partial(_ece, methods=MAIN, title=f"Table 1: {_PER_DOMAIN}", paper=1)),
    Target("table-2", "error of the accuracy that confidence predicts", _main(MAIN),
           partial(_ece, methods=MAIN, title="Table 2: MAE of the predicted accuracy in %",
                   paper=2, score="gap")),
    Target("table-3", "heads of MD-TS: per-domain ECE", _main(_HEADS),
           partial(_ece, methods=_HEADS, title=f"Table 3: {_PER_DOMAIN}, heads of MD-TS", paper=3)),
    Target("table-4", "ECE of pooled domains", _main((MSP, TS, MD_TS)), _pooled),
    Target("table-5", "other baselines: per-domain ECE", _main(BINNING),
           partial(_ece, methods=BINNING, title=f"Table 5: {_PER_DOMAIN}, other baselines",
                   paper=5)),
    Target("table-6", "per-domain ECE, severity 5 unseen", _named("unseen-severity-5", MAIN),
           partial(_ece, methods=MAIN, title=f"Table 6: {_PER_DOMAIN}, severity 5 unseen",
                   paper=6), "the partition unseen-severity-5"),
    Target("figure-1", "reliability of TS pooled and on one domain; ECE of 41 domains",
           _named("eight-corruptions", (TS,), repeats=1), _first(reliability_figure),
           "the partition eight-corruptions"),
    Target("figure-2", "predicted against learned temperature, 41 domains",
           _named("eight-corruptions", (MD_TS,), repeats=1), _first(temperature_figure),
           "the partition eight-corruptions"),
    Target("figure-3", "TS against MD-TS in every domain, InD and OOD", _main(_TWO),
           scatter_figure),
    Target("figure-4", "predicted against true accuracy of OOD domains", _main(_TWO),
           partial(accuracy_figure, all_networks=False)),
    Target("figure-5", "predicted against true accuracy, network by network", _main(_TWO),
           partial(accuracy_figure, all_networks=True)),
    Target("figure-6", "TS against MD-TS for random InD domains, three seeds",
           _named("random-*", _TWO), _first(split_figure), "partitions named random-..."),
    Target("figure-7", "figure 1 on all domains", _named("all", (TS,), repeats=1),
           _first(reliability_figure), "the partition all"),
    Target("figure-8", "figure 2 on all domains", _named("all", (MD_TS,), repeats=1),
           _first(temperature_figure), "the partition all"),
)  # fmt: skip
#: Everything that can be made, by name.
TARGETS = {target.name: target for target in _TARGETS}


def reproduce(
    names: Sequence[str],
    experiments: Sequence[Experiment],
    folder: str | Path,
    *,
    figures: bool = True,
    track: Track = iter,
    device: Any = "cpu",
) -> tuple[list[Made], list[Results]]:
    """Run what the targets need, and write them to a folder.

    Parameters
    ----------
    names : list of str
        Of targets; ``"all"``: those for which the experiments have what is needed.
    experiments : list of Experiment
    folder : path
        Tables go there as .txt, .md, .tex and .csv, figures as .png and .svg, and results.csv,
        pooled.csv, means.csv and provenance.json with the numbers behind them.
    figures : bool, default True
        Whether to draw; without it, figures are left out.
    track : callable, optional
        Wraps the list of steps that are left, to show progress.
    device : default "cpu"
        Where to fit and score; see :func:`run_experiment`.
    """
    folder = Path(folder)
    names_of = [experiment.name for experiment in experiments]
    twice = next((name for name in names_of if names_of.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"two experiments are named {twice!r}; give each a name of its own.")
    targets = [t for t in _chosen(names, experiments) if figures or t.is_table]
    runs = []
    for experiment in experiments:
        asked = [cell for target in targets for cell in target.asks(experiment)]
        if asked:
            run = run_experiment(experiment, folder, asked=asked, track=track, device=device)
            runs.append(run)
    write_results(runs, folder)
    return [_make(target, runs, folder) for target in targets], runs


def _chosen(names: Sequence[str], experiments: Sequence[Experiment]) -> list[Target]:
    unknown = [name for name in names if name not in TARGETS and name != "all"]
    if unknown or not names:
        raise InputError(
            f"there is no target {', '.join(map(repr, unknown)) or 'named'}; choose from "
            f"{', '.join(TARGETS)}, or all."
        )
    chosen = (
        list(TARGETS.values()) if "all" in names else [TARGETS[n] for n in dict.fromkeys(names)]
    )
    served = [t for t in chosen if any(t.asks(experiment) for experiment in experiments)]
    if "all" not in names:
        for target in chosen:
            if target not in served:
                known = ", ".join(p.name for e in experiments for p in e.partitions)
                raise InputError(
                    f"{target.name} needs {target.needs}, which the experiment has not; it has "
                    f"{known}."
                )
    return served


def _make(target: Target, runs: Sequence[Results], folder: Path) -> Made:
    own = [run.only(target.asks(run.experiment)) for run in runs]
    own = [run for run in own if run.cells]
    made = target.make(own)
    if not target.is_table:
        return Made(target, tuple(save_figure(made, folder / target.name)), None, ())
    sentences = [s for run in own for s in verdicts(run)] if target.name == "summary" else []
    files = _write_table(made, folder / target.name, sentences)
    return Made(target, files, made, tuple(sentences))


def _write_table(made: ResultTable, path: Path, sentences: Sequence[str]) -> tuple[Path, ...]:
    """The four forms of a table."""
    text = "".join(f"{sentence}\n" for sentence in sentences)
    contents = {
        ".txt": made.printed.text() + text,
        ".md": made.printed.markdown() + "".join(f"\n{sentence}\n" for sentence in sentences),
        ".tex": made.printed.latex(),
        ".csv": made.numbers.to_csv(index=False, float_format="%.6g"),
    }
    for suffix, content in contents.items():
        with atomic_file(path.with_suffix(suffix)) as file:
            file.write(content.encode())
    return tuple(path.with_suffix(suffix) for suffix in contents)
