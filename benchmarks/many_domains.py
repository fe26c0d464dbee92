"""``python -m benchmarks.many_domains [--domains 10 100 ...]``: time and memory by domains.

A domain has 20 rows of 10 classes and 16 features. Each cell is measured in a process of its own:
seconds of one call after a call on few rows, and the peak memory above that before the call.
Prints a table in Markdown.
"""

import argparse
import gc
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable

import numpy as np

import domaincal as dc
from benchmarks.measure import _status
from domaincal.metrics import bins_by_domain

_ROWS, _CLASSES, _FEATURES = 20, 10, 16
_DOMAINS = (10, 100, 1_000, 10_000, 100_000)
# More domains take minutes: the intervals of a domain are not shared with others.
_MOST_COMPARED = 10_000


def _make(n_domains: int) -> dc.CalibrationData:
    random = np.random.default_rng(0)
    domain = random.permutation(np.repeat(np.arange(n_domains), _ROWS))
    centres = random.normal(size=(n_domains, _FEATURES))
    features = centres[domain] + 0.3 * random.normal(size=(len(domain), _FEATURES))
    temperature = np.exp(0.1 * centres @ random.normal(size=_FEATURES))[domain]
    logits = 3.0 * random.normal(size=(len(domain), _CLASSES))
    labels = (logits / temperature[:, None] + random.gumbel(size=logits.shape)).argmax(axis=1)
    return dc.CalibrationData(
        logits.astype(np.float32), labels=labels, features=features.astype(np.float32),
        domains=domain,
    )  # fmt: skip


def _calls(data: dc.CalibrationData) -> dict[str, Callable[[], Callable[[], object]]]:
    """Prepare each call; the preparation is not measured."""
    method = dc.MultiDomainTemperatureScaling()

    def predict() -> Callable[[], object]:
        fitted = dc.MultiDomainTemperatureScaling().fit(data)
        return lambda: fitted.predict_proba(data)

    def compare() -> Callable[[], object]:
        confidences = dc.MaxSoftmax().fit(data).predict_confidence(data)
        hits = data.logits.argmax(axis=1) == data.labels
        bins = bins_by_domain(confidences, hits, data.domains)
        return lambda: dc.compare_domains(bins)

    return {
        "fit MD-TS": lambda: lambda: method.fit(data),
        "predict MD-TS": predict,
        "evaluate MD-TS": lambda: lambda: dc.evaluate(method, train=data, test=data),
        "by_domain": lambda: lambda: [len(part) for _, part in data.by_domain()],
        "compare_domains": compare,
    }


def measure(entry: str, n_domains: int) -> dict[str, float]:
    """Seconds of one call, and the extra memory that it needs."""
    warnings.simplefilter("ignore")
    _calls(_make(50))[entry]()()
    call = _calls(_make(n_domains))[entry]()
    gc.collect()
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak begins here
    before = _status("VmRSS")
    start = time.perf_counter()
    kept = call()
    seconds = time.perf_counter() - start
    del kept
    return {"seconds": seconds, "extra_bytes": max(0, _status("VmHWM") - before)}


def main() -> None:
    parser = argparse.ArgumentParser(description="Time and memory by the number of domains.")
    parser.add_argument("--domains", type=int, nargs="+", default=_DOMAINS)
    parser.add_argument("--measure", nargs=2, metavar=("ENTRY", "DOMAINS"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.measure:
        print(json.dumps(measure(chosen.measure[0], int(chosen.measure[1]))))
        return
    entries = list(_calls(_make(10)))
    print(f"{len(os.sched_getaffinity(0))} cores; {_ROWS} rows a domain; seconds, extra memory\n")
    print(f"| domains | {' | '.join(entries)} |")
    print(f"| ---: |{' ---: |' * len(entries)}")
    for n_domains in chosen.domains:
        cells = [_cell(entry, n_domains) for entry in entries]
        print(f"| {n_domains:,} | {' | '.join(cells)} |", flush=True)


def _cell(entry: str, n_domains: int) -> str:
    if entry == "compare_domains" and n_domains > _MOST_COMPARED:
        return "not run"
    command = [sys.executable, "-m", "benchmarks.many_domains", "--measure", entry, str(n_domains)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found = json.loads(done.stdout.splitlines()[-1])
    return f"{found['seconds']:.3f}, {found['extra_bytes'] / 1e6:.0f} MB"


if __name__ == "__main__":
    main()
