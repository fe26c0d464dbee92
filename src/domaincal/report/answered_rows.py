"""How many rows can be answered at which accuracy."""

from __future__ import annotations

from typing import Any

import numpy as np

from domaincal._typing import Array, FloatArray
from domaincal.kernels.dispatch import predicted_classes
from domaincal.metrics import RiskCurve, risk_coverage
from domaincal.report.plain_values import number, numbers
from domaincal.report.scored_rows import ScoredRows

_TARGETS = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99)
# Targets of the table, the lowest of those above the accuracy of all rows.
_MOST_TARGETS = 5
_MOST_POINTS = 200
# Curves start where so many rows are kept: the accuracy of fewer is mostly chance.
_FEW_ROWS = 10


def answered_rows(rows: ScoredRows, chosen: Array) -> dict[str, Any]:
    """Section ``risk``, of the rows of the chosen domains together."""
    used = chosen[rows.data.domain_codes[0]]
    assert rows.data.labels is not None
    hits = (predicted_classes(rows.data.logits) == rows.data.labels)[used]
    before, after = (
        risk_coverage(scores.confidence[used], hits) for scores in (rows.before, rows.after)
    )
    accuracy = float(hits.mean())
    targets = []
    for target in [one for one in _TARGETS if one > accuracy][:_MOST_TARGETS]:
        (old, _), (new, threshold) = (
            found.threshold_for(accuracy=target)[["coverage", "threshold"]].iloc[0]
            for found in (before, after)
        )
        targets.append({
            "accuracy": target, "before": number(old), "after": number(new),
            "threshold": number(threshold),
        })  # fmt: skip
    return {
        "before": _points(before.curves["all"]),
        "after": _points(after.curves["all"]),
        "targets": targets,
    }


def _points(curve: RiskCurve) -> dict[str, Any]:
    """At most 200 points of a curve, evenly spread over its coverage."""
    drawn = np.flatnonzero(curve.kept >= min(_FEW_ROWS, curve.n))
    coverage = curve.coverage[drawn]
    wanted: FloatArray = np.linspace(coverage[0], 1.0, _MOST_POINTS)
    places = drawn[np.unique(np.searchsorted(coverage, wanted - 1e-12).clip(max=len(drawn) - 1))]
    return {
        "coverage": numbers(curve.coverage[places]),
        "accuracy": numbers(curve.accuracy[places]),
        "threshold": numbers(curve.thresholds[places]),
    }
