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
#: Title of the page.
DEMO_TITLE = "Digits-C: handwritten digits under 75 corruptions"


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


def demo_data(experiment: Experiment, folder: Path, track: Track = iter) -> CalibrationData:
    """Rows of the first repeat, for the page.

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
    return source.load(experiment.random_state, folder / "made", track)


def corruption_report(
    data: CalibrationData, *, title: str, random_state: int = 0, command: str | None = None
) -> Report:
    """Page about rows with domains such as "fog-3": seven kinds of corruption are unseen.

    Severity 5 counts as new domains without labels. 20 rows of a domain are predicted together.
    """
    labelled, new = split_domains(data, "*-5")
    counts = dict.fromkeys(labelled.domain_names.tolist(), 1)
    _, unseen = CORRUPTION_PARTITIONS["unseen-kinds"].choose(counts, random_state=0)
    return make_report(
        labelled, ood=unseen, unlabelled=new, batch_size=20, random_state=random_state,
        title=title, command=command,
    )  # fmt: skip
