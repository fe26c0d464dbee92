"""The results table: one row for each method and domain."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from sklearn.base import clone

from domaincal._errors import InputError
from domaincal._validation import check_domains
from domaincal.data import CalibrationData
from domaincal.metrics import brier_score, negative_log_likelihood
from domaincal.metrics.domains import domain_rows
from domaincal.statistics import BinSums

# A calibrator, several, or several by name.
Calibrators: TypeAlias = Any

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
    y = _labels(train, "train")
    fitted = {
        name: clone(calibrator).fit(train.logits, y, features=train.features, domains=train.domains)
        for name, calibrator in _named(calibrators).items()
    }
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
    y = _labels(test, "test")
    domains = np.full(len(test), "all") if test.domains is None else test.domains
    codes, names = check_domains(domains, n_rows=len(test), needed_by="score_table")
    records = []
    for method, calibrator in _named(fitted).items():
        for name, rows in domain_rows(codes, names):
            part = test.select(rows)
            given = {"features": part.features, "domains": part.domains}
            hits = np.argmax(part.logits, axis=1) == y[rows]
            sums = BinSums.from_confidences(
                calibrator.predict_confidence(part.logits, **given), hits, n_bins=n_bins
            )
            # In float64: what single precision rounds to 0 keeps its price.
            p = calibrator.predict_proba(part.logits.astype(np.float64), **given)
            records.append((
                method, name, len(rows), sums.accuracy, sums.mean_confidence,
                sums.calibration_error(), sums.floor(), sums.excess_error(),
                abs(sums.mean_confidence - sums.accuracy),
                negative_log_likelihood(p, y[rows]), brier_score(p, y[rows]),
            ))  # fmt: skip
    return pd.DataFrame(records, columns=list(COLUMNS))


def _labels(data: CalibrationData, argument: str) -> Any:
    if not isinstance(data, CalibrationData):
        raise InputError(
            f"{argument} must be CalibrationData, got {type(data).__name__}; make it with "
            "domaincal.CalibrationData(logits, labels=..., features=..., domains=...)."
        )
    if data.labels is None:
        raise InputError(f"{argument} has no labels; pass CalibrationData(..., labels=...).")
    return data.labels


def _named(calibrators: Calibrators) -> dict[str, Any]:
    """Calibrators by name: the class, or its full repr where a class occurs twice."""
    if isinstance(calibrators, Mapping):
        listed = list(calibrators.values())
    else:
        listed = list(calibrators) if isinstance(calibrators, Sequence) else [calibrators]
    if not listed:
        raise InputError("calibrators is empty; pass at least one calibrator.")
    for calibrator in listed:
        if isinstance(calibrator, type) or not hasattr(calibrator, "predict_confidence"):
            raise InputError(
                f"calibrators holds {calibrator!r}, which is no calibrator; pass instances, e.g. "
                "domaincal.TemperatureScaling()."
            )
    if isinstance(calibrators, Mapping):
        return dict(calibrators)
    classes = [type(calibrator).__name__ for calibrator in listed]
    names = [
        repr(c) if classes.count(name) > 1 else name
        for c, name in zip(listed, classes, strict=True)
    ]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(
            f"calibrators holds {twice} twice; pass a mapping from names to calibrators."
        )
    return dict(zip(names, listed, strict=True))
