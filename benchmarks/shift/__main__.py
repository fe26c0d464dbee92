"""``python -m benchmarks.shift OUT --data FOLDER``: score every method, write the page.

With --store, the data are those of networks on corrupted images instead. The scores of each cell
are kept in OUT: an interrupted run goes on where it stopped, and a store is read only if scores
of its network are missing.
"""

import os

# Before numpy is imported: every process works on one cell with one thread.
for name in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
    os.environ[f"{name}_NUM_THREADS"] = "1"

import argparse  # noqa: E402
from functools import partial  # noqa: E402
from multiprocessing import get_context  # noqa: E402
from pathlib import Path  # noqa: E402

import pandas as pd  # noqa: E402
from rich.progress import track  # noqa: E402

from benchmarks.shift.networks import (  # noqa: E402
    domain_path,
    domain_tables,
    network_cells,
    network_rows,
    read_networks,
)
from benchmarks.shift.page import write_network_page, write_page  # noqa: E402
from benchmarks.shift.problems import data_rows, draw_cells, partition_cells  # noqa: E402
from benchmarks.shift.scores import cell_path, score_cell  # noqa: E402


def main() -> None:
    """Parse the arguments, score the cells, write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shift", description=__doc__)
    parser.add_argument("out", type=Path, help="folder of the rows and scores")
    parser.add_argument("--data", type=Path, help="folder of WISDM and FDU-MTL")
    parser.add_argument(
        "--store", action="append", default=[], metavar="NETWORK=FOLDER",
        help="rows of a network on the 76 domains; can be given several times",
    )  # fmt: skip
    parser.add_argument("--page", type=Path, help="page to write [default: OUT/shift.md]")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    parser.add_argument("--device", default="cpu", help="device on which MD-TS is fitted")
    options = parser.parse_args()
    if bool(options.data) == bool(options.store):
        parser.error("pass --data or --store")
    stores = {name: Path(path) for name, _, path in (s.partition("=") for s in options.store)}
    page = options.page or options.out / "shift.md"
    if stores:
        cells = list(network_cells(list(stores)))
        absent = {cell.data for cell in cells if not cell_path(cell, options.out).exists()}
        absent |= {name for name in stores if not domain_path(name, options.out).exists()}
        read_networks({name: path for name, path in stores.items() if name in absent})
        domains = domain_tables(list(stores), options.out)
        write_network_page(_scores(cells, network_rows, options), domains, page)
    else:
        rows = partial(data_rows, folder=options.data, cache=options.out / "rows")
        results = _scores([*partition_cells(), *draw_cells()], rows, options)
        write_page(results, page)


def _scores(cells: list, rows: object, options: argparse.Namespace) -> pd.DataFrame:
    """Scores of all cells. Processes are forked, so that they share the rows of the networks."""
    score = partial(score_cell, rows=rows, out=options.out, device=options.device)
    with get_context("fork").Pool(options.jobs) as pool:
        results = list(track(pool.imap_unordered(score, cells), "scoring", total=len(cells)))
    return pd.concat(results, ignore_index=True)


if __name__ == "__main__":
    main()
