"""``python -m benchmarks.classifiers WISDM.csv.gz PAGE``: classifiers on people they never saw.

The table of WISDM has the columns ``subject`` (the person), ``ACTIVITY`` (the label) and
measurements. For each of five seeds, 10 of the 50 people are unseen; a model is fitted to the
other 40 and calibrated by its out-of-fold scores, in five folds of whole people.
"""

import os

# Before numpy is imported: the times of the models should not depend on the cores.
for name in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
    os.environ[f"{name}_NUM_THREADS"] = "1"

import sys  # noqa: E402
import warnings  # noqa: E402
from collections.abc import Iterator  # noqa: E402
from dataclasses import dataclass  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import joblib  # noqa: E402
import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
from lightgbm import LGBMClassifier  # noqa: E402
from sklearn.calibration import CalibratedClassifierCV  # noqa: E402
from sklearn.ensemble import RandomForestClassifier  # noqa: E402
from sklearn.model_selection import GroupKFold  # noqa: E402

import domaincal as dc  # noqa: E402

SEEDS = range(5)
N_UNSEEN = 10
FOLDS = 5
N_BINS = 20
BATCH = 100
INTRODUCTION = f"""# Classifiers on people they never saw

WISDM: 18 activities, 91 measurements of a watch, 50 people
([what the data are](../../examples/wisdm.py)). For each of {len(SEEDS)} seeds, {N_UNSEEN} people
are unseen. A model is fitted to the other people and calibrated by its scores out of fold, in
{FOLDS} folds of whole people: by scikit-learn's `CalibratedClassifierCV(ensemble=False)`, and by
`CalibratedDomainClassifier`. Models and folds are the same for all methods. `auto` chooses a method
by left-out people. With batches, {BATCH} unlabelled rows of one person are predicted together. In
recorded order, such rows are of few activities, unlike the batches of the fit, which are drawn at
random.

Each number is a mean over the unseen people: the ECE with {N_BINS} bins and the distance of mean
confidence and accuracy (gap), both in %, and the NLL. LightGBM and the random forest have their
default parameters. Made by

```sh
python -m benchmarks.classifiers FOLDER/wisdm/wisdm_watch_accel.csv.gz docs/results/classifiers.md
```
"""


class _FittedOnce:
    """Fits of equal models to equal rows are done once: all methods calibrate the same models."""

    _fits: dict[str, dict[str, Any]] = {}  # noqa: RUF012

    def fit(self, X, y, **options):
        key = joblib.hash((type(self).__name__, self.get_params(), X, y, options))
        if key not in self._fits:
            super().fit(X, y, **options)
            self._fits[key] = dict(vars(self))
        vars(self).update(self._fits[key])
        return self


class Boosting(_FittedOnce, LGBMClassifier):
    """LightGBM with its default parameters."""


class Forest(_FittedOnce, RandomForestClassifier):
    """Random forest with its default parameters."""


@dataclass(frozen=True)
class People:
    """Measurements, activities and people."""

    X: pd.DataFrame
    y: pd.Series
    person: pd.Series

    def select(self, rows: np.ndarray) -> "People":
        """Rows of a mask."""
        return People(self.X[rows], self.y[rows], self.person[rows])


def read_people(path: str) -> People:
    table = pd.read_csv(path)
    return People(table.drop(columns=["subject", "ACTIVITY"]), table["ACTIVITY"], table["subject"])


def models(seed: int) -> dict[str, Any]:
    return {
        "LightGBM": Boosting(random_state=seed, n_jobs=1, verbose=-1),
        "random forest": Forest(random_state=seed, n_jobs=1),
    }


