"""``python -m benchmarks.accuracy OUT --data FOLDER``: predict accuracies, write the page.

The errors of each cell are kept in OUT: an interrupted run goes on where it stopped. The rows are
those of benchmarks.shift, kept in OUT/rows.
"""

import os

# Before numpy is imported: one thread.
for name in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
    os.environ[f"{name}_NUM_THREADS"] = "1"

import argparse  # noqa: E402
from functools import partial  # noqa: E402
from pathlib import Path  # noqa: E402

import pandas as pd  # noqa: E402
from rich.progress import track  # noqa: E402

from benchmarks.accuracy.page import write_page  # noqa: E402
from benchmarks.accuracy.problems import cell_rows, cells  # noqa: E402
from benchmarks.accuracy.scores import score_cell  # noqa: E402


def main() -> None:
    """Parse the arguments, score the cells, write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    parser.add_argument("out", type=Path, help="folder of the rows and errors")
    parser.add_argument("--data", type=Path, required=True, help="folder of WISDM and FDU-MTL")
    parser.add_argument(
        "--rows", action="append", default=[], metavar="NAME=FILE",
        help="rows of a network on the 76 domains; can be given several times",
    )  # fmt: skip
    parser.add_argument("--page", type=Path, help="page to write [default: OUT/accuracy.md]")
    options = parser.parse_args()
    files = {name: Path(path) for name, _, path in (s.partition("=") for s in options.rows)}
    rows = partial(cell_rows, folder=options.data, cache=options.out / "rows", files=files)
    results = [
        score_cell(cell, rows, options.out) for cell in track(list(cells(files)), "estimating")
    ]
    scores = pd.concat(results, ignore_index=True)
    write_page(scores, options.page or options.out / "accuracy.md")


if __name__ == "__main__":
    main()
