"""The results table: scores of fitted calibrators, one row for each method and domain."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from domaincal._tensors import host_array
from domaincal._typing import FloatArray
from domaincal.calibrators.predictions import RowScores, proper_scores
from domaincal.data import CalibrationData
from domaincal.evaluation.fitting import Calibrators, labels_of, named, predicts_at_once
from domaincal.kernels.dispatch import predicted_classes
from domaincal.metrics.domains import domain_rows
from domaincal.statistics import BinSums

COLUMNS = (
    "method", "domain", "n", "accuracy", "mean_confidence",
    "ece", "floor", "excess", "gap", "nll", "brier",
)  # fmt: skip


def score_table(fitted: Calibrators, test: CalibrationData, *, n_bins: int = 15) -> pd.DataFrame:
    """Score fitted calibrators on each domain of ``test``.

    Parameters
    ----------
    fitted : calibrator, sequence of calibrators, or mapping from names to calibrators
    test : CalibrationData
        With labels. Rows without domains count as one domain, ``"all"``.
    n_bins : int, default 15

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
    >>> fitted = dc.MaxSoftmax().fit(data)
    >>> dc.score_table(fitted, data)["domain"].tolist()
    ['domain-0', 'domain-1']
    """
    records = [
        (method, *scores.record())
        for method, calibrator in named(fitted).items()
        for scores in domain_scores(calibrator, test, n_bins=n_bins)
    ]
    return pd.DataFrame(records, columns=list(COLUMNS))


@dataclass(frozen=True, eq=False)
class DomainScores:
    """Scores of a calibrator on one domain.

    Attributes
    ----------
    domain : str or int
    bins : BinSums
        Confidences and hits in bins.
    nll, brier : float
        Means over the rows.
    temperatures : array, shape (n,), or None
        Temperature of each row, where the method has one.
    """

    domain: Any
    bins: BinSums
    nll: float
    brier: float
    temperatures: FloatArray | None

    def record(self) -> tuple[Any, ...]:
        """The columns of a results table that follow the method."""
        return (self.domain, *bin_scores(self.bins), self.nll, self.brier)


def temperature_spread(temperatures: FloatArray) -> dict[str, float]:
    """Median, 5% and 95% quantile of the temperatures of a domain's rows."""
    middle, low, high = np.quantile(temperatures, [0.5, 0.05, 0.95]).tolist()
    return {"predicted": middle, "low": low, "high": high}


def bin_scores(sums: BinSums) -> tuple[Any, ...]:
    """The columns of a results table that bins give: from n to gap."""
    return (
        int(sums.n), sums.accuracy, sums.mean_confidence, sums.calibration_error(), sums.floor(),
        sums.excess_error(), abs(sums.mean_confidence - sums.accuracy),
    )  # fmt: skip


def domain_scores(fitted: Any, test: CalibrationData, *, n_bins: int) -> Iterator[DomainScores]:
    """Scores of a fitted calibrator on each domain, from one evaluation of the calibrator."""
    labels = labels_of(test, "test")
    scores = row_scores(fitted, test)
    hits = predicted_classes(test.logits) == labels
    for name, rows in domain_rows(*test.domain_codes):
        yield DomainScores(
            domain=name,
            bins=BinSums.from_confidences(scores.confidence[rows], hits[rows], n_bins=n_bins),
            nll=float(scores.nll[rows].mean()),
            brier=float(scores.brier[rows].mean()),
            temperatures=None if scores.temperature is None else scores.temperature[rows],
        )


def row_scores(fitted: Any, test: CalibrationData) -> RowScores:
    """Scores of each row, also of a calibrator with prediction methods of its own."""
    if predicts_at_once(fitted):
        scores: RowScores = fitted.score_rows(test)
        return scores
    labels = labels_of(test, "test")
    data = test.numpy()
    given = {"features": data.features, "domains": data.domains}
    # Its predictions may depend on other rows: they are asked for all rows at once.
    p = np.asarray(fitted.predict_proba(data.logits.astype(np.float64), **given))
    nll, brier = proper_scores(lambda block: p[block], labels, n_classes=p.shape[1], device=False)
    temperature = None
    if hasattr(fitted, "predict_temperature"):
        temperature = host_array(fitted.predict_temperature(data.logits, **given))
    confidence = host_array(fitted.predict_confidence(data.logits, **given))
    return RowScores(confidence, nll, brier, temperature)
