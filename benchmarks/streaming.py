"""Time and memory of fits and scores on a store that is read in blocks.

``python -m benchmarks.streaming FOLDER`` writes a store of 4 GB to FOLDER (float16 logits of 1000
classes, 512 features, 64 domains), prints the tables, and removes it.
``python -m benchmarks.streaming FOLDER --rows 10000 100000 ...`` shows how time and memory grow
with the number of rows (10 classes, 16 features, 64 domains).

Each step runs in a process of its own. Rates count the bytes that were really read. "Cold" means
that the pages of the store were dropped from the cache of the operating system before the step.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

N_DOMAINS = 64
CHUNK = 1 << 16
READ_BYTES = 1 << 22


def make_store(folder: Path, n_rows: int, n_classes: int, n_features: int) -> None:
    """Rows whose temperature depends on the domain; the features tell the domain, with noise."""
    from domaincal import CalibrationData, Store

    random = np.random.default_rng(0)
    centres = random.normal(size=(N_DOMAINS, n_features)) + 1.0
    names = np.array([f"site-{k:02}" for k in range(N_DOMAINS)], dtype=object)
    store = Store(folder)
    for start in range(0, n_rows, CHUNK):
        n = min(CHUNK, n_rows - start)
        domain = random.integers(0, N_DOMAINS, n)
        labels = random.integers(0, n_classes, n)
        logits = random.standard_normal((n, n_classes), np.float32)
        logits[np.arange(n), labels] += 3.0
        logits *= (1.0 + domain / N_DOMAINS)[:, None].astype(np.float32)
        features = random.standard_normal((n, n_features), np.float32) + centres[domain]
        store.append(
            CalibrationData(
                logits.astype(np.float16),
                labels=labels.astype(np.int16),
                features=features.astype(np.float16),
                domains=names[domain],
            )
        )


def drop_cache(folder: Path) -> None:
    """Drop the pages of all files of a folder from the cache of the operating system."""
    for path in folder.rglob("*.npy"):
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def plain_read(folder: Path) -> int:
    """Read all logits into one buffer; return the number of bytes."""
    buffer, total = bytearray(READ_BYTES), 0
    for path in sorted(folder.rglob("logits.npy")):
        with open(path, "rb", buffering=0) as file:
            while taken := file.readinto(buffer):
                total += taken
    return total


def domain_temperatures(folder: Path) -> None:
    """The T_k alone, without the pooled temperature that estimators fit as well."""
    from domaincal import Store
    from domaincal.statistics import LabelledRows, fit_temperature

    rows = Store(folder).rows()
    fit_temperature(LabelledRows(rows.logits, rows.labels, rows.domains.codes, N_DOMAINS))


def fit_md_ts(folder: Path) -> None:
    from domaincal import MultiDomainTemperatureScaling, Store

    MultiDomainTemperatureScaling().fit(Store(folder)).save(folder / "model.safetensors")


def score(folder: Path) -> None:
    from domaincal import Store, load, score_table

    score_table(load(folder / "model.safetensors"), Store(folder))


STEPS = {"T_k": domain_temperatures, "fit MD-TS": fit_md_ts, "score": score}


def run_step(step: str, folder: Path) -> None:
    """Run a step in this process and print what it took, as JSON."""
    from domaincal.io import stored_rows

    if step != "plain":
        warm_up()
    if step == "plain":
        start = time.perf_counter()
        n_bytes = plain_read(folder)
    else:
        counted = [0]
        read_into = stored_rows.ShardFile.read_into

        def counting(self, file, out: np.ndarray, start: int) -> None:
            counted[0] += out.nbytes
            read_into(self, file, out, start)

        stored_rows.ShardFile.read_into = counting
        start = time.perf_counter()
        STEPS[step](folder)
        n_bytes = counted[0]
    seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "bytes": n_bytes, "peak": peak_memory()}))


def warm_up() -> None:
    """Import and load compiled code, which take a second in a new process."""
    import domaincal as dc

    for dtype, n_classes in ((np.float16, 10), (np.float16, 100)):
        data, _ = dc.make_multi_domain(n_domains=3, n_rows=4000, n_classes=n_classes)
        data = dc.CalibrationData(
            data.logits.astype(dtype), data.labels, data.features, domains=data.domains
        )
        dc.score_table(dc.MultiDomainTemperatureScaling().fit(data), data)


def peak_memory() -> int:
    """Peak of the resident memory; ``ru_maxrss`` would include that of the parent process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) * 1024


def measure(step: str, folder: Path, *, threads: int, cold: bool) -> dict[str, float]:
    if cold:
        drop_cache(folder)
    names = ("OMP", "OPENBLAS", "MKL", "NUMBA")
    pinned = {**os.environ, **{f"{name}_NUM_THREADS": str(threads) for name in names}}
    command = [sys.executable, "-m", "benchmarks.streaming", str(folder), "--step", step]
    done = subprocess.run(command, env=pinned, check=True, capture_output=True, text=True)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def rates(folder: Path, console: Console) -> None:
    """Table of one large store."""
    table = Table("step", "threads", "cache", "s", "GB read", "GB/s", "peak MB", title="4 GB store")
    for step in ("plain", *STEPS):
        for threads in (1,) if step == "plain" else (1, 2):
            for cold in (True, False):
                found = measure(step, folder, threads=threads, cold=cold)
                table.add_row(
                    step, str(threads), "cold" if cold else "cached", f"{found['seconds']:.2f}",
                    f"{found['bytes'] / 1e9:.2f}", f"{found['bytes'] / 1e9 / found['seconds']:.2f}",
                    f"{found['peak'] / 1e6:.0f}",
                )  # fmt: skip
    console.print(table)


def growth(folder: Path, rows: list[int], console: Console) -> None:
    """Table of stores of growing length."""
    table = Table("rows", "step", "s", "us a row", "peak MB", title="10 classes, 16 features")
    for n_rows in rows:
        try:
            make_store(folder, n_rows, 10, 16)
            for step in STEPS:
                found = measure(step, folder, threads=2, cold=False)
                table.add_row(
                    f"{n_rows:,}", step, f"{found['seconds']:.2f}",
                    f"{1e6 * found['seconds'] / n_rows:.3f}", f"{found['peak'] / 1e6:.0f}",
                )  # fmt: skip
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="folder for the store; it is removed afterwards")
    parser.add_argument("--gigabytes", type=float, default=4.0)
    parser.add_argument("--rows", type=int, nargs="+")
    parser.add_argument("--step", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        run_step(options.step, options.folder)
        return
    if options.folder.exists():
        parser.error(f"{options.folder} exists; name a new folder.")
    console = Console(width=120)
    if options.rows:
        growth(options.folder, options.rows, console)
        return
    try:
        make_store(options.folder, int(options.gigabytes * 1e9 / (2 * 1512)), 1000, 512)
        rates(options.folder, console)
    finally:
        shutil.rmtree(options.folder, ignore_errors=True)


if __name__ == "__main__":
    main()
