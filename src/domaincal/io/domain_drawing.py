"""Drawing of the notebook view of an Inspection."""

from __future__ import annotations

import numpy as np
import pandas as pd

from domaincal._notebook_view import DrawnRow, draw_rows, spread_out


def draw_domains(table: pd.DataFrame) -> str:
    """SVG of accuracy and mean confidence by domain, the most overconfident domain first.

    Without labels, there are circles of the mean confidence only.
    """
    known = table[table["mean_confidence"].notna()]
    if known.empty:
        return ""
    confidence = known["mean_confidence"].to_numpy(np.float64)
    accuracy = known["accuracy"].to_numpy(np.float64)
    labelled = not np.isnan(accuracy).any()
    start = accuracy if labelled else confidence
    order = np.argsort(start - confidence if labelled else -confidence, kind="stable")
    order = order[spread_out(len(order))]
    names = known["domain"].tolist()
    rows = [
        DrawnRow(
            names[k], (start[k], confidence[k]),
            dots=(accuracy[k],) if labelled else (), circles=(confidence[k],),
        )
        for k in order
    ]  # fmt: skip
    low, high = min(start.min(), confidence.min()), max(start.max(), confidence.max())
    marks = "dot: accuracy, circle: mean confidence" if labelled else "circle: mean confidence"
    shown = "" if len(order) == len(table) else f" ({len(order)} of {len(table)} domains)"
    return draw_rows(rows, (low, high), f"{marks}; {100 * low:.0f} to {100 * high:.0f}%{shown}")
