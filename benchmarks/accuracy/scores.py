"""Errors of every estimator on the OOD domains of a cell."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

import domaincal as dc
from benchmarks.accuracy.estimators import DRAW_ESTIMATORS, ESTIMATORS, ORACLE, SIZES
from benchmarks.shift.problems import Cell
from benchmarks.shift.scores import Rows, cell_path, fits_kept
from domaincal._warnings import handle_warnings
from domaincal.data.batches import shuffled_batches
from domaincal.shift.accuracy.estimator import batch_means


def score_cell(cell: Cell, rows: Callable[[Cell], Rows], out: Path) -> pd.DataFrame:
    """Errors of one cell, kept in a csv file: a row for each estimator, size and domain.

    ``error`` is the mean over the batches of |predicted accuracy - accuracy of all rows of the
    domain|; ``predicted``, ``low`` and ``high`` are those of one batch.
    """
    path = cell_path(cell, out)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        train, test = rows(cell)
        with handle_warnings(lambda message, category: None), fits_kept():
            scores = _scores(cell, train, test)
        scores.insert(0, "data", cell.data)
        scores.insert(1, "partition", cell.partition)
        scores.insert(2, "seed", cell.seed)
        scores.insert(3, "n_ind", len(train.domain_names))
        part = path.with_suffix(".part")
        scores.to_csv(part, index=False)
        part.rename(path)
    return pd.read_csv(path, dtype={"n": str})


def _scores(cell: Cell, train: dc.CalibrationData, test: dc.CalibrationData) -> pd.DataFrame:
    entries = ESTIMATORS if cell.n_ind is None else DRAW_ESTIMATORS
    random = np.random.default_rng(cell.seed)
    batches = {size: full_batches(test, size, random) for size in SIZES}
    oracle = dc.DomainTemperatureScaling().fit(test)
    confidence = oracle.predict_confidence(test.logits, domains=test.domains)
    found = {}
    for size, (rows, codes, _) in batches.items():
        means = batch_means(confidence[rows], codes, codes.max() + 1)
        found[ORACLE, size] = pd.DataFrame(
            {"predicted_accuracy": means, "low": np.nan, "high": np.nan}
        )
    for name, entry in entries.items():
        estimator = None
        for size, (rows, codes, domain) in batches.items():
            if estimator is None or entry.each_size:
                estimator = entry.make(size).fit(train)
            if entry.one_batch:
                first = np.unique(domain, return_index=True)[1]
                own = np.isin(codes, first)
                rows, codes = rows[own], np.searchsorted(first, codes[own])
            found[name, size] = estimator.predict(
                test.logits[rows], features=test.features[rows], domains=codes
            )
    tables = {
        (name, size): _domain_errors(table, batches[size][2], test)
        for (name, size), table in found.items()
    }
    return pd.concat(tables, names=["estimator", "n"]).reset_index(level=[0, 1])


def full_batches(
    data: dc.CalibrationData, size: str, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows in disjoint shuffled batches of exactly ``size`` rows, their batches and domains.

    Returns the chosen rows, the number of the batch of each, and the domain of each batch.
    Batches are numbered domain by domain.
    """
    codes, _ = data.domain_codes
    batch = shuffled_batches(codes, "domain" if size == "all" else int(size), random)
    full = np.bincount(batch) >= (1 if size == "all" else int(size))
    rows = np.flatnonzero(full[batch])
    numbers = (np.cumsum(full) - 1)[batch[rows]]
    domain = np.empty(full.sum(), np.int64)
    domain[numbers] = codes[rows]
    return rows, numbers, domain


def _domain_errors(
    table: pd.DataFrame, domain: np.ndarray, test: dc.CalibrationData
) -> pd.DataFrame:
    """One row for each domain from a table of estimates of all, or of the first batches."""
    codes, names = test.domain_codes
    hits = np.asarray(test.logits).argmax(axis=1) == test.labels
    accuracy = np.bincount(codes, hits) / np.bincount(codes)
    first = np.unique(domain, return_index=True)[1]
    of_batch = domain if len(table) == len(domain) else domain[first]
    error = np.abs(table["predicted_accuracy"].to_numpy() - accuracy[of_batch])
    chosen = table.iloc[np.unique(of_batch, return_index=True)[1]]
    return pd.DataFrame(
        {
            "domain": np.asarray(names)[domain[first]],
            "batches": np.bincount(of_batch)[domain[first]],
            "error": batch_means(error, of_batch, len(names))[domain[first]],
            "accuracy": accuracy[domain[first]],
            "predicted": chosen["predicted_accuracy"].to_numpy(),
            "low": chosen["low"].to_numpy(),
            "high": chosen["high"].to_numpy(),
        }
    )
