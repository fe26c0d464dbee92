"""``python -m benchmarks.shift.few_domains OUT --data FOLDER``: the batch method with few domains.

In the regressions of :class:`domaincal.BatchTemperatureScaling`, a large batch counts as a few
observations; this compares how many. Only InD domains of the partitions of shift.md are used: some
are known, the others are left out and scored. In synthetic data, the features or the logits and the
features tell the temperature. Rows are kept in OUT/rows. Prints Markdown.
"""

import os

# Before numpy is imported.
for name in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
    os.environ[f"{name}_NUM_THREADS"] = "1"

import argparse  # noqa: E402
from collections.abc import Iterator  # noqa: E402
from pathlib import Path  # noqa: E402

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402

import domaincal as dc  # noqa: E402
from benchmarks.shift.page import markdown  # noqa: E402
from benchmarks.shift.problems import Cell, load, ood_domains, some_rows  # noqa: E402
from domaincal._warnings import handle_warnings  # noqa: E402
from domaincal.calibrators.batch import batch_training  # noqa: E402
from domaincal.data.batches import shuffled_batches  # noqa: E402
from domaincal.statistics import BinSums  # noqa: E402

Rows = tuple[dc.CalibrationData, dc.CalibrationData]
BATCHES = (5, 20, 100, "domain")
#: Least observations of a domain: one regression, or two that are averaged.
CHOICES = ((1.0,), (3.0,), (5.0,), (10.0,), (20.0,), (1.0, 10.0))
SEEDS = range(3)
PARTITIONS = ("unseen-severities", "unseen-severity-5", "unseen-types", "unseen-kinds",
              "unseen-noise", "unseen-blur")  # fmt: skip
SCORED_ROWS = 300


