"""Colours, markers and axes that all figures share."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import Any

from domaincal._optional import require
from domaincal._wording import fold

# The colour-blind safe palette of Okabe and Ito, dark colours first. Each colour has its own
# marker, so that figures are readable without colours.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
KINDS = ("InD", "OOD")
# Fixed styles, the same in every figure. InD and OOD have styles that these methods do not have.
_METHOD_STYLES = {"MD-TS": 0, "TS": 1, "MSP": 6, "oracle": 3}
_KIND_STYLES = {"": 0, "InD": 2, "OOD": 4}
# Characters in a line of a legend, and of a label beside or below square axes.
LEGEND_WIDTH = 34
LABEL_WIDTH = 40
GRID = {"color": "0.9", "linewidth": 0.8}
REFERENCE = {"color": "0.45", "linewidth": 1.0, "linestyle": "--"}


def axes(ax: Any, *, size: tuple[float, float] = (4.4, 4.0)) -> Any:
    """Return the given axes, or the axes of a new figure for None."""
    if ax is not None:
        return ax
    pyplot = require("matplotlib.pyplot", extra="plots", purpose="a figure")
    _, ax = pyplot.subplots(figsize=size, layout="constrained")
    return ax


def numbered_style(k: int) -> dict[str, Any]:
    """Colour and marker number k; they repeat after the last."""
    return {"color": COLOURS[k % len(COLOURS)], "marker": MARKERS[k % len(MARKERS)]}


def method_styles(methods: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Colour and marker of each method; methods without a fixed style get the unused ones."""
    used = {_METHOD_STYLES[method] for method in methods if method in _METHOD_STYLES}
    unused = cycle(k for k in range(len(COLOURS)) if k not in used)
    return {
        method: numbered_style(_METHOD_STYLES[method] if method in _METHOD_STYLES else next(unused))
        for method in methods
    }


def kind_style(kind: str) -> dict[str, Any]:
    """Colour and marker of InD or OOD domains; the first style for other kinds."""
    return numbered_style(_KIND_STYLES.get(kind, 0))


def diagonal(ax: Any, low: float, high: float) -> None:
    """Draw the diagonal, which has no ends, and make the axes square from ``low`` to ``high``."""
    ax.axline((low, low), (high, high), zorder=1, **REFERENCE)
    ax.set_xlim(low, high)
    ax.set_ylim(low, high)
    ax.set_aspect("equal")
    ax.grid(True, **GRID)
    ax.set_axisbelow(True)


def drawn(text: object) -> str:
    r"""Text that matplotlib draws as it is: a ``$`` starts no formula.

    Line breaks and other control characters become blanks.

    Examples
    --------
    >>> drawn("$5 and $6")
    '\\$5 and \\$6'
    """
    return "".join(c if c.isprintable() else " " for c in str(text)).replace("$", r"\$")


def label(text: object) -> str:
    """Text of a legend, in short lines; matplotlib leaves out artists whose label starts with _."""
    shown = drawn_lines(text, LEGEND_WIDTH)
    return f" {shown}" if shown.startswith("_") else shown


def drawn_lines(text: object, width: int) -> str:
    """Text as :func:`drawn`, in lines of at most ``width`` characters."""
    return "\n".join(drawn(line) for line in fold(drawn(text).replace(r"\$", "$"), width))


def shortened(names: Sequence[object], width: int) -> list[str]:
    """Names of at most ``width`` characters, without their middle; different names stay different.

    Examples
    --------
    >>> shortened(["short", "a-very-long-name-1", "a-very-long-name-2"], 11)
    ['short', 'a-ver…ame-1', 'a-ver…ame-2']
    >>> shortened(["night-long-0-x-day", "night-long-1-x-day"], 9)
    ['night…(1)', 'night…(2)']
    """
    texts = [str(name) for name in names]
    tail = (width - 1) // 2
    short = [
        text if len(text) <= width else f"{text[: width - 1 - tail]}…{text[-tail:]}"
        for text in texts
    ]
    repeated = [short.count(text) > 1 for text in short]
    for k, text in enumerate(texts):
        if len(text) > width and repeated[k]:
            number = f"…({k + 1})"
            short[k] = text[: width - len(number)] + number
    return short
