"""Measure one entry on one problem, in a process of its own: time, extra memory, result.

``python -m benchmarks.measure LIBRARY KIND ENTRY FOLDER REPEATS`` prints one JSON document. The
arrays are read from files, so that no memory is left over from making them.
"""

import gc
import importlib
import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np

# Enough numbers for every library to load and compile what the problem will need.
_WARM_UP = 300_000


def _status(field: str) -> int:
    line = next(
        line
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith(field)
    )
    return int(line.split()[1]) * 1024


def _first_rows(data: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    width = max(a.shape[1] if a.ndim > 1 else 1 for a in data.values())
    return {name: a[: max(2000, _WARM_UP // width)] for name, a in data.items()}


def measure(library: str, kind: str, entry: str, folder: Path, repeats: int) -> dict[str, float]:
    """Best time of ``repeats`` calls after the first, and the peak memory of the first."""
    warnings.simplefilter("ignore")
    chosen = getattr(importlib.import_module(f"benchmarks.libraries.{library}"), kind)[entry]
    prepare, function = chosen if isinstance(chosen, tuple) else (dict, chosen)
    data = prepare({path.stem: np.load(path) for path in folder.glob("*.npy")})
    function(_first_rows(data))
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
    before = _status("VmRSS")
    start = time.perf_counter()
    value = function(data)
    first = time.perf_counter() - start
    extra = max(0, _status("VmHWM") - before)
    times = []
    for _ in range(repeats if repeats > 1 else 0):
        start = time.perf_counter()
        function(data)
        times.append(time.perf_counter() - start)
        if sum(times) > 20.0:
            break
    return {"seconds": min(times, default=first), "extra_bytes": extra, "value": value}


if __name__ == "__main__":
    library, kind, entry, folder, repeats = sys.argv[1:]
    print(json.dumps(measure(library, kind, entry, Path(folder), int(repeats))))
