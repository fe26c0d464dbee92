"""The experiment of ``domaincal demo``: the paper's comparison on Digits-C."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from domaincal._typing import Track
from domaincal.data import CalibrationData, split_domains
from domaincal.experiments.experiment import Experiment
from domaincal.experiments.experiment_file import read_experiment
from domaincal.experiments.methods import BINNING_METHODS, Method, head_methods
from domaincal.experiments.partitions import CORRUPTION_PARTITIONS
from domaincal.report import Report, make_report

#: Targets that the demo makes.
DEMO_TARGETS = ("summary", "domains", "accuracy", "temperatures")


def demo_experiment(
    *, random_state: int = 0, repeats: int = 5, heads: bool = False, binning: bool = False
) -> Experiment:
    """Digits-C on three partitions: severities 2, 3, 4, severity 5, and noise and blur unseen.

    Parameters
    ----------
    random_state : int, default 0
        Seed of the first repeat; the next repeats use the next integers.
    repeats : int, default 5
    heads : bool, default False
        Whether to add the other heads of MD-TS.
    binning : bool, default False
        Whether to add the binning methods.
    """
    shipped = read_experiment("digits-c")
    more: list[Method] = []
    if heads:
        more += [Method(f"MD-TS {method.name}", method.text) for method in head_methods()[1:]]
    if binning:
        more += BINNING_METHODS
    return replace(
        shipped,
        partitions=shipped.partitions[:3],
        methods=(*shipped.methods[:3], *more, *shipped.methods[3:]),
        repeats=repeats,
        random_state=random_state,
        splits=shipped.splits[:1],
    )


def demo_data(
    experiment: Experiment, folder: Path, track: Track = iter
) -> tuple[CalibrationData, CalibrationData]:
    """Rows of the first repeat for the page: labelled ones, and those of severity 5 as new ones.

    Parameters
    ----------
    experiment : Experiment
        From :func:`demo_experiment`.
    folder : path
        Folder of the experiment's results.
    track : callable, optional
        Wraps the list of corruptions to make, to show progress.
    """
    (source,) = experiment.sources
    return split_domains(source.load(experiment.random_state, folder / "made", track), "*-5")


def demo_report(
    experiment: Experiment,
    data: CalibrationData,
    new: CalibrationData,
    *,
    command: str | None = None,
) -> Report:
    """Page about the rows of :func:`demo_data`: seven kinds of corruption are unseen.

    20 rows of a domain are predicted together.
    """
    counts = dict.fromkeys(data.domain_names.tolist(), 1)
    _, unseen = CORRUPTION_PARTITIONS["unseen-kinds"].choose(counts, random_state=0)
    return make_report(
        data, ood=unseen, unlabelled=new, batch_size=20, random_state=experiment.random_state,
        title="Digits-C: handwritten digits under 75 corruptions", command=command,
    )  # fmt: skip
