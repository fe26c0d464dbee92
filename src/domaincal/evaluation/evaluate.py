"""The results table: one row for each method and domain."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from domaincal._tensors import array_or_rows, host_array, on_device
from domaincal._typing import Array
from domaincal.data import CalibrationData
from domaincal.evaluation.fitting import (
    Calibrators,
    fitted_to,
    labels_of,
    named,
    readable_by,
    require_same_classes,
)
from domaincal.kernels.dispatch import predicted_classes
from domaincal.metrics import brier_score, negative_log_likelihood
from domaincal.metrics.domains import domain_rows
from domaincal.metrics.scores import proper_scores
from domaincal.statistics import BinSums

# Probabilities that are held at a time, unless a single domain has more.
_ELEMENTS = 1 << 21
_DEVICE_ELEMENTS = 1 << 25

COLUMNS = (
    "method", "domain", "n", "accuracy", "mean_confidence",
    "ece", "floor", "excess", "gap", "nll", "brier",
)  # fmt: skip


def evaluate(
    calibrators: Calibrators,
    *,
    train: CalibrationData,
    test: CalibrationData,
    n_bins: int = 15,
) -> pd.DataFrame:
    """Fit clones of the calibrators on ``train`` and score them on each domain of ``test``.

    Parameters
    ----------
    calibrators : calibrator, sequence of calibrators, or mapping from names to calibrators
    train, test : CalibrationData
        With labels. Test rows without domains count as one domain, ``"all"``.
    n_bins : int, default 15

    Returns
    -------
    DataFrame
        See :func:`score_table`.

    Examples
    --------
    >>> import domaincal as dc
    >>> data, _ = dc.make_multi_domain(random_state=0)
    >>> train, test = dc.split_halves(data)
    >>> table = dc.evaluate([dc.MaxSoftmax(), dc.TemperatureScaling()], train=train, test=test)
    >>> len(table) == 2 * 20
    True
    """
    labels_of(train, "train")
    labels_of(test, "test")
    fitted = {name: fitted_to(c, train) for name, c in named(calibrators).items()}
    return score_table(fitted, test, n_bins=n_bins)


def score_table(fitted: Calibrators, test: CalibrationData, *, n_bins: int = 15) -> pd.DataFrame:
    """Score fitted calibrators on each domain of ``test``.

    Returns
    -------
    DataFrame
        One row for each method and domain: method, domain, n, accuracy (of the argmax of the
        logits), mean_confidence, ece, floor (mean ECE of a calibrated model), excess (ece less
        floor), gap (|mean confidence - accuracy|), nll, brier.

    Examples
    --------
    >>> import domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=2, random_state=0)
    >>> fitted = dc.MaxSoftmax().fit(data.logits, data.labels)
    >>> dc.score_table(fitted, data)["domain"].tolist()
    ['domain-0', 'domain-1']
    """
    records = [
        (method, *scores.record())
        for method, calibrator in named(fitted).items()
        for scores in domain_scores(calibrator, test, n_bins=n_bins)
    ]
    return pd.DataFrame(records, columns=list(COLUMNS))


@dataclass(frozen=True)
class DomainScores:
    """What a calibrator scores on one domain, and the bins behind it."""

    domain: Any
    bins: BinSums
    nll: float
    brier: float

    def record(self) -> tuple[Any, ...]:
        """The columns of a results table that follow the method."""
        return (self.domain, *bin_scores(self.bins), self.nll, self.brier)


def bin_scores(sums: BinSums) -> tuple[Any, ...]:
    """The columns of a results table that bins give: from n to gap."""
    return (
        int(sums.n), sums.accuracy, sums.mean_confidence, sums.calibration_error(), sums.floor(),
        sums.excess_error(), abs(sums.mean_confidence - sums.accuracy),
    )  # fmt: skip


def domain_scores(fitted: Any, test: CalibrationData, *, n_bins: int) -> Iterator[DomainScores]:
    """Scores of a fitted calibrator on each domain of ``test``."""
    y = labels_of(test, "test")
    require_same_classes(fitted, test)
    test = readable_by(fitted, test)
    elements = _DEVICE_ELEMENTS if on_device(test.logits) else _ELEMENTS
    for block in _blocks(domain_rows(*test.domain_codes), elements // test.logits.shape[1]):
        rows = np.concatenate([own for _, own in block])
        z = test.logits[rows]
        given = {
            "features": None if test.features is None else test.features[rows],
            "domains": None if test.domains is None else test.domains[rows],
        }
        hits = predicted_classes(z) == y[rows]
        confidences = host_array(fitted.predict_confidence(z, **given))
        # In float64: what single precision rounds to 0 keeps its price.
        p = fitted.predict_proba(z.astype(np.float64), **given)
        ends = np.cumsum([len(own) for _, own in block])
        for (name, own), end in zip(block, ends, strict=True):
            here = slice(end - len(own), end)
            bins = BinSums.from_confidences(confidences[here], hits[here], n_bins=n_bins)
            yield DomainScores(name, bins, *_proper_scores(p[here], y[own]))


def _proper_scores(probabilities: Any, labels: Array) -> tuple[float, float]:
    """Mean NLL and Brier score."""
    p = array_or_rows(probabilities)
    if on_device(p):
        nll, brier = proper_scores(p, labels)
        return float(nll.mean()), float(brier.mean())
    return negative_log_likelihood(p, labels), brier_score(p, labels)


def _blocks(domains: list[tuple[Any, Array]], n_rows: int) -> Iterator[list[tuple[Any, Array]]]:
    """Whole domains, several together while they are small."""
    block: list[tuple[Any, Array]] = []
    for name, rows in domains:
        if block and sum(len(own) for _, own in block) + len(rows) > n_rows:
            yield block
            block = []
        block.append((name, rows))
    yield block
