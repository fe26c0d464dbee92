"""``python -m benchmarks.sites``: how far fits to sums of sites are from fits to pooled rows.

Synthetic domains are dealt to three sites. The error is the largest relative difference of the
predicted temperatures, over all rows and three seeds. Prints tables in Markdown.
"""

import itertools
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.base import clone

import domaincal as dc
from domaincal.distributed import answer_plan, combine_sites, plan_second_round, summarize_site
from domaincal.errors import InputError

_SEEDS = (0, 1, 2)
# Wide limits: clipped temperatures would hide errors.
_CLIP = (1e-9, 1e9)
_OLS = dc.MultiDomainTemperatureScaling(clip=_CLIP)
_LOG = dc.MultiDomainTemperatureScaling(
    target="log", fit_intercept=True, domain_weight="equal", clip=_CLIP
)


def _rows(
    seed: int, *, cond: float, n_features: int = 64, mean: float = 0.0, n_rows: int = 400,
    dtype: Any = np.float64,
) -> dc.CalibrationData:  # fmt: skip
    """Eight domains, whose features have singular values from 1 to 1 / cond around a mean."""
    data, _ = dc.make_multi_domain(
        n_domains=8, n_rows=n_rows, n_classes=5, n_features=n_features, random_state=seed
    )
    u, s, v = np.linalg.svd(data.features.astype(np.float64), full_matrices=False)
    features = (u * np.geomspace(s[0], s[0] / cond, n_features)) @ v + mean
    return dc.CalibrationData(
        data.logits.astype(dtype), labels=data.labels, features=features.astype(dtype),
        domains=data.domains,
    )  # fmt: skip


def _sites(data: dc.CalibrationData) -> list[dc.CalibrationData]:
    codes = data.domain_codes[0]
    return [data.select(np.flatnonzero(codes % 3 == k)) for k in range(3)]


def _one_round(
    data: dc.CalibrationData, calibrator: Any, shift: float = 0.0
) -> tuple[float, float]:
    """Largest relative error of the predictions, and of the pooled temperature."""
    sums = [summarize_site(part, shift=shift) for part in _sites(data)]
    found, expected = combine_sites(sums, calibrator), clone(calibrator).fit(data)
    ratio = found.predict_temperature(data) / expected.predict_temperature(data)
    return np.abs(ratio - 1).max(), abs(found.temperature_ / expected.temperature_ - 1)


def _batches(seed: int) -> list[float]:
    """Largest difference of log T on new domains, from sums and from a fit with another seed."""
    data, _ = dc.make_multi_domain(n_domains=24, n_rows=400, random_state=seed)
    known, new = dc.split_domains(data, [f"domain-{k:02d}" for k in range(0, 24, 4)])
    method = dc.BatchTemperatureScaling()
    sums = [summarize_site(part) for part in _sites(known)]
    plan = plan_second_round(sums, method)
    fits = [
        combine_sites([*sums, *(answer_plan(part, plan) for part in _sites(known))], method),
        dc.BatchTemperatureScaling().fit(known),
        dc.BatchTemperatureScaling(random_state=1).fit(known),
    ]
    sums_, same, other = (np.log(fit.predict_temperature(new)) for fit in fits)
    return [np.abs(sums_ - same).max(), np.abs(other - same).max(), np.ptp(same)]


def _different_sites(ratio: float, n_rows: tuple[int, int], seed: int) -> float:
    """Error of the pooled temperature of two sites with T = 1 and T = ratio; inf if not found."""
    parts = []
    for name, n, scale in zip("ab", n_rows, (1.0, ratio), strict=True):
        random = np.random.default_rng([seed, n, ord(name)])
        z = random.normal(size=(n, 5))
        z[np.arange(n), random.integers(5, size=n)] += 2.5
        labels = (z + random.gumbel(size=z.shape)).argmax(axis=1)  # drawn from softmax(z)
        parts.append(dc.CalibrationData(scale * z, labels=labels, domains=np.repeat(name, n)))
    both = dc.CalibrationData(
        np.concatenate([part.logits for part in parts]),
        labels=np.concatenate([part.labels for part in parts]),
    )
    exact = dc.TemperatureScaling().fit(both).temperature_
    try:
        plan = plan_second_round([summarize_site(part) for part in parts], dc.TemperatureScaling())
    except InputError:
        return np.inf
    assert plan.log_beta is not None
    return abs(float(np.exp(-plan.log_beta[1])) / exact - 1)


def _print_table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    titles = list(header)
    for row in (titles, ["---"] * len(titles), *rows):
        print(f"| {' | '.join(row)} |")
    print()


def main() -> None:
    """Print all tables."""
    warnings.simplefilter("ignore")
    table = []
    for cond in (1e1, 1e2, 1e3, 1e4, 1e5):
        found = [[_one_round(_rows(seed, cond=cond), m) for seed in _SEEDS] for m in (_OLS, _LOG)]
        errors = [max(error for error, _ in of_method) for of_method in found]
        pooled = max(error for _, error in itertools.chain(*found))
        table.append([f"{cond:.0e}", *(f"{value:.0e}" for value in (*errors, pooled))])
    _print_table(["cond(X)", "ols", "log T, intercept, equal weight", "pooled T"], table)

    intercept = dc.MultiDomainTemperatureScaling(fit_intercept=True, clip=_CLIP)
    table = []
    for mean in (0.0, 1e1, 1e2, 1e3, 1e4):
        rows = [_rows(seed, cond=1e2, mean=mean) for seed in _SEEDS]
        errors = [max(_one_round(one, intercept, shift)[0] for one in rows) for shift in (0, mean)]
        table.append([f"{mean:.0e}", *(f"{error:.0e}" for error in errors)])
    _print_table(["mean of the features", "--shift 0", "--shift with the mean"], table)

    table = []
    for dtype, n_rows in itertools.product((np.float16, np.float32, np.float64), (400, 8000)):
        rows = [_rows(seed, cond=10, n_rows=n_rows, dtype=dtype) for seed in _SEEDS]
        error = max(_one_round(one, _LOG)[0] for one in rows)
        table.append([np.dtype(dtype).name, f"{rows[0].logits.size:,}", f"{error:.0e}"])
    _print_table(["logits", "how many", "log T, intercept, equal weight"], table)

    sizes, table = ((300, 300), (100, 3000), (3000, 100)), []
    for ratio in (2, 4, 8, 16):
        errors = [max(_different_sites(ratio, n, seed) for seed in range(10)) for n in sizes]
        table.append([str(ratio), *("not found" if e == np.inf else f"{e:.0e}" for e in errors)])
    titles = [f"{a} rows with T = 1, {b} with the other" for a, b in sizes]
    _print_table(["ratio of T", *titles], table)

    found = np.max([_batches(seed) for seed in _SEEDS], axis=0)
    header = ["batch: sums against rows", "two seeds of a fit to rows", "range of log T"]
    _print_table(header, [[f"{value:.3f}" for value in found]])


if __name__ == "__main__":
    main()
