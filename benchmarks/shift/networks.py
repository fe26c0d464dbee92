"""Networks on corrupted images, whose rows domaincal reproduce leaves in stores in made/.

All processes share one copy of the rows of a network.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

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
    """Cells of all networks, one repeat after the other: an interrupted run leaves whole ones."""
    for repeat in REPEATS:
        for network in networks:
            for partition in PARTITIONS:
                yield Cell(network, repeat, partition, is_network=True)
            if repeat == 0:
                yield Cell(network, repeat, MIXTURES, is_network=True)
    for network in networks:
        for n_ind in DRAWS:
            yield Cell(network, n_ind, f"draw of {n_ind}", n_ind, is_network=True)


def read_networks(stores: dict[str, Path]) -> None:
    """Read the rows of the networks; processes that are forked later share them."""
    for network, path in stores.items():
        data = dc.read(path, max_memory=1 << 40)
        # Only these arrays: rows that are chosen are copied in every process.
        _rows[network] = dc.CalibrationData(
            data.logits, labels=data.labels, features=data.features, domains=data.domains
        )


def domain_path(network: str, out: Path) -> Path:
    """File of the table of the domains of a network."""
    return out / "domains" / f"{network}.csv"


def domain_tables(networks: list[str], out: Path) -> pd.DataFrame:
    """Accuracy, T_k and mean norm of the features of each domain, kept in OUT/domains."""
    tables = {}
    for network in networks:
        path = domain_path(network, out)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            _domain_table(_rows[network]).to_csv(path, index=False)
        tables[network] = pd.read_csv(path)
    return pd.concat(tables, names=["network"]).reset_index(level=0)


def _domain_table(data: dc.CalibrationData) -> pd.DataFrame:
    """The table of one network, over all its rows."""
    temperatures = dc.DomainTemperatureScaling().fit(data).domain_temperatures_
    hits = np.asarray(data.logits).argmax(axis=1) == data.labels
    norms = np.sqrt(np.einsum("ij,ij->i", data.features, data.features, dtype=np.float32))
    rows = pd.DataFrame({"domain": data.domains, "accuracy": hits, "norm": norms})
    table = rows.groupby("domain", sort=False).mean()
    table.insert(1, "temperature", temperatures)
    return table.reset_index()


def network_rows(cell: Cell) -> tuple[dc.CalibrationData, dc.CalibrationData]:
    """Rows of the fit and rows that are scored."""
    return split(cell, _rows[cell.data])
