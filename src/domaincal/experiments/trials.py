"""Trials: one method in one repeat of one partition."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

from domaincal.data.splits import SplitBy
from domaincal.experiments.experiment import Experiment
from domaincal.experiments.methods import Method
from domaincal.experiments.partitions import Partition


class Trial(NamedTuple):
    """One method in one repeat of one partition, to be run for each network."""

    partition: Partition
    split: SplitBy
    method: Method
    repeat: int


def trials_of(
    experiment: Experiment,
    *,
    partitions: Sequence[Partition] | None = None,
    methods: Sequence[Method] | None = None,
    splits: Sequence[SplitBy] | None = None,
    repeats: int | None = None,
) -> list[Trial]:
    """Trials of an experiment; each argument replaces what the experiment defines."""
    return [
        Trial(partition, split, method, repeat)
        for partition, split, repeat, method in product(
            experiment.partitions if partitions is None else partitions,
            experiment.splits if splits is None else splits,
            range(experiment.repeats if repeats is None else repeats),
            experiment.methods if methods is None else methods,
        )
    ]
