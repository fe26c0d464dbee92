"""``python -m benchmarks.scale OUT [--page PAGE]``: measure, keep in OUT, and write the page.

Three studies: a store of 4 GB (float16 logits of 1000 classes, 512 features), stores of 10,000 to
100,000,000 rows (10 classes, 16 features), and 10 to 100,000 domains. A fourth store has the width
of ImageNet-C (1000 classes, 2048 features). Each step runs in a process of its own, with pinned
threads. Results that are in OUT are not measured again. Stores are made in OUT and removed.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.scale.many_domains import measure_domains
from benchmarks.scale.page import write_page
from benchmarks.scale.stores import drop_cache, make_store

GIGABYTES = 4.0
ROWS = (10_000, 100_000, 1_000_000, 10_000_000, 100_000_000)
DOMAINS = (10, 100, 1_000, 10_000, 100_000)
#: Rows of the store with the width of ImageNet-C: 1 GB.
WIDE_ROWS = 165_000


def run(step: str, folder: Path, *, threads: int, cold: bool) -> dict[str, Any]:
    """Measure a step in a new process."""
    if cold:
        drop_cache(folder)
    names = ("OMP", "OPENBLAS", "MKL", "NUMBA")
    pinned = {**os.environ, **{f"{name}_NUM_THREADS": str(threads) for name in names}}
    command = [sys.executable, "-m", "benchmarks.scale.steps", step, str(folder)]
    done = subprocess.run(command, env=pinned, check=True, capture_output=True, text=True)
    found = json.loads(done.stdout.splitlines()[-1])
    row = {"step": step, "threads": threads, "cold": cold, **found}
    print(row, flush=True)
    return row


def large_store(folder: Path, gigabytes: float) -> list[dict[str, Any]]:
    """Every step on one store, cold and cached, with one and two threads."""
    n_rows = int(gigabytes * 1e9 / (2 * 1512))
    make_store(folder, n_rows, 1000, 512)
    return [
        {"rows": n_rows, **run(step, folder, threads=threads, cold=cold)}
        for step in ("plain", "T_k", "fit MD-TS", "score")
        for threads in ((1,) if step == "plain" else (1, 2))
        for cold in (True, False)
    ]


def wide_store(folder: Path) -> list[dict[str, Any]]:
    """Every step on a store with the width of ImageNet-C."""
    make_store(folder, WIDE_ROWS, 1000, 2048)
    return [
        {"rows": WIDE_ROWS, **run(step, folder, threads=threads, cold=False)}
        for threads in (1, 2)
        for step in ("T_k", "fit MD-TS", "score")
    ]


def growing_rows(folder: Path, rows: tuple[int, ...]) -> list[dict[str, Any]]:
    """Every step on stores of growing length."""
    found = []
    for n_rows in rows:
        make_store(folder, n_rows, 10, 16)
        found += [
            {"rows": n_rows, **run(step, folder, threads=2, cold=False)}
            for step in ("T_k", "fit MD-TS", "score", "fit batch")
        ]
        shutil.rmtree(folder)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--page", type=Path, help="page to write, such as docs/results/scale.md")
    parser.add_argument("--gigabytes", type=float, default=GIGABYTES)
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS)
    parser.add_argument("--domains", type=int, nargs="+", default=DOMAINS)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    store = options.out / "store"
    studies = {
        "large": lambda: large_store(store, options.gigabytes),
        "wide": lambda: wide_store(store),
        "rows": lambda: growing_rows(store, tuple(options.rows)),
        "domains": lambda: measure_domains(tuple(options.domains)),
    }
    results = {}
    for name, study in studies.items():
        path = options.out / f"{name}.json"
        if not path.exists():
            try:
                path.write_text(json.dumps(study(), indent=1))
            finally:
                shutil.rmtree(store, ignore_errors=True)
        results[name] = json.loads(path.read_text())
    if options.page is not None:
        write_page(results, options.page)


if __name__ == "__main__":
    main()