def main() -> None:
    """Score every choice in every cell, and print the means."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", type=Path, help="folder of the rows")
    parser.add_argument("--data", type=Path, required=True, help="folder of WISDM and FDU-MTL")
    parser.add_argument("--store", type=Path, help="rows of a network on the 76 domains")
    options = parser.parse_args()
    tables = []
    with handle_warnings(lambda message, category: None):
        for name, (known, left_out) in _cells(options.out / "rows", options.data, options.store):
            tables.append(pd.DataFrame(_scores(known, left_out)).assign(data=name))
    table = pd.concat(tables, ignore_index=True)
    print(f"{len(tables)} cells. Mean gain over TS on left-out InD domains, in points of excess:\n")
    gains = table.pivot_table("gain", ["data", "batch"], "choice", sort=False)
    print(markdown(gains.round(2).reset_index()))
    now = table[table["choice"] == _label(batch_training.LEAST_OBSERVATIONS)]
    doubt = now[now["error"] > now["pooled_error"]]
    print(
        f"The standard error of log T is above that of TS in {len(doubt)} of {len(now)} pairs of a "
        f"cell and a size of batches. There, the mean gain is {doubt['gain'].mean():.2f} points."
    )


def _scores(known: dc.CalibrationData, left_out: dc.CalibrationData) -> Iterator[dict[str, object]]:
    """Gain over TS and standard errors, for each choice and size of batches."""
    codes, _ = left_out.domain_codes
    random = np.random.default_rng(0)
    batches = {size: shuffled_batches(codes, size, random) for size in BATCHES}
    ts = _excess(dc.TemperatureScaling().fit(known), left_out, codes)
    usual = batch_training.LEAST_OBSERVATIONS
    for choice in CHOICES:
        batch_training.LEAST_OBSERVATIONS = choice
        fitted = dc.BatchTemperatureScaling().fit(known)
        batch_training.LEAST_OBSERVATIONS = usual
        errors = fitted.batch_errors_.set_index("n_rows")
        for size, numbers in batches.items():
            rows = dc.CalibrationData(
                left_out.logits, labels=left_out.labels, features=left_out.features, domains=numbers
            )
            gain = ts - _excess(fitted, rows, codes)
            error = errors.loc[SCORED_ROWS if size == "domain" else size].to_dict()
            yield {"batch": str(size), "choice": _label(choice), "gain": gain, **error}


def _label(choice: tuple[float, ...]) -> str:
    return " and ".join(f"{n:g}" for n in choice)


def _excess(fitted: object, rows: dc.CalibrationData, codes: np.ndarray) -> float:
    """Mean excess calibration error over the domains, in %."""
    confidence = fitted.predict_confidence(rows)
    hits = np.asarray(rows.logits).argmax(axis=1) == rows.labels
    sums = (
        BinSums.from_confidences(confidence[codes == k], hits[codes == k], n_bins=15)
        for k in range(codes.max() + 1)
    )
    return 100 * float(np.mean([one.excess_error() for one in sums]))


def _cells(rows: Path, folder: Path, store: Path | None) -> Iterator[tuple[str, Rows]]:
    """Known and left-out InD domains of every cell, with the name of the data."""
    for seed in SEEDS:
        for told in ("features", "logits and features"):
            for n_known in (5, 9, 15):
                yield f"synthetic, {told}", _synthetic(n_known, seed, told == "features")
        for name, sizes in (("WISDM", (4, 6, 8, 12)), ("FDU-MTL", (3, 4, 5))):
            data = load(Cell(name, seed, ""), folder, rows)
            names = [str(one) for one in data.domain_names]
            # The OOD domains of the tables.
            ood = ood_domains(Cell(name, seed, ""), names, np.random.default_rng([seed, 0]))
            ind = [one for one in names if one not in ood]
            for n_known in sizes:
                order = np.random.default_rng([seed, n_known]).permutation(ind)
                yield name, _split(data, order[:n_known], order[n_known:], seed)
        yield from _corruptions("Digits-C", load(Cell("Digits-C", seed, ""), folder, rows), seed)
    if store is not None:
        data = dc.read(store)
        plain = dc.CalibrationData(
            data.logits, labels=data.labels, features=data.features, domains=data.domains
        )
        yield from _corruptions(store.name, plain, 0)


def _corruptions(name: str, data: dc.CalibrationData, seed: int) -> Iterator[tuple[str, Rows]]:
    """A third of the InD kinds of corruption is left out; 5, 9 or all other domains are known."""
    names = [str(one) for one in data.domain_names]
    for partition in PARTITIONS:
        random = np.random.default_rng([seed, len(partition)])
        ood = set(ood_domains(Cell("", seed, partition), names, random))
        ind = [one for one in names if one not in ood]
        kinds = sorted({one.rsplit("-", 1)[0] for one in ind if one != "clean"})
        out = set(random.permutation(kinds)[: max(1, len(kinds) // 3)])
        left_out = [one for one in ind if one.rsplit("-", 1)[0] in out]
        others = random.permutation([one for one in ind if one not in left_out])
        for n_known in (5, 9, len(others)):
            size = "all" if n_known == len(others) else "few"
            yield f"{name}, {size}", _split(data, others[:n_known], left_out, seed)


def _split(data: dc.CalibrationData, known: object, left_out: object, seed: int) -> Rows:
    """Halves of the known domains, and some rows of the left-out ones."""
    domains = np.asarray(data.domains).astype(str)
    train, _ = dc.split_halves(data.select(np.isin(domains, known)), by="row", random_state=seed)
    scored = data.select(np.isin(domains, left_out))
    rows = some_rows(scored, SCORED_ROWS, np.random.default_rng(seed))
    return train, scored.select(rows)


def _synthetic(n_known: int, seed: int, logits_alike: bool) -> Rows:
    """Domains whose features tell the temperature, and whose logits look alike if asked for."""
    data, truth = dc.make_multi_domain(n_domains=n_known + 8, random_state=seed)
    if logits_alike:
        scale = truth.reindex(data.domains).to_numpy()[:, None]
        random = np.random.default_rng(seed)
        scores = random.normal(0.0, 2.0, data.logits.shape) / scale
        labels = np.argmax(scores + random.gumbel(size=scores.shape), axis=1)
        data = dc.CalibrationData(
            scores * scale, labels=labels, features=data.features, domains=data.domains
        )
    return dc.split_domains(data, truth.index[n_known:].tolist())


if __name__ == "__main__":
    main()
