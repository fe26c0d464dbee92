"""Time of a pass over a store on a local Dask cluster, against one process.

``python -m benchmarks.cluster FOLDER`` writes a store of 1.5 GB to FOLDER (float16 logits of 1000
classes, 512 features, 64 domains), prints the tables, and removes it. ``--rows`` sets its size.

The files are in the cache of the operating system. A pass sums the NLL and its derivatives over all
logits; a pass over the features sums the normal equations. "Nothing" is a pass over the codes of
the domains, which is all overhead.
"""

import argparse
import os
import shutil
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.streaming import N_DOMAINS, make_store

REPEATS = 5


def passes(rows) -> dict:
    """A function for each kind of pass, and the bytes that it reads."""
    from domaincal.statistics import LabelledRows
    from domaincal.statistics.domain_counts import domain_counts
    from domaincal.statistics.normal_equations import sum_normal_equations

    codes, beta = rows.domains.codes, np.ones(N_DOMAINS)
    labelled = LabelledRows(rows.logits, rows.labels, codes, N_DOMAINS)
    part = np.zeros(N_DOMAINS, np.int64)
    n, width = len(rows), rows.logits.row_bytes + rows.labels.row_bytes + 4
    return {
        "nothing": (lambda: domain_counts(codes, N_DOMAINS), 4 * n),
        "logits": (lambda: labelled.sums(beta), width * n),
        "features": (
            lambda: sum_normal_equations(rows.features, codes, part=part),
            (rows.features.row_bytes + 4) * n,
        ),
    }


def measure(rows) -> dict[str, tuple[float, int]]:
    """Median seconds of each pass, after a first one, and its bytes."""
    found = {}
    for name, (run, size) in passes(rows).items():
        run()
        seconds = []
        for _ in range(REPEATS):
            start = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - start)
        found[name] = (float(np.median(seconds)), size)
    return found


def main() -> None:
    from domaincal import MultiDomainTemperatureScaling, Store
    from domaincal.distributed import cluster_client, on_cluster

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--features", type=int, default=512)
    given = parser.parse_args()
    folder = given.folder / "cluster-benchmark"
    make_store(folder, given.rows, given.classes, given.features)
    try:
        table = Table(title=f"{given.rows} rows, {os.cpu_count()} cores")
        for column in ("", "pass", "seconds", "MB", "MB/s", "fit of MD-TS, seconds"):
            table.add_column(column, justify="right" if column else "left")

        def add(title: str, rows) -> None:
            found = measure(rows)
            start = time.perf_counter()
            MultiDomainTemperatureScaling(fit_intercept=True).fit(rows)
            fit = f"{time.perf_counter() - start:.2f}"
            for name, (seconds, size) in found.items():
                rate = f"{size / seconds / 1e6:.0f}"
                table.add_row(title, name, f"{seconds:.3f}", f"{size / 1e6:.0f}", rate, fit)
                title = fit = ""

        rows = Store(folder).rows()
        os.environ["NUMBA_NUM_THREADS"] = "1"
        add("one process, one thread", rows)
        del os.environ["NUMBA_NUM_THREADS"]
        add("one process, all cores", rows)
        for workers in (1, 2):
            with cluster_client(workers=workers) as client:
                add(f"cluster of {workers}", on_cluster(rows, client))
        Console(width=110).print(table)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
