"""What all drawings share: colours that the colour-blind can tell apart, and signs for print."""

from typing import Any

from domaincal._optional import require

# Okabe and Ito's colours, the darker first; a different sign with each.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
KINDS = ("InD", "OOD")
GRID = {"color": "0.9", "linewidth": 0.8}
REFERENCE = {"color": "0.45", "linewidth": 1.0, "linestyle": "--"}


def axes(ax: Any, *, size: tuple[float, float] = (4.4, 4.0)) -> Any:
    """The axes to draw on: those given, or new ones."""
    if ax is not None:
        return ax
    pyplot = require("matplotlib.pyplot", extra="plots", purpose="drawing")
    _, ax = pyplot.subplots(figsize=size, layout="constrained")
    return ax


def sign(k: int, **options: Any) -> dict[str, Any]:
    """Colour and sign of the k-th thing."""
    return {"color": COLOURS[k % len(COLOURS)], "marker": MARKERS[k % len(MARKERS)], **options}


def diagonal(ax: Any, low: float, high: float) -> None:
    """A square from ``low`` to ``high``, with its diagonal."""
    ax.plot([low, high], [low, high], zorder=1, **REFERENCE)
    ax.set_xlim(low, high)
    ax.set_ylim(low, high)
    ax.set_aspect("equal")
    ax.grid(True, **GRID)
    ax.set_axisbelow(True)
