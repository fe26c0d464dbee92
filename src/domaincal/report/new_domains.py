"""Predicted accuracy of domains without labels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from domaincal.calibrators.batch.batch_temperature import MINIMUM_DOMAINS
from domaincal.data import CalibrationData
from domaincal.data.blocked_rows import AnyRows
from domaincal.report.domain_results import ALL_ROWS
from domaincal.report.plain_values import number, numbers, text
from domaincal.shift import AccuracyEstimator, ConfidenceEstimator


def fit_estimator(
    data: CalibrationData, new: AnyRows, random_state: int
) -> ConfidenceEstimator | None:
    """Estimator from labelled rows; None if they are of too few domains.

    It uses features only if the new rows have them, too.
    """
    if data.labels is None or data.domains is None or len(data.domain_names) < MINIMUM_DOMAINS:
        return None
    if new.features is None:
        data = replace(data, features=None, feature_names=None)
    return ConfidenceEstimator(random_state=random_state).fit(data)


def new_domains(estimator: AccuracyEstimator, new: AnyRows) -> dict[str, Any]:
    """Section ``unlabelled``, the lowest limits first; labels of the rows are not used."""
    table = estimator.predict(new)
    if new.domains is None:
        table["domain"] = ALL_ROWS
    # Domains without a lower limit, such as those outside, come first.
    table = table.sort_values(["low", "predicted_accuracy"], ignore_index=True)
    return {
        "coverage": number(estimator.coverage),
        "name": [text(name) for name in table["domain"]],
        "n": numbers(table["n"]),
        "predicted": numbers(table["predicted_accuracy"]),
        "low": numbers(table["low"]),
        "high": numbers(table["high"]),
        "distance": numbers(table["distance"]),
        "verdict": table["verdict"].tolist(),
        "reason": table["reason"].tolist(),
    }
