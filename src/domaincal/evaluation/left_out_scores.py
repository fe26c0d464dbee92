"""Scores of rows by calibrators that were fitted without their domain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from domaincal._tensors import host_array
from domaincal._typing import Array, FloatArray, IntArray, Track
from domaincal._validation import check_random_state
from domaincal.calibrators.predictions import RowScores
from domaincal.data import CalibrationData
from domaincal.data.batches import BatchSize, check_batch_size, shuffled_batches
from domaincal.data.splits import SplitBy
from domaincal.errors import InputError
from domaincal.evaluation.fitting import fit_clone, require_labels
from domaincal.evaluation.method_warnings import MethodWarnings
from domaincal.evaluation.protocols import (
    NOTHING_SCORED,
    left_out_folds,
    warn_of_unscored_domains,
)
from domaincal.evaluation.score_table import compute_row_scores


@dataclass(frozen=True, eq=False)
class LeftOutScores:
    """Scores of each row by calibrators that were fitted to other domains.

    Attributes
    ----------
    data : CalibrationData
        The rows that are scored.
    folds : array of int, shape (n_domains,)
        Fold of each domain of ``data``.
    scores : dict from methods to RowScores
    """

    data: CalibrationData
    folds: IntArray
    scores: dict[str, RowScores]


def score_left_out_domains(
    calibrators: Mapping[str, Any],
    data: CalibrationData,
    *,
    n_folds: int | None = None,
    by: SplitBy | None = None,
    batch_size: BatchSize = "domain",
    random_state: int = 0,
    track: Track = iter,
) -> LeftOutScores:
    """Scores of each row of each domain, by calibrators fitted to all other domains.

    The rows and folds are those of :func:`evaluate_leave_one_domain_out`. Calibrators that predict
    batches get ``batch_size`` rows of one domain at a time, or all of them.

    Examples
    --------
    >>> import domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=4, n_rows=50, random_state=0)
    >>> found = score_left_out_domains({"ts": dc.TemperatureScaling()}, data)
    >>> found.folds.tolist(), found.scores["ts"].nll.shape
    ([0, 1, 2, 3], (200,))
    """
    require_labels(data, "data")
    folds = left_out_folds(data, n_folds, by=by, random_state=random_state)
    batches = batch_numbers(data, batch_size, random_state)
    fold_of_name: dict[Any, int] = {}
    scored = np.zeros(len(data), bool)
    scores = {name: _no_scores(len(data)) for name in calibrators}
    with MethodWarnings() as warnings:
        for fold, domains in enumerate(track(folds.domains)):
            fold_of_name.update(dict.fromkeys(domains, fold))
            fit, test = folds.masks(domains)
            if not (fit.any() and test.any()):
                continue
            scored |= test
            train, rows = data.select(fit), data.select(test)
            for name, calibrator in calibrators.items():
                with warnings.of(name):
                    found = score_in_batches(fit_clone(calibrator, train), rows, batches[test])
                _store(scores[name], found, test)
    warn_of_unscored_domains(data, scored)
    if not scored.any():
        raise InputError(NOTHING_SCORED)
    kept = data.select(scored)
    return LeftOutScores(
        data=kept,
        folds=np.array([fold_of_name[name] for name in kept.domain_names.tolist()]),
        scores={name: _part(found, scored) for name, found in scores.items()},
    )


def batch_numbers(data: CalibrationData, batch_size: BatchSize, random_state: int) -> IntArray:
    """Batch of each row, in shuffled batches of rows of one domain."""
    check_batch_size(batch_size)
    return shuffled_batches(data.domain_codes[0], batch_size, check_random_state(random_state))


def score_in_batches(fitted: Any, data: CalibrationData, batches: IntArray) -> RowScores:
    """Scores of each row; calibrators that predict batches get these batches."""
    if getattr(fitted, "predicts_batches", bool)():
        data = replace(data, domains=batches)
    scores = compute_row_scores(fitted, data)
    if scores.temperature is None:
        return scores
    return replace(scores, temperature=host_array(scores.temperature))


def _no_scores(n_rows: int) -> RowScores:
    return RowScores(*(np.full(n_rows, np.nan) for _ in range(4)))


def _store(scores: RowScores, found: RowScores, rows: Array) -> None:
    """Put the scores of some rows in their places; methods without a temperature keep NaN."""
    for name in ("confidence", "nll", "brier", "temperature"):
        values: FloatArray | None = getattr(found, name)
        if values is not None:
            getattr(scores, name)[rows] = values


def _part(scores: RowScores, rows: Array) -> RowScores:
    """Scores of some rows; no temperatures if no row has one."""
    temperature = None if scores.temperature is None else scores.temperature[rows]
    if temperature is not None and np.isnan(temperature).all():
        temperature = None
    return RowScores(scores.confidence[rows], scores.nll[rows], scores.brier[rows], temperature)
