"""Figure of the accuracy that is predicted for unlabelled domains."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from domaincal.errors import InputError
from domaincal.plots.style import GRID, axes, drawn, label, numbered_style, shortened

# Of more domains, those with the lowest limits are drawn.
_MAX_DOMAINS = 60
_NAME_WIDTH = 32
# Number of the style of each verdict; others are drawn like "unknown".
_VERDICTS = {"inside": 0, "edge": 4, "outside": 1, "unknown": 6}


def plot_predicted_accuracy(table: pd.DataFrame, *, ax: Any = None) -> Any:
    """Plot the predicted accuracy of every domain with its interval, the lowest limit at the top.

    Parameters
    ----------
    table : DataFrame
        From ``predict`` of an estimator, such as :class:`domaincal.shift.ConfidenceEstimator`. Of
        more than 60 domains, the 60 with the lowest limits are drawn.
    ax : matplotlib Axes, optional
        By default, the axes of a new figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=12, n_rows=100, random_state=0)
    >>> table = dc.shift.ConfidenceEstimator().fit(data).predict(data)
    >>> dc.plots.plot_predicted_accuracy(table).get_xlabel()
    'predicted accuracy in %, with its interval'
    """
    needed = ("domain", "predicted_accuracy", "low", "high", "verdict")
    if not isinstance(table, pd.DataFrame) or not set(needed) <= set(table.columns):
        raise InputError(
            f"table must be a data frame with the columns {', '.join(needed)}; make it with "
            "predict of an estimator of domaincal.shift."
        )
    chosen = table.sort_values(["low", "predicted_accuracy"]).head(_MAX_DOMAINS)
    names = shortened([drawn(domain) for domain in chosen["domain"]], _NAME_WIDTH)
    ax = axes(ax, size=(6.0, 1.6 + 0.2 * len(chosen)))
    places = np.arange(len(chosen))
    for verdict in dict.fromkeys([*_VERDICTS, *chosen["verdict"]]):
        rows = (chosen["verdict"] == verdict).to_numpy()
        if not rows.any():
            continue
        style = numbered_style(_VERDICTS.get(verdict, _VERDICTS["unknown"]))
        low, high = 100.0 * chosen["low"][rows], 100.0 * chosen["high"][rows]
        ax.hlines(places[rows], low, high, color=style["color"], linewidth=1.4, alpha=0.7)
        points = 100.0 * chosen["predicted_accuracy"][rows]
        ax.plot(points, places[rows], linestyle="none", markersize=5, label=label(verdict), **style)
    ax.set_yticks(places, names, fontsize="small")
    ax.set_ylim(len(chosen) - 0.4, -0.6)
    ax.set_xlim(0.0, 100.0)
    ax.set_xlabel("predicted accuracy in %, with its interval")
    is_cut = len(chosen) < len(table)
    ax.set_ylabel(f"{len(chosen)} lowest of {len(table)} domains" if is_cut else "domain")
    ax.grid(True, axis="x", **GRID)
    ax.set_axisbelow(True)
    # Above the axes, where it hides no interval.
    ax.legend(
        title="compared with the domains of the fit", title_fontsize="small", fontsize="small",
        loc="lower left", bbox_to_anchor=(0.0, 1.01), ncols=4, alignment="left", frameon=False,
    )  # fmt: skip
    return ax
