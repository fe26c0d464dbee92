"""Data sets, partitions and random draws of domains; most are those of benchmarks.shift."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

import numpy as np

import domaincal as dc
from benchmarks.shift.problems import MIXTURES, Cell, load, partition_cells, split

#: Numbers of InD domains of the random draws, and how many draws there are.
DRAWS = {"Digits-C": (38, 40), "WISDM": (20, 40), "FDU-MTL": (9, 60)}
#: The same for each file of rows of a network on corrupted images, whose partitions follow.
FILE_DRAWS = (38, 8)
FILE_PARTITIONS = ("severities 2-4", "severity 5", "noise and blur", "kinds")


def cells(files: Mapping[str, Path]) -> Iterator[Cell]:
    """Partitions of all data sets, then random draws; ``files`` are rows of further networks."""
    yield from (cell for cell in partition_cells() if cell.partition != MIXTURES)
    for name in files:
        yield from (Cell(name, 0, partition) for partition in FILE_PARTITIONS)
    for name, (n_ind, n_draws) in {**DRAWS, **dict.fromkeys(files, FILE_DRAWS)}.items():
        yield from (Cell(name, draw, f"draw of {n_ind}", n_ind) for draw in range(n_draws))


def cell_rows(
    cell: Cell, *, folder: Path, cache: Path, files: Mapping[str, Path]
) -> tuple[dc.CalibrationData, dc.CalibrationData]:
    """Rows of the fit, and rows of the OOD domains.

    In a random draw, the fit sees all rows of the InD domains, so that they are like the OOD ones;
    in a partition, a random half.
    """
    data = _read(files[cell.data]) if cell.data in files else load(cell, folder, cache)
    if cell.n_ind is None:
        return split(cell, data)
    random = np.random.default_rng([cell.seed, cell.n_ind])
    shuffled = random.permutation([str(name) for name in data.domain_names])
    return dc.split_domains(data, sorted(shuffled[cell.n_ind :].tolist()))


@lru_cache(maxsize=1)
def _read(path: Path) -> dc.CalibrationData:
    return dc.read(path, max_memory=1 << 40)
