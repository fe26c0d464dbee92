"""``python -m benchmarks.distance OUT --data FOLDER``: measure distances, write the page.

The rows of the data sets are those of benchmarks.shift, kept in OUT/rows.
"""

import os

# Before numpy is imported: times are those of one core.
for name in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
    os.environ[f"{name}_NUM_THREADS"] = "1"

import argparse  # noqa: E402
import time  # noqa: E402
from pathlib import Path  # noqa: E402

import pandas as pd  # noqa: E402
from rich.progress import track  # noqa: E402

from benchmarks.distance.cells import measure_cell  # noqa: E402
from benchmarks.distance.certificates import exchangeable_coverage  # noqa: E402
from benchmarks.distance.page import write_page  # noqa: E402
from benchmarks.distance.synthetic import synthetic_bounds  # noqa: E402
from benchmarks.shift.problems import DATA_SETS, MIXTURES, SEEDS, partition_cells  # noqa: E402
from domaincal._warnings import handle_warnings  # noqa: E402


def main() -> None:
    """Parse the arguments, measure all cells, write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.distance", description=__doc__)
    parser.add_argument("out", type=Path, help="folder of the rows")
    parser.add_argument("--data", type=Path, required=True, help="folder of WISDM and FDU-MTL")
    parser.add_argument("--page", type=Path, help="page to write [default: OUT/distance.md]")
    options = parser.parse_args()
    start = time.monotonic()
    cells = [cell for cell in partition_cells() if cell.partition != MIXTURES]
    rows = options.out / "rows"
    with handle_warnings(lambda message, category: None):
        synthetic = synthetic_bounds()
        measured = [measure_cell(cell, options.data, rows) for cell in track(cells, "measuring")]
        covered = pd.concat(
            [exchangeable_coverage(data, seed, options.data, rows)
             for data in DATA_SETS for seed in SEEDS]
        )  # fmt: skip
    domains, verdicts, certificates = (
        pd.concat(tables, ignore_index=True) for tables in zip(*measured, strict=True)
    )
    page = options.page or options.out / "distance.md"
    minutes = (time.monotonic() - start) / 60
    write_page(page, synthetic, domains, verdicts, certificates, covered, minutes)


if __name__ == "__main__":
    main()
