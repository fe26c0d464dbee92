"""Figure of learned against predicted temperatures."""

from __future__ import annotations

import math
from typing import Any, Literal

import pandas as pd

from domaincal._optional import require
from domaincal._validation import check_option
from domaincal.errors import InputError
from domaincal.plots.style import axes, diagonal, kind_style, label

_COLUMNS = {"domain", "learned", "predicted", "low", "high", "mean", "deviation"}


def plot_temperatures(
    table: pd.DataFrame,
    *,
    spread: Literal["quantiles", "deviation"] = "quantiles",
    ax: Any = None,
) -> Any:
    """Plot the temperature of each domain's labels against the predicted temperatures.

    On the diagonal, the predictions are right; below it, they are too high.

    Parameters
    ----------
    table : DataFrame
        From :func:`temperature_table`, with a column ``kind`` if some domains are OOD.
    spread : {"quantiles", "deviation"}, default "quantiles"
        Points are medians with bars from the 5% to the 95% quantile of the rows, or means with
        bars of one standard deviation.
    ax : matplotlib Axes, optional
        By default, the axes of a new figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=6, random_state=0)
    >>> fitted = dc.MultiDomainTemperatureScaling()
    >>> _ = fitted.fit(data.logits, data.labels, features=data.features, domains=data.domains)
    >>> dc.plots.plot_temperatures(dc.temperature_table(fitted, data)).get_xscale()
    'log'
    """
    check_option(spread, "spread", ("quantiles", "deviation"))
    if not isinstance(table, pd.DataFrame) or not set(table) >= _COLUMNS:
        raise InputError(
            f"table must have the columns {', '.join(sorted(_COLUMNS))}; make it with "
            "domaincal.temperature_table(fitted, data)."
        )
    if table.empty:
        raise InputError("table is empty; pass a table with at least one domain.")
    points, low, high = _points_and_bars(table, spread)
    kinds = table["kind"] if "kind" in table else pd.Series("", index=table.index)
    ax = axes(ax)
    ax.set_xscale("log")
    ax.set_yscale("log")
    smallest, largest = (
        min(table["learned"].min(), low.min()),
        max(table["learned"].max(), high.max()),
    )
    diagonal(ax, 0.9 * float(smallest), 1.1 * float(largest))
    set_log_ticks(ax)
    for kind in dict.fromkeys(kinds):
        own = kinds == kind
        bars = [(points - low)[own], (high - points)[own]]
        _, _, lines = ax.errorbar(
            points[own], table["learned"][own], xerr=bars, linestyle="none", markersize=5,
            elinewidth=0.9, alpha=0.85, zorder=3, label=label(kind) or None, **kind_style(kind),
        )  # fmt: skip
        for line in lines:  # pale, because bars of similar temperatures overlap
            line.set_alpha(0.35)
    shown = {"quantiles": "median, 5 to 95%", "deviation": "mean ± standard deviation"}[spread]
    ax.set_xlabel(f"predicted temperature ({shown})")
    ax.set_ylabel("temperature learned from labels")
    if any(kinds):
        ax.legend(loc="upper left", framealpha=0.8, fontsize="small")
    return ax


def set_log_ticks(ax: Any, *, most: int = 10) -> None:
    """Set ticks at 1, 2, 5, 10, ..., or at powers of 10 if these are too many, as plain numbers."""
    ticker = require("matplotlib.ticker", extra="plots", purpose="a figure")
    low, high = ax.get_xlim()
    subs = (1.0, 2.0, 5.0) if 3 * math.log10(high / low) <= most else (1.0,)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(ticker.LogLocator(subs=subs))
        axis.set_major_formatter(ticker.FormatStrFormatter("%g"))
        axis.set_minor_formatter(ticker.NullFormatter())


def _points_and_bars(
    table: pd.DataFrame, spread: str
) -> tuple[pd.Series[float], pd.Series[float], pd.Series[float]]:
    """Predicted temperatures, and the ends of their bars, which are positive."""
    if spread == "quantiles":
        return table["predicted"], table["low"], table["high"]
    mean, deviation = table["mean"], table["deviation"]
    return mean, (mean - deviation).clip(lower=mean / 10), mean + deviation
