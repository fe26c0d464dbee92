"""HTML views for notebooks: a table of facts, and a drawing with one row for each domain."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

ACCENT = "#2a78d6"
_STYLE = "font-family:system-ui,sans-serif;font-size:13px;line-height:1.45;max-width:44em"
_TABLE_STYLE = "border:none;margin:.4em 0;font-size:inherit"
_NAME_STYLE = "text-align:left;opacity:.7;white-space:nowrap;padding:0 1.2em 0 0"
#: Most rows, or curves, that are drawn.
MAX_DRAWN = 30
# Sizes in pixels.
_LABEL_WIDTH, _PLOT_WIDTH, _ROW_HEIGHT, _MARGIN = 130, 260, 15, 8


class DrawnRow(NamedTuple):
    """A name, a horizontal line, and marks on it; all values are on one scale."""

    name: object
    line: tuple[float, float]
    dots: tuple[float, ...] = ()
    circles: tuple[float, ...] = ()


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


def spread_out(n: int, most: int = MAX_DRAWN) -> list[int]:
    """At most ``most`` of the numbers 0 to n - 1, evenly spaced, with the first and the last.

    Examples
    --------
    >>> spread_out(3), spread_out(9, 3)
    ([0, 1, 2], [0, 4, 8])
    """
    return list(range(n)) if n <= most else [round(k * (n - 1) / (most - 1)) for k in range(most)]


def draw_rows(
    rows: Sequence[DrawnRow],
    span: tuple[float, float],
    caption: str,
    *,
    reference: float | None = None,
) -> str:
    """SVG of rows below each other, with a caption, and a dashed vertical line at ``reference``.

    ``span`` is the range of the scale; what is outside is drawn at its end.
    """
    low, high = span
    width = max(high - low, 1e-9)

    def x(value: float) -> float:
        place = min(max((value - low) / width, 0.0), 1.0)
        return _LABEL_WIDTH + _MARGIN + (_PLOT_WIDTH - 2 * _MARGIN) * place

    height = _ROW_HEIGHT * len(rows)
    parts = []
    if reference is not None:
        parts.append(
            f'<line x1="{x(reference):.1f}" x2="{x(reference):.1f}" y1="0" y2="{height}" '
            'stroke="currentColor" stroke-dasharray="3 3" opacity=".5"/>'
        )
    for k, row in enumerate(rows):
        y = _ROW_HEIGHT * (k + 0.5)
        parts.append(
            f'<text x="{_LABEL_WIDTH}" y="{y + 4:.1f}" text-anchor="end" font-size="11" '
            f'fill="currentColor">{escape(_shorten(row.name))}</text>'
            f'<line x1="{x(row.line[0]):.1f}" x2="{x(row.line[1]):.1f}" '
            f'y1="{y:.1f}" y2="{y:.1f}" stroke="{ACCENT}" opacity=".5"/>'
        )
        for values, fill in ((row.dots, ACCENT), (row.circles, "none")):
            parts += [
                f'<circle cx="{x(value):.1f}" cy="{y:.1f}" r="3" stroke="{ACCENT}" fill="{fill}"/>'
                for value in values
            ]
    parts.append(draw_caption(_LABEL_WIDTH + _PLOT_WIDTH / 2, height + 13, caption))
    return draw_svg(_LABEL_WIDTH + _PLOT_WIDTH + 60, height + 20, parts)


def draw_caption(x: float, y: float, text: str) -> str:
    """SVG text, centred at x."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle" font-size="11" opacity=".7" '
        f'fill="currentColor">{escape(text)}</text>'
    )


def draw_svg(width: float, height: float, parts: Sequence[str]) -> str:
    """SVG element of the parts."""
    return f'<svg width="{width:.0f}" height="{height:.0f}">{"".join(parts)}</svg>'


def _shorten(name: object) -> str:
    text = str(name)
    return text if len(text) <= 20 else text[:19] + "…"
