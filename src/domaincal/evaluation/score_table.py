"""Results table: scores of fitted calibrators, one row for each method and domain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from domaincal._tensors import as_array, host_array, on_device
from domaincal._typing import Array, FloatArray, IntArray
from domaincal._validation import check_confidences
from domaincal.calibrators.predictions import RowScores, proper_scores
from domaincal.data import BlockedRows, CalibrationData
from domaincal.data.blocked_rows import AnyData, AnyRows, domain_names_of
from domaincal.evaluation.block_scores import score_blocks
from domaincal.evaluation.fitting import (
    Calibrators,
    calibrators_by_name,
    has_base_predictions,
    labelled_rows,
    prediction_arguments,
    require_labels,
)
from domaincal.evaluation.method_warnings import MethodWarnings
from domaincal.kernels.dispatch import predicted_classes
from domaincal.kernels.row_groups import group_means
from domaincal.metrics.domains import domain_rows
from domaincal.statistics import BinSums
from domaincal.statistics.domain_bins import DomainBins

# Elements of the float64 probabilities of a user's calibrator that exist at a time.
BLOCK_ELEMENTS = 1 << 21

#: Columns of a results table.
COLUMNS = (
    "method", "domain", "n", "accuracy", "mean_confidence",
    "ece", "floor", "excess", "gap", "nll", "brier",
)  # fmt: skip


def score_table(fitted: Calibrators, test: AnyData, *, n_bins: int = 15) -> pd.DataFrame:
    """Score fitted calibrators on each domain of ``test``.

    Parameters
    ----------
    fitted : calibrator, sequence of calibrators, or mapping from names to calibrators
        Fitted calibrators.
    test : CalibrationData or Store
        Rows with labels. Rows without domains are one domain, ``"all"``. A store is read in blocks.
    n_bins : int, default 15
        Number of bins of the calibration errors.

    Returns
    -------
    DataFrame
        One row for each method and domain, with the columns

        - method, domain, n: name of the calibrator, name of the domain, number of rows;
        - accuracy: of the argmax of the logits;
        - mean_confidence: mean confidence of the predicted class;
        - ece: expected calibration error;
        - floor: mean ECE of a perfectly calibrated model with these confidences;
        - excess: ece minus floor;
        - gap: ``|mean_confidence - accuracy|``;
        - nll, brier: mean negative log-likelihood and Brier score.

    Examples
    --------
    >>> import domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=2, random_state=0)
    >>> fitted = dc.MaxSoftmax().fit(data)
    >>> dc.score_table(fitted, data)["domain"].tolist()
    ['domain-0', 'domain-1']
    """
    rows = labelled_rows(test, "test")
    tables = []
    with MethodWarnings() as warnings:
        for method, calibrator in calibrators_by_name(fitted).items():
            with warnings.of(method):
                tables.append(scores_of_method(method, calibrator, rows, n_bins=n_bins))
    return pd.concat(tables, ignore_index=True)


def scores_of_method(method: str, fitted: Any, test: AnyRows, *, n_bins: int) -> pd.DataFrame:
    """Results table of one fitted calibrator."""
    if isinstance(test, BlockedRows):
        bins, nll, brier = score_blocks(fitted, test, n_bins=n_bins)
        return _results_table(method, domain_names_of(test), bins, nll, brier)
    return table_of_scores(method, compute_row_scores(fitted, test), test, n_bins=n_bins)


def table_of_scores(
    method: str, scores: RowScores, test: CalibrationData, *, n_bins: int
) -> pd.DataFrame:
    """Results table of the scores of each row, as from :func:`compute_row_scores`."""
    codes, names = test.domain_codes
    bins = bins_of_scores(scores, test, n_bins=n_bins)
    nll, brier = (group_means(each, codes) for each in (scores.nll, scores.brier))
    return _results_table(method, names, bins, nll, brier)


def _results_table(
    method: str, names: Array, bins: DomainBins, nll: FloatArray, brier: FloatArray
) -> pd.DataFrame:
    accuracy, confidence = bins.accuracy, bins.mean_confidence
    ece, floor = bins.calibration_error(), bins.floor()
    values = (
        method, names.tolist(), bins.n.astype(np.int64), accuracy, confidence, ece,
        floor, ece - floor, np.abs(confidence - accuracy), nll, brier,
    )  # fmt: skip
    return pd.DataFrame(dict(zip(COLUMNS, values, strict=True)))


@dataclass(frozen=True, eq=False)
class DomainScores:
    """Scores of a calibrator on one domain.

    Attributes
    ----------
    domain : str or int
        Name of the domain.
    bins : BinSums
        Sums of confidences and hits in each bin.
    nll, brier : float
        Means over the rows.
    temperatures : array of shape (n,), or None
        Temperature of each row; None for methods without a temperature.
    """

    domain: Any
    bins: BinSums
    nll: float
    brier: float
    temperatures: FloatArray | None

    def record(self) -> tuple[Any, ...]:
        """Values of all columns of a results table except the method."""
        return (self.domain, *bin_scores(self.bins), self.nll, self.brier)


def temperature_spread(temperatures: FloatArray) -> dict[str, FloatArray]:
    """Median, 5% and 95% quantiles, mean and standard deviation of temperatures.

    The last axis holds the rows of a domain; axes before it, several domains of equal size.
    """
    median, low, high = np.quantile(temperatures, [0.5, 0.05, 0.95], axis=-1)
    return {
        "predicted": median,
        "low": low,
        "high": high,
        "mean": np.mean(temperatures, axis=-1),
        "deviation": np.std(temperatures, axis=-1),
    }


def bin_scores(sums: BinSums) -> tuple[Any, ...]:
    """Values of the columns of a results table from n to gap."""
    return (
        int(sums.n), sums.accuracy, sums.mean_confidence, sums.calibration_error(), sums.floor(),
        sums.excess_error(), abs(sums.mean_confidence - sums.accuracy),
    )  # fmt: skip


def domain_scores(fitted: Any, test: CalibrationData, *, n_bins: int) -> Iterator[DomainScores]:
    """Scores of a fitted calibrator on each domain; its predictions are computed once."""
    require_labels(test, "test")
    scores = compute_row_scores(fitted, test)
    bins = bins_of_scores(scores, test, n_bins=n_bins)
    for k, (name, rows) in enumerate(domain_rows(*test.domain_codes)):
        yield DomainScores(
            domain=name,
            bins=bins.of_domain(k),
            nll=float(scores.nll[rows].mean()),
            brier=float(scores.brier[rows].mean()),
            temperatures=None if scores.temperature is None else scores.temperature[rows],
        )


def bins_of_scores(scores: RowScores, test: CalibrationData, *, n_bins: int) -> DomainBins:
    """Bins of all domains, from the scores of each row."""
    codes, names = test.domain_codes
    hits = predicted_classes(test.logits) == require_labels(test, "test")
    confidences = check_confidences(scores.confidence)
    return DomainBins.from_confidences(confidences, hits, codes, len(names), n_bins=n_bins)


def compute_row_scores(fitted: Any, test: CalibrationData) -> RowScores:
    """Scores of each row, also for calibrators with their own prediction methods."""
    if has_base_predictions(fitted):
        scores: RowScores = fitted.score_rows(test)
        return scores
    labels = require_labels(test, "test")
    n_classes = test.logits.shape[1]
    confidence, nll, brier, temperature = (np.full(len(test), np.nan) for _ in range(4))
    has_temperature = hasattr(fitted, "predict_temperature")
    for rows in _whole_domains(test, BLOCK_ELEMENTS // n_classes):
        block = test.select(rows)
        logits, arrays = prediction_arguments(fitted, block)
        p = as_array(fitted.predict_proba(logits.astype(np.float64), **arrays))
        nll[rows], brier[rows] = proper_scores(
            p.__getitem__, labels[rows], n_classes=n_classes, device=on_device(p)
        )
        confidence[rows] = host_array(fitted.predict_confidence(logits, **arrays))
        if has_temperature:
            temperature[rows] = host_array(fitted.predict_temperature(logits, **arrays))
    return RowScores(confidence, nll, brier, temperature if has_temperature else None)


def _whole_domains(data: CalibrationData, n_rows: int) -> Iterator[IntArray]:
    """Rows of whole domains, of several domains together up to ``n_rows`` rows.

    Domains stay whole, because predictions of a calibrator may depend on the rows of a domain.
    """
    block: list[IntArray] = []
    size = 0
    for _, rows in domain_rows(*data.domain_codes):
        if block and size + len(rows) > n_rows:
            yield np.concatenate(block)
            block, size = [], 0
        block.append(rows)
        size += len(rows)
    yield np.concatenate(block)
