"""``python -m benchmarks.mixed_precision``: normal equations by float32 and by float64 products.

Each cell solves least squares on features of the given condition number, with float64 products and
with float32 products and refinement, in turns and in one process. ``--fit`` fits MD-TS instead (10
classes). The ratio is the median of the turns, the error the largest difference of predictions,
relative to the largest prediction. Prints a table in Markdown.
"""

import argparse
import os
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import numpy as np
from threadpoolctl import threadpool_limits

import domaincal as dc
from domaincal.calibrators.heads import HeadProblem, linear

N_DOMAINS = 30
CHUNK = 10_000
SHAPES = ((200_000, 512), (50_000, 2048))
SOURCES = ("float32 in memory", "float16 in memory", "float16 store")


def make(n_rows: int, n_features: int, condition: float, dtype: type) -> dc.CalibrationData:
    """Rows whose features have a geometric sequence of singular values."""
    random = np.random.default_rng(0)
    basis, _ = np.linalg.qr(random.normal(size=(n_features, n_features)))
    basis *= np.geomspace(1.0, 1.0 / condition, n_features)[:, None]
    basis = basis.astype(np.float32)
    features = np.empty((n_rows, n_features), dtype)
    for start in range(0, n_rows, CHUNK):
        rows = features[start : start + CHUNK]
        rows[:] = random.standard_normal(rows.shape, dtype=np.float32) @ basis
    domain = random.integers(0, N_DOMAINS, n_rows)
    logits = 3.0 * random.standard_normal((n_rows, 10), dtype=np.float32)
    scaled = logits / random.uniform(0.5, 3.0, N_DOMAINS)[domain, None]
    labels = (scaled + random.gumbel(size=logits.shape)).argmax(axis=1)
    return dc.CalibrationData(logits, labels=labels, features=features, domains=domain)


def solver(data: dc.CalibrationData, store: dc.Store | None) -> Callable[[], np.ndarray]:
    """Least squares of given targets; returns the coefficients."""
    rows = data if store is None else store.rows()
    codes = data.domain_codes[0] if store is None else rows.domains.codes
    targets = np.random.default_rng(1).uniform(0.5, 4.0, N_DOMAINS)
    problem = HeadProblem(rows.features, codes, targets, None, False, False, None, None)
    return lambda: linear.solve_linear(problem, 0.0).coef


def fitter(data: dc.CalibrationData, store: dc.Store | None) -> Callable[[], np.ndarray]:
    """Fit of MD-TS with its defaults; returns the coefficients."""
    rows = data if store is None else store
    return lambda: dc.MultiDomainTemperatureScaling().fit(rows).coef_


def compare(call: Callable[[], np.ndarray], sample: np.ndarray, turns: int) -> str:
    """Median seconds of both, median ratio, passes of refinement and error, as cells."""
    seconds: dict[bool, list[float]] = {False: [], True: []}
    coefs, passes = {}, {}
    pays = linear.single_pays
    for turn in range(turns + 1):
        for single in (False, True):
            with (
                mock.patch.object(linear, "single_pays", pays if single else lambda rows: False),
                mock.patch.object(linear, "sum_residuals", wraps=linear.sum_residuals) as residuals,
                mock.patch.object(
                    linear, "sum_normal_equations", wraps=linear.sum_normal_equations
                ) as sums,
            ):
                start = time.perf_counter()
                coefs[single] = call()
                if turn:  # the first compiles
                    seconds[single].append(time.perf_counter() - start)
            passes[single] = f"{sums.call_count} + {residuals.call_count}"
    values = [sample @ coefs[single] for single in (False, True)]
    error = np.abs(values[1] - values[0]).max() / np.abs(values[0]).max()
    double, single = (np.array(seconds[key]) for key in (False, True))
    return (
        f"{np.median(double):.2f} | {np.median(single):.2f} | {np.median(single / double):.2f}"
        f" | {passes[False]} | {passes[True]} | {error:.0e}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--conditions", type=float, nargs="+", default=(1e2, 1e3))
    parser.add_argument("--threads", type=int, nargs="+", default=(1, 2))
    parser.add_argument("--fit", action="store_true", help="fit MD-TS")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{len(os.sched_getaffinity(0))} cores; seconds; sums + residuals are passes\n")
    print("| rows x features | condition | features | threads | float64 | float32 | ratio "
          "| passes of float64 | of float32 | error |")  # fmt: skip
    print("| --- | ---: | --- |" + " ---: |" * 7)
    for n_rows, n_features in SHAPES:
        for condition in chosen.conditions:
            for source in SOURCES:
                dtype = np.float32 if source.startswith("float32") else np.float16
                data = make(n_rows, n_features, condition, dtype)
                sample = data.features[:20_000].astype(np.float64)
                with tempfile.TemporaryDirectory() as folder:
                    store = None
                    if source.endswith("store"):
                        store = dc.Store(Path(folder) / "rows")
                        store.append(data)
                    call = (fitter if chosen.fit else solver)(data, store)
                    for threads in chosen.threads:
                        with (
                            threadpool_limits(threads, user_api="blas"),
                            mock.patch.dict(os.environ, OMP_NUM_THREADS=str(threads)),
                        ):
                            cells = compare(call, sample, chosen.turns)
                        print(f"| {n_rows} x {n_features} | {condition:.0e} | {source} "
                              f"| {threads} | {cells} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
