"""Reliability diagram."""

from __future__ import annotations

from typing import Any

import numpy as np

from domaincal.errors import InputError
from domaincal.metrics import ReliabilityCurve
from domaincal.plots.style import COLOURS, LABEL_WIDTH, axes, diagonal, drawn_lines

# Bins with fewer rows are drawn pale: their accuracy is uncertain.
_FEW_ROWS = 10


def plot_reliability(curve: ReliabilityCurve, *, ax: Any = None, label: str | None = None) -> Any:
    """Draw a reliability diagram: accuracy against confidence by bin, with 95% intervals.

    Bars at the bottom show the number of rows of each bin. Bins with fewer than 10 rows are pale,
    and the line does not connect them.

    Parameters
    ----------
    curve : ReliabilityCurve
        From :func:`reliability_curve`.
    ax : matplotlib Axes, optional
        By default, the axes of a new figure.
    label : str, optional
        Start of the title, which also gives the ECE.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import domaincal as dc
    >>> data, _ = dc.make_multi_domain(random_state=0)
    >>> p = dc.MaxSoftmax().fit(data.logits, data.labels).predict_proba(data.logits)
    >>> ax = dc.plots.plot_reliability(dc.reliability_curve(p, data.labels))
    >>> ax.get_xlabel()
    'confidence'
    """
    if not isinstance(curve, ReliabilityCurve):
        raise InputError(
            f"curve must be a ReliabilityCurve, got {type(curve).__name__}; make it with "
            "domaincal.reliability_curve(probabilities, labels)."
        )
    ax = axes(ax)
    diagonal(ax, 0.0, 1.0)
    left, width = curve.edges[:-1], np.diff(curve.edges)
    known = curve.n > 0
    share = curve.n / curve.n.sum()
    ax.bar(
        left, 0.22 * share / share.max(), width, align="edge", color="0.85", edgecolor="white",
        linewidth=0.5, zorder=1, label="rows (scaled)",
    )  # fmt: skip
    gap = curve.confidence - curve.accuracy
    for bins, gap_style, style in (
        (curve.n >= _FEW_ROWS, {"alpha": 0.25, "hatch": "////", "label": "gap"},
         {"linewidth": 1.2, "label": "accuracy"}),
        (known & (curve.n < _FEW_ROWS), {"alpha": 0.08}, {"linestyle": "none", "alpha": 0.25}),
    ):  # fmt: skip
        accuracy = curve.accuracy[bins]
        ax.bar(
            left[bins], gap[bins], width[bins], bottom=accuracy, align="edge", color=COLOURS[1],
            edgecolor=COLOURS[1], linewidth=0.0, zorder=2, **gap_style,
        )  # fmt: skip
        interval = [accuracy - curve.low[bins], curve.high[bins] - accuracy]
        ax.errorbar(
            curve.confidence[bins], accuracy, interval, color=COLOURS[0], marker="o",
            markersize=4, elinewidth=1.0, capsize=2, zorder=3, **style,
        )  # fmt: skip
    error = float(np.sum(np.abs(gap[known]) * share[known]))
    ax.set_xlabel("confidence")
    ax.set_ylabel("accuracy")
    start = f"{label}, " if label else ""
    ax.set_title(drawn_lines(f"{start}ECE {100 * error:.2f}%", LABEL_WIDTH), fontsize="medium")
    ax.legend(loc="best", framealpha=0.8, fontsize="small")
    return ax
