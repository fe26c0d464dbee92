"""Scores of every method on the OOD domains of a cell."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import domaincal as dc
from benchmarks.shift.methods import BATCHES, DRAW_METHODS, ORACLE, TABLE_METHODS, Method
from benchmarks.shift.problems import N_BINS, Cell, load, split
from domaincal._warnings import handle_warnings
from domaincal.calibrators.choice.left_out_domains import LeftOutDomains
from domaincal.data.batches import shuffled_batches
from domaincal.statistics import BinSums

#: Batch of a score that is the same for all sizes.
ANY = "any"


def score_cell(cell: Cell, data_folder: Path, out: Path) -> pd.DataFrame:
    """Scores of one cell, kept in a csv file; one row for each method, batch and domain."""
    path = out / "cells" / f"{cell.name}.csv"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        train, test = split(cell, load(cell, data_folder, out / "rows"))
        with handle_warnings(lambda message, category: None), _fits_kept():
            scores = _scores(cell, train, test)
        scores.insert(0, "data", cell.data)
        scores.insert(1, "partition", cell.partition)
        scores.insert(2, "seed", cell.seed)
        part = path.with_suffix(".part")
        scores.to_csv(part, index=False)
        part.rename(path)
    return pd.read_csv(path)


def _scores(cell: Cell, train: dc.CalibrationData, test: dc.CalibrationData) -> pd.DataFrame:
    methods = TABLE_METHODS if cell.n_ind is None else DRAW_METHODS
    codes, _ = test.domain_codes
    random = np.random.default_rng(cell.seed)
    batches = {size: shuffled_batches(codes, size, random) for size in BATCHES}
    parts = [_domain_scores(ORACLE, ANY, dc.DomainTemperatureScaling().fit(test), test, codes)]
    for name, method in methods.items():
        fitted = None
        for size in method.batches or (ANY,):
            if fitted is None or name == "auto":
                fitted = method.make(size).fit(_rows(method, train))
            rows = _rows(method, test, None if size == ANY else batches[size])
            parts.append(_domain_scores(name, size, fitted, rows, codes, test))
    return pd.concat(parts, ignore_index=True)


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
    name: str,
    size: object,
    fitted: object,
    rows: dc.CalibrationData,
    codes: np.ndarray,
    test: dc.CalibrationData | None = None,
) -> pd.DataFrame:
    """ECE, excess and gap of each domain in %, its NLL, and how often the error covers its T.

    The standard error of log T covers T if log T_k of the labels is within 1.96 of it.
    """
    test = rows if test is None else test
    covered = _covered(fitted, rows, test)
    scores = fitted.score_rows(rows)
    hits = np.asarray(rows.logits).argmax(axis=1) == rows.labels
    records = []
    for domain, label in enumerate(test.domain_codes[1]):
        own = codes == domain
        sums = BinSums.from_confidences(scores.confidence[own], hits[own], n_bins=N_BINS)
        gap = abs(sums.mean_confidence - sums.accuracy)
        percent = (sums.calibration_error(), sums.excess_error(), gap)
        records.append(
            (name, size, label, int(sums.n), *(100 * v for v in percent), scores.nll[own].mean(),
             covered[own].mean())
        )  # fmt: skip
    columns = ["method", "batch", "domain", "n", "ece", "excess", "gap", "nll", "covered"]
    return pd.DataFrame(records, columns=columns)


def _covered(fitted: object, rows: dc.CalibrationData, test: dc.CalibrationData) -> np.ndarray:
    """Whether the predicted interval of log T holds the T_k of the labels; NaN without one."""
    if not isinstance(fitted, dc.BatchTemperatureScaling):
        return np.full(len(rows), np.nan)
    own = np.log(dc.DomainTemperatureScaling().fit(test).predict_temperature(test))
    difference = np.abs(np.log(fitted.predict_temperature(rows)) - own)
    return (difference <= 1.96 * fitted.predict_temperature_error(rows)).astype(float)


@contextmanager
def _fits_kept() -> Iterator[None]:
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
