"""Networks on corrupted images, whose rows domaincal reproduce leaves in stores in made/.

All processes share one copy of the rows of a network.
"""

from collections.abc import Iterator
from pathlib import Path

import domaincal as dc
from benchmarks.shift.problems import MIXTURES, Cell, split

REPEATS = range(2)
#: The partitions by severity and by kind of corruption.
PARTITIONS = (
    "unseen-severities", "unseen-severity-5", "unseen-types", "unseen-kinds", "unseen-noise",
    "unseen-blur", "unseen-weather", "unseen-digital",
)  # fmt: skip
#: Numbers of InD domains of the random draws, one draw for each.
DRAWS = range(3, 13)

_rows: dict[str, dc.CalibrationData] = {}


def network_cells(networks: list[str]) -> Iterator[Cell]:
    """Cells of all networks; those that take longest come first."""
    for partition in PARTITIONS:
        for network in networks:
            for repeat in REPEATS:
                yield Cell(network, repeat, partition, is_network=True)
    for network in networks:
        yield Cell(network, 0, MIXTURES, is_network=True)
        for n_ind in DRAWS:
            yield Cell(network, n_ind, f"draw of {n_ind}", n_ind, is_network=True)


def read_networks(stores: dict[str, Path]) -> None:
    """Read the rows of the networks, before the processes are made."""
    for network, path in stores.items():
        data = dc.read(path, max_memory=1 << 40)
        # Only these arrays: rows that are chosen are copied in every process.
        _rows[network] = dc.CalibrationData(
            data.logits, labels=data.labels, features=data.features, domains=data.domains
        )


def network_rows(cell: Cell) -> tuple[dc.CalibrationData, dc.CalibrationData]:
    """Rows of the fit and rows that are scored."""
    return split(cell, _rows[cell.data])
