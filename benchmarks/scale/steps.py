"""One step on one store, in a process of its own: seconds, bytes that were read, peak memory.

``python -m benchmarks.scale.steps STEP FOLDER`` prints one JSON document.
"""

import json
import sys
import threading
import time
from pathlib import Path

import numpy as np

from benchmarks.measure import _status
from benchmarks.scale.stores import N_DOMAINS

_READ_BYTES = 1 << 22


def plain_read(folder: Path) -> None:
    """Read all logits into one buffer, as fast as one thread can."""
    buffer = bytearray(_READ_BYTES)
    for path in sorted(folder.rglob("logits.npy")):
        with open(path, "rb", buffering=0) as file:
            while file.readinto(buffer):
                pass


def domain_temperatures(folder: Path) -> None:
    """The T_k alone, without the pooled temperature that estimators fit as well."""
    from domaincal import Store
    from domaincal.statistics import LabelledRows, fit_temperature

    rows = Store(folder).rows()
    fit_temperature(LabelledRows(rows.logits, rows.labels, rows.domains.codes, N_DOMAINS))


def fit_md_ts(folder: Path) -> None:
    from domaincal import MultiDomainTemperatureScaling, Store

    MultiDomainTemperatureScaling().fit(Store(folder)).save(folder / "model.safetensors")


def fit_batch(folder: Path) -> None:
    from domaincal import BatchTemperatureScaling, Store

    BatchTemperatureScaling().fit(Store(folder))


def score(folder: Path) -> None:
    from domaincal import Store, load, score_table

    score_table(load(folder / "model.safetensors"), Store(folder))


STEPS = {
    "plain": plain_read, "T_k": domain_temperatures, "fit MD-TS": fit_md_ts, "score": score,
    "fit batch": fit_batch,
}  # fmt: skip


def run_step(step: str, folder: Path) -> dict[str, float]:
    """Run a step in this process."""
    from domaincal.io import stored_rows

    counted, lock = [0], threading.Lock()
    read_into = stored_rows.ShardFile.read_into

    def counting(self, file, out: np.ndarray, start: int) -> None:
        with lock:
            counted[0] += out.nbytes
        read_into(self, file, out, start)

    if step == "plain":
        counted[0] = sum(path.stat().st_size for path in folder.rglob("logits.npy"))
    else:
        _warm_up()
        stored_rows.ShardFile.read_into = counting
    start = time.perf_counter()
    STEPS[step](folder)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "bytes": counted[0], "peak": _status("VmHWM")}


def _warm_up() -> None:
    """Import and load compiled code, which take a second in a new process."""
    import domaincal as dc

    for dtype, n_classes in ((np.float16, 10), (np.float16, 100)):
        data, _ = dc.make_multi_domain(n_domains=3, n_rows=4000, n_classes=n_classes)
        data = dc.CalibrationData(
            data.logits.astype(dtype), data.labels, data.features, domains=data.domains
        )
        dc.score_table(dc.MultiDomainTemperatureScaling().fit(data), data)


if __name__ == "__main__":
    print(json.dumps(run_step(sys.argv[1], Path(sys.argv[2]))))
