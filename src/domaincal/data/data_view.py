"""Facts and drawing of the notebook view of CalibrationData, without a pass over the logits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from domaincal._notebook_view import DrawnRow, draw_rows, spread_out
from domaincal._tensors import device_name
from domaincal._typing import IntArray
from domaincal._wording import few, named_count

if TYPE_CHECKING:
    from domaincal.data.calibration_data import CalibrationData


def facts_of_data(data: CalibrationData) -> dict[str, str]:
    """Names and numbers of what the data has."""
    n_features = 0 if data.features is None else data.features.shape[1]
    facts = {
        "logits": f"{data.logits.dtype}, on {device_name(data.logits)}",
        "labels": "none" if data.labels is None else "in every row",
        "classes": named_count(data.logits.shape[1], data.class_names),
        "features": named_count(n_features, data.feature_names),
        "domains": "none",
    }
    if data.domains is not None:
        counts = _row_counts(data)
        least, most = int(counts.min()), int(counts.max())
        sizes = f"{most} rows each" if least == most else f"{least} to {most} rows"
        facts["domains"] = f"{len(counts)}, with {sizes}"
    if data.groups is not None:
        facts["groups"] = str(len(data.group_codes[1]))
    if data.provenance:
        facts["provenance"] = few(f"{key}: {value}" for key, value in data.provenance.items())
    return facts


def draw_row_counts(data: CalibrationData) -> str:
    """SVG of the number of rows of each domain, largest first; empty if all are equal."""
    counts = _row_counts(data)
    if counts.min() == counts.max():
        return ""
    order = np.argsort(-counts, kind="stable")
    order = order[spread_out(len(order))]
    names = data.domain_codes[1]
    rows = [DrawnRow(names[k], (0.0, float(counts[k])), dots=(float(counts[k]),)) for k in order]
    shown = "" if len(order) == len(names) else f" ({len(order)} of {len(names)} domains)"
    most = int(counts.max())
    return draw_rows(rows, (0.0, float(most)), f"number of rows, from 0 to {most}{shown}")


def _row_counts(data: CalibrationData) -> IntArray:
    """Number of rows of each domain, in the order of the names."""
    codes, names = data.domain_codes
    return np.bincount(codes, minlength=len(names))
