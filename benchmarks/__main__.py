"""``python -m benchmarks [KIND ...]``: every entry on every problem, one table for each problem."""

import json
import os
import platform
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.problems import (
    ABLATION,
    APPENDS,
    BINNING,
    ESTIMATE,
    FILES,
    MONITOR,
    MULTI_DOMAIN,
    PREDICTIONS,
    TEMPERATURE,
    Problem,
)

LIBRARIES = {
    "TEMPERATURE": ("plain_numpy", "ours", "scikit_learn", "probmetrics_", "netcal_"),
    "PREDICTIONS": ("plain_numpy", "ours"),
    "MULTI_DOMAIN": ("ours", "scikit_learn"),
    "ABLATION": ("ours",),
    "ESTIMATE": ("plain_numpy", "ours"),
    "BINNING": ("ours", "plain_numpy"),
    "FILES": ("plain_numpy", "ours"),
    "APPENDS": ("ours",),
    "MONITOR": ("plain_numpy", "ours"),
}
PACKAGES = ("domaincal", "numpy", "numba", "scikit-learn", "probmetrics", "netcal", "torch")
PLAIN_PASS = "plain pass"
# A temperature counts as the optimum when its mean NLL is this close to the best one found.
OPTIMUM = 1e-6


def main() -> None:
    threads = str(len(os.sched_getaffinity(0)))
    names = ("OMP", "OPENBLAS", "MKL", "NUMBA")
    pinned = {**os.environ, **{f"{name}_NUM_THREADS": threads for name in names}}
    console = Console(width=120)
    console.print(f"{platform.processor() or platform.machine()}, {threads} threads, ", end="")
    console.print(", ".join(f"{package} {version(package)}" for package in PACKAGES))
    kinds = {
        "TEMPERATURE": TEMPERATURE, "PREDICTIONS": PREDICTIONS, "MULTI_DOMAIN": MULTI_DOMAIN,
        "ABLATION": ABLATION,
        "ESTIMATE": ESTIMATE, "MONITOR": MONITOR, "BINNING": BINNING, "FILES": FILES,
        "APPENDS": APPENDS,
    }  # fmt: skip
    for kind in sys.argv[1:] or kinds:
        for problem in kinds[kind]:
            console.print(_table(kind, problem, pinned))


def _table(kind: str, problem: Problem, environment: dict[str, str]) -> Table:
    data = problem.make()
    with tempfile.TemporaryDirectory() as folder:
        for name, array in data.items():
            np.save(Path(folder) / f"{name}.npy", array)
        results = {
            entry: _measure(library, kind, entry, folder, problem.repeats, environment)
            for library in LIBRARIES[kind]
            for entry in _entries(library, kind, environment)
        }
    if kind == "TEMPERATURE":
        return _temperature_table(problem, data, results)
    if kind == "PREDICTIONS":
        return _predictions_table(problem, results)
    if kind == "ABLATION":
        return _ablation_table(problem, results)
    if kind == "ESTIMATE":
        return _estimate_table(problem, results)
    if kind == "FILES":
        return _files_table(problem, data, results)
    if kind == "APPENDS":
        return _appends_table(problem, results)
    if kind == "MONITOR":
        return _monitor_table(problem, data, results)
    ours = results["domaincal"]["seconds"]
    table = _new_table(problem.name, "seconds", "times ours", "extra memory", "result")
    for entry, r in results.items():
        table.add_row(
            entry, _seconds(r), f"{r['seconds'] / ours:.1f}", _bytes(r), f"{r['value']:.10g}"
        )
    return table


def _predictions_table(problem: Problem, results: dict) -> Table:
    table = _new_table(problem.name, "milliseconds", "times read and write", "extra memory")
    plain = results["read and write"]["seconds"]
    for entry, r in results.items():
        table.add_row(entry, f"{1e3 * r['seconds']:.1f}", f"{r['seconds'] / plain:.1f}", _bytes(r))
    return table


def _ablation_table(problem: Problem, results: dict) -> Table:
    table = _new_table(problem.name, "seconds", "so far", "times TS", "extra memory", "mean ECE")
    so_far = 0.0
    for entry, r in results.items():
        so_far += r["seconds"]
        table.add_row(
            entry, f"{r['seconds']:.2f}", f"{so_far:.1f}",
            f"{r['seconds'] / results['TS']['seconds']:.0f}", _bytes(r), f"{r['value']:.4f}",
        )  # fmt: skip
    table.caption = "fit on all rows, confidences of all rows, ECE of each domain"
    return table


def _estimate_table(problem: Problem, results: dict) -> Table:
    table = _new_table(problem.name, "seconds", "plain passes", "extra memory")
    plain = results[PLAIN_PASS]["seconds"]
    for entry, r in results.items():
        table.add_row(entry, _seconds(r), f"{r['seconds'] / plain:.1f}", _bytes(r))
    table.caption = "a plain pass sums the logits and the features"
    return table


