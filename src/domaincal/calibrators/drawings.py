"""Drawings of what calibrators have learned, for their notebook views."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from domaincal._notebook_view import (
    ACCENT,
    DrawnRow,
    draw_caption,
    draw_rows,
    draw_svg,
    spread_out,
)
from domaincal._typing import Array, FloatArray

# Side of the square of maps, in pixels.
_SQUARE_SIDE = 170


def draw_temperatures(
    names: Sequence[object],
    temperatures: Array,
    errors: Array,
    used: Array,
    pooled: float,
) -> str:
    """SVG of the temperature of each domain with its 95% interval, and of the pooled temperature.

    Domains that are not used are hollow circles. If there are many domains, a selection is drawn,
    evenly spaced in the order of the temperatures.
    """
    order = np.argsort(temperatures, kind="stable")
    order = order[spread_out(len(order))]
    t = np.log(temperatures[order])
    # Beyond 25 an interval is as wide as the drawing.
    half = 1.96 * np.minimum(np.nan_to_num(errors[order]), 25.0)
    known = not np.isnan(pooled)
    ends = np.concatenate([t - half, t + half, [np.log(pooled)] if known else []])
    # A single wide interval must not compress all others.
    low, high = np.clip([ends.min(), ends.max()], t.min() - np.log(2), t.max() + np.log(2))
    rows = [
        DrawnRow(
            names[k], (value - bar, value + bar),
            dots=(value,) if used[k] else (), circles=() if used[k] else (value,),
        )
        for k, value, bar in zip(order, t, half, strict=True)
    ]  # fmt: skip
    shown = "" if len(order) == len(temperatures) else f", {len(order)} of {len(temperatures)}"
    label = f"T from {np.exp(low):.3g} to {np.exp(high):.3g} (log scale{shown})"
    label += "; dashed: pooled" if known else ""
    label += "" if used.all() else "; hollow: not used"
    reference = float(np.log(pooled)) if known else None
    return draw_rows(rows, (low, high), label, reference=reference)


def draw_maps(maps: Sequence[Callable[[FloatArray], FloatArray]]) -> str:
    """SVG of maps from score to probability, and the diagonal; of many maps a selection."""
    maps = [maps[k] for k in spread_out(len(maps))]
    opacity = 1.0 if len(maps) == 1 else 0.35
    scores = np.linspace(0.0, 1.0, _SQUARE_SIDE + 1)
    parts = [
        f'<rect x=".5" y=".5" width="{_SQUARE_SIDE}" height="{_SQUARE_SIDE}" fill="none" '
        'stroke="currentColor" opacity=".3"/>'
        f'<line x1="0" y1="{_SQUARE_SIDE}" x2="{_SQUARE_SIDE}" y2="0" stroke="currentColor" '
        'stroke-dasharray="3 3" opacity=".5"/>'
    ]
    for curve in maps:
        points = " ".join(
            f"{x},{_SQUARE_SIDE * (1.0 - probability):.1f}"
            for x, probability in enumerate(curve(scores))
        )
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{ACCENT}" stroke-width="1.5" '
            f'opacity="{opacity}"/>'
        )
    parts.append(draw_caption(_SQUARE_SIDE / 2, _SQUARE_SIDE + 14, "softmax score → calibrated"))
    return draw_svg(_SQUARE_SIDE + 1, _SQUARE_SIDE + 20, parts)
