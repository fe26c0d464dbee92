"""The experiment: its data, partitions, methods and repeats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from domaincal._validation import check_count, check_names, check_option
from domaincal.data.splits import SplitBy
from domaincal.errors import InputError
from domaincal.experiments.data_sources import DataSource
from domaincal.experiments.methods import MAIN_METHODS, Method
from domaincal.experiments.partitions import CORRUPTION_PARTITIONS, Partition

#: Largest ``n_bins`` and ``repeats``.
MAX_COUNT = 10_000
#: Largest number of trials: networks x partitions x splits x repeats x methods.
MAX_TRIALS = 100_000


@dataclass(frozen=True)
class Experiment:
    """Data, partitions, methods and repeats: everything that decides the numbers.

    Parameters
    ----------
    name : str
        Name of the data set in tables. ImageNet-C, RxRx1 and GLDv2 are those of the paper.
    sources : tuple of DataSource
        One for each network.
    partitions : tuple of Partition
        The first is the main partition, which most tables show.
    methods : tuple of Method
    n_bins : int, default 15
        Number of bins of the ECE, at most 10,000.
    repeats : int, default 1
        Number of random splits, at most 10,000. Repeat r uses ``random_state + r``.
    random_state : int, default 0
        Seed of the first repeat.
    splits : tuple of {"row", "group"}
        How an InD domain is split into a half to fit and a half to score: by rows, as in the
        paper, or by groups, so that e.g. no image is in both halves.
    """

    name: str
    sources: tuple[DataSource, ...]
    partitions: tuple[Partition, ...] = (CORRUPTION_PARTITIONS["all"],)
    methods: tuple[Method, ...] = MAIN_METHODS
    n_bins: int = 15
    repeats: int = 1
    random_state: int = 0
    splits: tuple[SplitBy, ...] = ("row",)

    def __post_init__(self) -> None:
        self._check_counts()
        for split in self.splits:
            check_option(split, "splits", ("row", "group"))
        _require_unique("data", [source.network for source in self.sources])
        _require_unique("partitions", [partition.name for partition in self.partitions])
        _require_unique("methods", [method.name for method in self.methods])
        for source in self.sources:
            source.check()
        texts = [self.name, *(source.network for source in self.sources)]
        texts += [text for p in self.partitions for text in (p.name, p.title)]
        texts += [method.name for method in self.methods]
        check_names(texts, f"the experiment {self.name[:40]!r}")
        for text in texts:
            if not text.isprintable():
                raise InputError(
                    f"the name {text!r} has characters that cannot be printed; remove them."
                )

    def _check_counts(self) -> None:
        """Check the counts, which decide the cost of the experiment."""
        check_count(self.random_state, "random_state", minimum=0)
        for key in ("n_bins", "repeats"):
            if check_count(getattr(self, key), key) > MAX_COUNT:
                raise InputError(f"{key} must be at most {MAX_COUNT}, got {getattr(self, key)}.")
        lists = ("sources", "partitions", "methods", "splits")
        for key in lists:
            if not getattr(self, key):
                raise InputError(f"{key} of {self.name!r} is empty; give at least one.")
        n_trials = self.repeats * prod(len(getattr(self, key)) for key in lists)
        if n_trials > MAX_TRIALS:
            raise InputError(
                f"the experiment has {n_trials} trials (networks x partitions x splits x repeats "
                f"x methods), but at most {MAX_TRIALS} are possible; lower repeats, or divide it."
            )

    @property
    def main(self) -> Partition:
        """The main partition, which most tables show."""
        return self.partitions[0]


def select_networks(experiments: Sequence[Experiment], networks: Sequence[str]) -> list[Experiment]:
    """Keep the named networks of each experiment; drop experiments that have none of them."""
    known = dict.fromkeys(source.network for e in experiments for source in e.sources)
    for name in networks:
        if name not in known:
            where = " and ".join(experiment.name for experiment in experiments)
            raise InputError(
                f"there is no network {name!r} in {where}; choose from {', '.join(known)}."
            )
    chosen = [tuple(s for s in e.sources if s.network in networks) for e in experiments]
    pairs = zip(experiments, chosen, strict=True)
    return [replace(experiment, sources=sources) for experiment, sources in pairs if sources]


def _require_unique(key: str, names: Sequence[str]) -> None:
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise InputError(f"{key} has the name {twice!r} twice; give each entry its own name.")
