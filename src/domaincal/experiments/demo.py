"""The embedded benchmark: the paper's comparison on corrupted digits, made on the spot."""

from dataclasses import replace

from domaincal.experiments.experiment import Experiment, read_experiment
from domaincal.experiments.methods import BINNING, Method, heads_of

#: What the demo makes of it.
TARGETS = ("summary", "domains", "accuracy", "temperatures")


def demo_experiment(
    *, seed: int = 0, repeats: int = 5, heads: bool = False, binning: bool = False
) -> Experiment:
    """Digits-C on the three partitions of the paper's kind: unseen severities, and unseen types.

    Parameters
    ----------
    seed : int, default 0
        Of the first repeat; the others follow.
    repeats : int, default 5
    heads, binning : bool, default False
        Also the heads of MD-TS, also the binning methods.
    """
    shipped = read_experiment("digits-c")
    more: list[Method] = []
    if heads:
        more += [Method(f"MD-TS {method.name}", method.text) for method in heads_of()[1:]]
    if binning:
        more += BINNING
    return replace(
        shipped,
        partitions=shipped.partitions[:3],
        methods=(*shipped.methods[:3], *more, *shipped.methods[3:]),
        repeats=repeats,
        seed=seed,
        splits=shipped.splits[:1],
    )