def probabilities(model: Any, known: People, new: People) -> Iterator[tuple[str, np.ndarray]]:
    """Name and predicted probabilities of each way to calibrate a model."""
    fitted = model.fit(known.X, known.y)
    yield "nothing", fitted.predict_proba(new.X)
    folds = list(GroupKFold(FOLDS).split(known.X, known.y, groups=known.person))
    for method in ("sigmoid", "isotonic", "temperature"):
        peer = CalibratedClassifierCV(model, method=method, cv=folds, ensemble=False)
        name = f"CalibratedClassifierCV, {method}"
        yield name, peer.fit(known.X, known.y).predict_proba(new.X)
    for name, method in [
        ("domaincal, ts", "ts"),
        ("domaincal, md-ts of log T with intercept", "md-ts:target=log:fit_intercept=true"),
        ("domaincal, auto", "auto"),
    ]:
        ours = dc.CalibratedDomainClassifier(model, method, cv=FOLDS)
        yield name, ours.fit(known.X, known.y, domains=known.person).predict_proba(new.X)
    ours = dc.CalibratedDomainClassifier(model, cv=FOLDS, batch_size=BATCH)
    ours.fit(known.X, known.y, domains=known.person)
    for order in ("random", "recorded"):
        p = ours.predict_proba(new.X, domains=_batches(new.person, order))
        yield f"domaincal, auto, {BATCH} rows of a person in {order} order", p


def _batches(person: pd.Series, order: str) -> np.ndarray:
    """Name of the batch of each row: at most ``BATCH`` rows of a person."""
    rows = np.arange(len(person))
    if order == "random":
        rows = np.random.default_rng(0).permutation(rows)
    number = pd.Series(rows, index=person.index).groupby(person).rank().sub(1) // BATCH
    return (person.astype(str) + "/" + number.astype(int).astype(str)).to_numpy()


def scores(p: np.ndarray, classes: np.ndarray, new: People) -> pd.DataFrame:
    """ECE, NLL and |mean confidence - accuracy| of each person."""
    p = np.maximum(p, 1e-12)
    records = []
    for person in np.unique(new.person):
        rows = (new.person == person).to_numpy()
        labels = np.searchsorted(classes, new.y[rows])
        confidence, hits = p[rows].max(axis=1), p[rows].argmax(axis=1) == labels
        ece = dc.metrics.confidence_calibration_error(confidence, hits, n_bins=N_BINS)
        nll = -np.log(p[rows][np.arange(rows.sum()), labels]).mean()
        gap = abs(confidence.mean() - hits.mean())
        records.append((person, hits.mean(), 100 * ece, 100 * gap, nll))
    return pd.DataFrame(records, columns=["person", "accuracy", "ece", "gap", "nll"])


def measure(people: People) -> pd.DataFrame:
    """Scores of every model, method, seed and unseen person."""
    names = np.unique(people.person)
    tables = []
    for seed in SEEDS:
        unseen = np.random.default_rng(seed).permutation(names)[:N_UNSEEN]
        is_new = people.person.isin(unseen).to_numpy()
        known, new = people.select(~is_new), people.select(is_new)
        for title, model in models(seed).items():
            for method, p in probabilities(model, known, new):
                table = scores(p, np.unique(known.y), new)
                tables.append(table.assign(model=title, method=method, seed=seed))
                print(title, seed, method, table["ece"].mean().round(2), flush=True)
        _FittedOnce._fits.clear()
    return pd.concat(tables)


def write_page(results: pd.DataFrame, path: Path) -> None:
    """The page of the results."""
    lines = [INTRODUCTION]
    for title, of_model in results.groupby("model", sort=False):
        accuracy = 100 * of_model["accuracy"].mean()
        seeds = " | ".join(f"ECE, seed {seed}" for seed in SEEDS)
        lines += [f"## {title}", "", f"Accuracy on unseen people: {accuracy:.1f}%.", ""]
        lines += [
            f"| method | ECE | gap | NLL | {seeds} |",
            "| --- |" + " ---: |" * (3 + len(SEEDS)),
        ]
        for method, rows in of_model.groupby("method", sort=False):
            by_seed = rows.groupby("seed")["ece"].mean()
            columns = [f"{rows[name].mean():.{digits}f}"
                       for name, digits in (("ece", 2), ("gap", 2), ("nll", 3))]  # fmt: skip
            columns += [f"{value:.2f}" for value in by_seed]
            lines.append(f"| {method} | " + " | ".join(columns) + " |")
        lines.append("")
    path.write_text("\n".join(lines))


if __name__ == "__main__":
    # Five people lack an activity, and LightGBM mentions the names of columns of arrays.
    warnings.simplefilter("ignore")
    write_page(measure(read_people(sys.argv[1])), Path(sys.argv[2]))
