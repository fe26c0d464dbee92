"""``python -m benchmarks.shift --data FOLDER OUT``: score every method, write the page.

The scores of each cell are kept in OUT: an interrupted run goes on where it stopped.
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

from benchmarks.shift.page import write_page  # noqa: E402
from benchmarks.shift.problems import draw_cells, partition_cells  # noqa: E402
from benchmarks.shift.scores import score_cell  # noqa: E402


def main() -> None:
    """Parse the arguments, score the cells, write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shift", description=__doc__)
    parser.add_argument("out", type=Path, help="folder of the rows and scores")
    parser.add_argument("--data", type=Path, required=True, help="folder of WISDM and FDU-MTL")
    parser.add_argument("--page", type=Path, help="page to write [default: OUT/shift.md]")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    options = parser.parse_args()
    cells = [*partition_cells(), *draw_cells()]
    score = partial(score_cell, data_folder=options.data, out=options.out)
    with get_context("spawn").Pool(options.jobs) as pool:
        results = list(track(pool.imap(score, cells), "scoring", total=len(cells)))
    command = "python -m benchmarks.shift OUT --data FOLDER --page docs/results/shift.md"
    scores = pd.concat(results, ignore_index=True)
    write_page(scores, options.page or options.out / "shift.md", command)


if __name__ == "__main__":
    main()
