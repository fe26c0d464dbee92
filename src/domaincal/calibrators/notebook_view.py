"""What a notebook shows of a fitted calibrator: a few facts and one small drawing."""

from collections.abc import Callable, Sequence
from html import escape

import numpy as np

from domaincal._typing import Array, FloatArray

_ACCENT = "#2a78d6"
_STYLE = "font-family:system-ui,sans-serif;font-size:13px;line-height:1.45;max-width:44em"
_TABLE_STYLE = "border:none;margin:.4em 0;font-size:inherit"
_NAME_STYLE = "text-align:left;opacity:.7;white-space:nowrap;padding:0 1.2em 0 0"
_MAX_DOTS = 30
_MAX_CURVES = 30
_LABEL_WIDTH, _PLOT_WIDTH, _ROW = 130, 260, 15
_SIDE = 170


def notebook_view(title: str, facts: dict[str, str], drawing: str = "") -> str:
    """HTML of a title, facts by name, and a drawing; all text is escaped here."""
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
    """SVG of the temperature of each domain with its 95% interval; a line at the pooled one.

    Domains that are not used are hollow. Of many domains, some are shown, evenly by temperature.
    """
    order = np.argsort(temperatures, kind="stable")
    if len(order) > _MAX_DOTS:
        order = order[np.linspace(0, len(order) - 1, _MAX_DOTS).round().astype(int)]
    t, half = temperatures[order], 1.96 * np.nan_to_num(errors[order])
    ends = np.log(np.concatenate([t * np.exp(-half), t * np.exp(half), [pooled]]))
    # A single wild interval must not squeeze the rest.
    low, high = np.clip([ends.min(), ends.max()], np.log(t.min() / 2), np.log(t.max() * 2))
    width = max(high - low, 1e-9)

    def x(value: float) -> float:
        place = (np.log(value) - low) / width
        return float(_LABEL_WIDTH + 8 + (_PLOT_WIDTH - 16) * np.clip(place, 0.0, 1.0))

    height = _ROW * len(order)
    line = x(pooled)
    parts = [
        f'<line x1="{line:.1f}" x2="{line:.1f}" y1="0" y2="{height}" stroke="currentColor" '
        f'stroke-dasharray="3 3" opacity=".5"/>'
    ]
    for k, (domain, value, bar) in enumerate(zip(order, t, half, strict=True)):
        y = _ROW * (k + 0.5)
        fill = _ACCENT if used[domain] else "none"
        parts.append(
            f'<text x="{_LABEL_WIDTH}" y="{y + 4:.1f}" text-anchor="end" font-size="11" '
            f'fill="currentColor">{escape(_short(names[domain]))}</text>'
            f'<line x1="{x(value * np.exp(-bar)):.1f}" x2="{x(value * np.exp(bar)):.1f}" '
            f'y1="{y:.1f}" y2="{y:.1f}" stroke="{_ACCENT}" opacity=".5"/>'
            f'<circle cx="{x(value):.1f}" cy="{y:.1f}" r="3" stroke="{_ACCENT}" fill="{fill}"/>'
        )
    shown = "" if len(order) == len(temperatures) else f", {len(order)} of {len(temperatures)}"
    label = f"T from {np.exp(low):.3g} to {np.exp(high):.3g} (log scale{shown}); dashed: pooled"
    label += "" if used.all() else "; hollow: not used"
    parts.append(_caption(_LABEL_WIDTH + _PLOT_WIDTH / 2, height + 13, label))
    return _svg(_LABEL_WIDTH + _PLOT_WIDTH + 60, height + 20, parts)


def draw_maps(maps: Sequence[Callable[[FloatArray], FloatArray]]) -> str:
    """SVG of maps from score to probability, against the diagonal; of many maps, some."""
    if len(maps) > _MAX_CURVES:
        chosen = np.linspace(0, len(maps) - 1, _MAX_CURVES).round().astype(int)
        maps = [maps[k] for k in chosen]
    opacity = 1.0 if len(maps) == 1 else 0.35
    scores = np.linspace(0.0, 1.0, _SIDE + 1)
    parts = [
        f'<rect x=".5" y=".5" width="{_SIDE}" height="{_SIDE}" fill="none" '
        'stroke="currentColor" opacity=".3"/>'
        f'<line x1="0" y1="{_SIDE}" x2="{_SIDE}" y2="0" stroke="currentColor" '
        'stroke-dasharray="3 3" opacity=".5"/>'
    ]
    for curve in maps:
        points = " ".join(
            f"{x},{_SIDE * (1.0 - probability):.1f}" for x, probability in enumerate(curve(scores))
        )
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{_ACCENT}" stroke-width="1.5" '
            f'opacity="{opacity}"/>'
        )
    parts.append(_caption(_SIDE / 2, _SIDE + 14, "softmax score → calibrated"))
    return _svg(_SIDE + 1, _SIDE + 20, parts)


def _caption(x: float, y: float, text: str) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle" font-size="11" opacity=".7" '
        f'fill="currentColor">{escape(text)}</text>'
    )


def _svg(width: float, height: float, parts: list[str]) -> str:
    return f'<svg width="{width:.0f}" height="{height:.0f}">{"".join(parts)}</svg>'


def _short(name: object) -> str:
    text = str(name)
    return text if len(text) <= 20 else text[:19] + "…"
