"""The experiment of ``domaincal demo``: the paper's comparison on Digits-C."""

from __future__ import annotations

from dataclasses import replace

from domaincal.experiments.experiment import Experiment
from domaincal.experiments.experiment_file import read_experiment
from domaincal.experiments.methods import BINNING_METHODS, Method, head_methods

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
