"""HTML view of a fitted calibrator for notebooks: a table of facts and a small drawing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

import numpy as np

from domaincal._typing import Array, FloatArray

_ACCENT = "#2a78d6"
_STYLE = "font-family:system-ui,sans-serif;font-size:13px;line-height:1.45;max-width:44em"
_TABLE_STYLE = "border:none;margin:.4em 0;font-size:inherit"
_NAME_STYLE = "text-align:left;opacity:.7;white-space:nowrap;padding:0 1.2em 0 0"
#: Most domains, and most maps, that are drawn.
MAX_DOTS = 30
MAX_CURVES = 30
# Sizes in pixels.
_LABEL_WIDTH, _PLOT_WIDTH, _ROW_HEIGHT = 130, 260, 15
_SQUARE_SIDE = 170


def notebook_view(title: str, facts: dict[str, str], drawing: str = "") -> str:
    """HTML of a title, a table of facts and a drawing; the text is escaped, the drawing is not."""
    rows = "".join(
        f'<tr><td style="{_NAME_STYLE}">{escape(name)}</td>'
        f'<td style="text-align:left">{escape(value)}</td></tr>'
        for name, value in facts.items()
    )
    return (
        f'<div style="{_STYLE}"><code>{escape(title)}</code>'
        f'<table style="{_TABLE_STYLE}"><tbody>{rows}</tbody></table>{drawing}</div>'
    )


def draw_temperatures(
    names: Sequence[object],
    temperatures: Array,
    errors: Array,
    used: Array,
    pooled: float,
) -> str:
    """SVG of the temperature of each domain with its 95% interval, and of the pooled temperature.

    Domains that are not used are hollow circles. If there are more than ``MAX_DOTS`` domains, a
    selection is drawn, evenly spaced in the order of the temperatures.
    """
    order = np.argsort(temperatures, kind="stable")
    if len(order) > MAX_DOTS:
        order = order[np.linspace(0, len(order) - 1, MAX_DOTS).round().astype(int)]
    # Beyond 25 an interval is as wide as the drawing, and exp would overflow.
    t, half = temperatures[order], 1.96 * np.minimum(np.nan_to_num(errors[order]), 25.0)
    ends = np.log(np.concatenate([t * np.exp(-half), t * np.exp(half), [pooled]]))
    # A single wide interval must not compress all others.
    low, high = np.clip([ends.min(), ends.max()], np.log(t.min() / 2), np.log(t.max() * 2))
    width = max(high - low, 1e-9)

    def x(value: float) -> float:
        place = (np.log(value) - low) / width
        return float(_LABEL_WIDTH + 8 + (_PLOT_WIDTH - 16) * np.clip(place, 0.0, 1.0))

    height = _ROW_HEIGHT * len(order)
    line = x(pooled)
    parts = [
        f'<line x1="{line:.1f}" x2="{line:.1f}" y1="0" y2="{height}" stroke="currentColor" '
        f'stroke-dasharray="3 3" opacity=".5"/>'
    ]
    for k, (domain, value, bar) in enumerate(zip(order, t, half, strict=True)):
        interval = x(value * np.exp(-bar)), x(value * np.exp(bar))
        y = _ROW_HEIGHT * (k + 0.5)
        parts.append(_dot(names[domain], x(value), interval, y, hollow=not used[domain]))
    shown = "" if len(order) == len(temperatures) else f", {len(order)} of {len(temperatures)}"
    label = f"T from {np.exp(low):.3g} to {np.exp(high):.3g} (log scale{shown}); dashed: pooled"
    label += "" if used.all() else "; hollow: not used"
    parts.append(_caption(_LABEL_WIDTH + _PLOT_WIDTH / 2, height + 13, label))
    return _svg(_LABEL_WIDTH + _PLOT_WIDTH + 60, height + 20, parts)


def draw_maps(maps: Sequence[Callable[[FloatArray], FloatArray]]) -> str:
    """SVG of maps from score to probability, and the diagonal; at most ``MAX_CURVES`` are drawn."""
    if len(maps) > MAX_CURVES:
        chosen = np.linspace(0, len(maps) - 1, MAX_CURVES).round().astype(int)
        maps = [maps[k] for k in chosen]
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
            f'<polyline points="{points}" fill="none" stroke="{_ACCENT}" stroke-width="1.5" '
            f'opacity="{opacity}"/>'
        )
    parts.append(_caption(_SQUARE_SIDE / 2, _SQUARE_SIDE + 14, "softmax score → calibrated"))
    return _svg(_SQUARE_SIDE + 1, _SQUARE_SIDE + 20, parts)


def _dot(name: object, x: float, interval: tuple[float, float], y: float, *, hollow: bool) -> str:
    """A name, a circle and its horizontal interval."""
    fill = "none" if hollow else _ACCENT
    return (
        f'<text x="{_LABEL_WIDTH}" y="{y + 4:.1f}" text-anchor="end" font-size="11" '
        f'fill="currentColor">{escape(_shorten(name))}</text>'
        f'<line x1="{interval[0]:.1f}" x2="{interval[1]:.1f}" '
        f'y1="{y:.1f}" y2="{y:.1f}" stroke="{_ACCENT}" opacity=".5"/>'
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" stroke="{_ACCENT}" fill="{fill}"/>'
    )


def _caption(x: float, y: float, text: str) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle" font-size="11" opacity=".7" '
        f'fill="currentColor">{escape(text)}</text>'
    )


def _svg(width: float, height: float, parts: list[str]) -> str:
    return f'<svg width="{width:.0f}" height="{height:.0f}">{"".join(parts)}</svg>'


def _shorten(name: object) -> str:
    text = str(name)
    return text if len(text) <= 20 else text[:19] + "…"
