"""Time and memory by the number of domains.

A domain has 20 rows of 10 classes and 16 features. Each call is measured in a process of its own:
seconds after a call on few rows, and the peak memory above that before the call.
``python -m benchmarks.scale.many_domains CALL DOMAINS`` prints one JSON document.
"""

import gc
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import domaincal as dc
from benchmarks.measure import _status
from domaincal.metrics import bins_by_domain

_ROWS, _CLASSES, _FEATURES = 20, 10, 16
# More domains take a quarter of an hour: each needs an interval of its own.
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


def measure_domains(domains: tuple[int, ...]) -> list[dict[str, Any]]:
    """Every call for every number of domains, each in a new process."""
    return [
        _cell(entry, n) for n in domains for entry in _calls(_make(10))
        if entry != "compare_domains" or n <= _MOST_COMPARED
    ]  # fmt: skip


def _cell(entry: str, n_domains: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.scale.many_domains", entry, str(n_domains)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found = json.loads(done.stdout.splitlines()[-1])
    row = {"domains": n_domains, "step": entry, **found}
    print(row, flush=True)
    return row


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]))))
