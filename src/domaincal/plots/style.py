"""What all drawings share: colours that the colour-blind can tell apart, and signs for print."""

from collections.abc import Sequence
from itertools import cycle
from typing import Any

from domaincal._optional import require

# Okabe and Ito's colours, the darker first; a different sign with each.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
KINDS = ("InD", "OOD")
# The same in every figure; kinds of domains have signs that these methods have not.
_OF_METHOD = {"MD-TS": 0, "TS": 1, "MSP": 6, "oracle": 3}
_OF_KIND = {"": 0, "InD": 2, "OOD": 4}
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


def method_signs(methods: Sequence[str], **options: Any) -> dict[str, dict[str, Any]]:
    """Colour and sign of each method: the usual ones always have theirs, others what is left."""
    used = {_OF_METHOD[method] for method in methods if method in _OF_METHOD}
    others = cycle(k for k in range(len(COLOURS)) if k not in used)
    return {
        method: sign(_OF_METHOD[method] if method in _OF_METHOD else next(others), **options)
        for method in methods
    }


def kind_sign(kind: str, **options: Any) -> dict[str, Any]:
    """Colour and sign of InD and OOD domains; of others, those of the first thing."""
    return sign(_OF_KIND.get(kind, 0), **options)


def diagonal(ax: Any, low: float, high: float) -> None:
    """A square from ``low`` to ``high``, with its diagonal."""
    ax.plot([low, high], [low, high], zorder=1, **REFERENCE)
    ax.set_xlim(low, high)
    ax.set_ylim(low, high)
    ax.set_aspect("equal")
    ax.grid(True, **GRID)
    ax.set_axisbelow(True)
