"""Scores of every method on the OOD domains of a cell."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import domaincal as dc
from benchmarks.shift.methods import (
    AUTO,
    BATCH,
    BATCHES,
    DRAW_METHODS,
    NETWORK_METHODS,
    ORACLE,
    TABLE_METHODS,
    TS,
    Method,
)
from benchmarks.shift.problems import Cell
from domaincal._warnings import handle_warnings
from domaincal.calibrators.batch import batch_temperature
from domaincal.calibrators.choice.left_out_domains import LeftOutDomains
from domaincal.data.batches import shuffled_batches
from domaincal.statistics import BinSums

Rows = tuple[dc.CalibrationData, dc.CalibrationData]
#: Batch of a score that is the same for all sizes.
ANY = "any"


def cell_path(cell: Cell, out: Path) -> Path:
    """File of the scores of a cell."""
    return out / "cells" / f"{cell.name}.csv"


def score_cell(
    cell: Cell, rows: Callable[[Cell], Rows], out: Path, device: str = "cpu"
) -> pd.DataFrame:
    """Scores of one cell, kept in a csv file; one row for each method, batch and domain.

    ``rows`` returns the rows of the fit and the rows that are scored; MD-TS is fitted on the
    ``device``.
    """
    path = cell_path(cell, out)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        train, test = rows(cell)
        with handle_warnings(lambda message, category: None), fits_kept():
            scores = _scores(cell, train, test, device)
        scores.insert(0, "data", cell.data)
        scores.insert(1, "partition", cell.partition)
        scores.insert(2, "seed", cell.seed)
        part = path.with_suffix(".part")
        scores.to_csv(part, index=False)
        part.rename(path)
    return pd.read_csv(path)


def _scores(
    cell: Cell, train: dc.CalibrationData, test: dc.CalibrationData, device: str
) -> pd.DataFrame:
    methods = NETWORK_METHODS if cell.is_network else TABLE_METHODS
    methods = methods if cell.n_ind is None else DRAW_METHODS
    codes, _ = test.domain_codes
    random = np.random.default_rng(cell.seed)
    batches = {size: shuffled_batches(codes, size, random) for size in BATCHES}
    oracle = dc.DomainTemperatureScaling().fit(test)
    found = {(ORACLE, ANY): _domain_scores(oracle, test, codes, oracle, cell.n_bins)}
    for name, method in methods.items():
        fitted = None
        for size in method.batches or (ANY,):
            if fitted is None or name == AUTO:
                fitted = _fitted(method, size, _rows(method, train), device)
            if name == AUTO:
                found[name, size] = found[_winner(fitted.best_, size)].assign(covered=np.nan)
                continue
            rows = _rows(method, test, None if size == ANY else batches[size])
            found[name, size] = _domain_scores(fitted, rows, codes, oracle, cell.n_bins)
    for (name, size), scores in found.items():
        scores.insert(0, "method", name)
        scores.insert(1, "batch", size)
    return pd.concat(found.values(), ignore_index=True)


def _fitted(method: Method, size: object, rows: dc.CalibrationData, device: str) -> Any:
    """The fitted method. Memory of a GPU is given back: many processes share it."""
    if not method.on_device or device == "cpu":
        return method.make(size).fit(rows)
    import torch

    try:
        return method.make(size).fit(rows.to(device))
    finally:
        torch.cuda.empty_cache()


def _winner(best: object, size: object) -> tuple[str, object]:
    """The method that AutoCalibration has chosen, which is fitted to the same rows."""
    if isinstance(best, dc.BatchTemperatureScaling):
        return BATCH, size
    names = {
        dc.TemperatureScaling: TS,
        dc.FeatureTemperatureScaling: "feature TS",
        dc.DomainMixtureScaling: "mixture",
    }
    return names[type(best)], ANY


def _rows(
    method: Method, data: dc.CalibrationData, batches: np.ndarray | None = None
) -> dc.CalibrationData:
    """Rows as the method gets them: with or without features, grouped into batches."""
    return dc.CalibrationData(
        data.logits,
        labels=data.labels,
        features=data.features if method.features else None,
        domains=data.domains if batches is None else batches,
    )


def _domain_scores(
    fitted: object,
    rows: dc.CalibrationData,
    codes: np.ndarray,
    oracle: dc.DomainTemperatureScaling,
    n_bins: int,
) -> pd.DataFrame:
    """ECE, excess and gap of each domain in %, its NLL, and how often the error covers its T.

    ``codes`` are the domains of the rows; ``oracle`` knows the T_k of their labels. The standard
    error of log T covers T_k if log T_k is within 1.96 of it.
    """
    temperatures = oracle.domain_temperatures_
    covered = np.full(len(rows), np.nan)
    with _statistics_kept():
        scores = fitted.score_rows(rows)
        if isinstance(fitted, dc.BatchTemperatureScaling):
            difference = np.log(fitted.predict_temperature(rows) / temperatures.to_numpy()[codes])
            limit = 1.96 * fitted.predict_temperature_error(rows)
            covered = (np.abs(difference) <= limit).astype(float)
    hits = np.asarray(rows.logits).argmax(axis=1) == rows.labels
    records = []
    for domain, label in enumerate(temperatures.index):
        own = codes == domain
        sums = BinSums.from_confidences(scores.confidence[own], hits[own], n_bins=n_bins)
        gap = abs(sums.mean_confidence - sums.accuracy)
        percent = (sums.calibration_error(), sums.excess_error(), gap)
        records.append(
            (label, int(sums.n), *(100 * v for v in percent), scores.nll[own].mean(),
             covered[own].mean())
        )  # fmt: skip
    columns = ["domain", "n", "ece", "excess", "gap", "nll", "covered"]
    return pd.DataFrame(records, columns=columns)


@contextmanager
def _statistics_kept() -> Iterator[None]:
    """Compute the statistics of the batches once for temperatures, scores and standard errors."""
    compute, kept = batch_temperature.batch_statistics, []

    def compute_once(*args: Any, **options: Any) -> Any:
        if not kept:
            kept.append(compute(*args, **options))
        return kept[0]

    batch_temperature.batch_statistics = compute_once
    try:
        yield
    finally:
        batch_temperature.batch_statistics = compute


@contextmanager
def fits_kept() -> Iterator[None]:
    """Keep the fits of AutoCalibration to the same rows, which do not depend on the batch size."""
    fit, kept = LeftOutDomains._fit, {}

    def fit_once(self: LeftOutDomains, candidate: Any, rows: np.ndarray) -> Any:
        key = (repr(candidate), rows.tobytes())
        if key not in kept:
            kept[key] = fit(self, candidate, rows)
        return kept[key]

    LeftOutDomains._fit = fit_once
    try:
        yield
    finally:
        LeftOutDomains._fit = fit