def _files_table(problem: Problem, data: dict[str, np.ndarray], results: dict) -> Table:
    size = sum(array.nbytes for array in data.values())
    table = _new_table(problem.name, "seconds", "GB/s", "times numpy", "extra memory")
    for entry, r in results.items():
        plain = results["numpy.load" if "load" in entry or "read" in entry else "numpy.save"]
        table.add_row(
            entry, f"{r['seconds']:.2f}", f"{size / r['seconds'] / 1e9:.2f}",
            f"{r['seconds'] / plain['seconds']:.1f}", _bytes(r),
        )  # fmt: skip
    table.caption = f"{size / 1e6:.0f} MB; our writes reach the disk, with checksums"
    return table


def _appends_table(problem: Problem, results: dict) -> Table:
    first = next(iter(results.values()))["seconds"]
    table = _new_table(problem.name, "milliseconds", "times the first")
    for entry, r in results.items():
        table.add_row(entry, f"{1e3 * r['seconds']:.2f}", f"{r['seconds'] / first:.2f}")
    table.caption = "each append reaches the disk"
    return table


def _monitor_table(problem: Problem, data: dict[str, np.ndarray], results: dict) -> Table:
    table = _new_table(problem.name, "microseconds a row", "plain passes", "extra memory")
    for entry, r in results.items():
        table.add_row(
            entry, f"{1e6 * r['seconds'] / len(data['logits']):.2f}",
            f"{r['seconds'] / results[PLAIN_PASS]['seconds']:.0f}", _bytes(r),
        )  # fmt: skip
    return table


def _temperature_table(problem: Problem, data: dict[str, np.ndarray], results: dict) -> Table:
    nll = {e: _nll(data["logits"], data["labels"], r["value"]) for e, r in results.items()}
    best = np.nanmin(list(nll.values()))
    ours = results["domaincal"]["seconds"]
    table = _new_table(
        problem.name, "seconds", "times ours", "extra memory", "of logits", "T", "NLL", "above best"
    )
    for entry, r in results.items():
        reached = nll[entry] - best
        verdict = "" if np.isnan(reached) else f"{reached:.1e}"
        if reached > OPTIMUM:
            verdict += " (missed)"
        share = r["extra_bytes"] / data["logits"].nbytes
        table.add_row(
            entry, _seconds(r), f"{r['seconds'] / ours:.2f}", _bytes(r), f"{100 * share:.1f}%",
            *("" if np.isnan(v) else f"{v:.7f}" for v in (r["value"], nll[entry])), verdict,
        )  # fmt: skip
    peers = {
        e: r["seconds"] for e, r in results.items()
        if e != "domaincal" and nll[e] - best <= OPTIMUM
    }  # fmt: skip
    passes = ours / results[PLAIN_PASS]["seconds"]
    table.caption = f"{passes:.1f} plain passes"
    if peers:
        fastest = min(peers, key=peers.__getitem__)
        ratio = peers[fastest] / ours
        table.caption += (
            f"; {ratio:.1f} times as fast as {fastest}, the fastest peer that finds the optimum"
        )
    return table


def _entries(library: str, kind: str, environment: dict[str, str]) -> list[str]:
    code = (
        "import warnings, json; warnings.simplefilter('ignore');"
        f"from benchmarks.libraries import {library} as m; print(json.dumps(list(m.{kind})))"
    )
    return list(json.loads(_run(["-c", code], environment)))


def _measure(
    library: str, kind: str, entry: str, folder: str, repeats: int, environment: dict[str, str]
) -> dict[str, float]:
    arguments = ["-m", "benchmarks.measure", library, kind, entry, folder, str(repeats)]
    print(f"{entry} ...", file=sys.stderr, flush=True)
    return dict(json.loads(_run(arguments, environment)))


def _run(arguments: list[str], environment: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout.splitlines()[-1]


def _nll(logits: np.ndarray, labels: np.ndarray, temperature: float) -> float:
    """Mean NLL in float64, in blocks."""
    total = 0.0
    for start in range(0, len(labels), 10_000):
        z = logits[start : start + 10_000].astype(np.float64) / temperature
        y = labels[start : start + 10_000]
        z -= z.max(axis=1, keepdims=True)
        total += (np.log(np.exp(z).sum(axis=1)) - z[np.arange(len(y)), y]).sum()
    return float(total / len(labels))


def _new_table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", caption_justify="left")
    table.add_column("")
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _seconds(result: dict[str, float]) -> str:
    return f"{result['seconds']:.4f}"


def _bytes(result: dict[str, float]) -> str:
    return f"{result['extra_bytes'] / 1e6:.1f} MB"


if __name__ == "__main__":
    main()
