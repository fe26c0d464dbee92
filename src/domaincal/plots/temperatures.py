"""Figure of predicted against learned temperatures."""

from __future__ import annotations

from typing import Any

import pandas as pd

from domaincal._optional import require
from domaincal.errors import InputError
from domaincal.plots.style import axes, diagonal, kind_style, label

_COLUMNS = {"domain", "learned", "predicted", "low", "high"}


def plot_temperatures(table: pd.DataFrame, *, ax: Any = None) -> Any:
    """Plot the predicted temperatures of each domain against the temperature fitted to its labels.

    Points are medians; bars span the 5% to 95% quantiles of the rows.

    Parameters
    ----------
    table : DataFrame
        From :func:`temperature_table`, with a column ``kind`` if some domains are OOD.
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
    if not isinstance(table, pd.DataFrame) or not set(table) >= _COLUMNS:
        raise InputError(
            f"table must have the columns {', '.join(sorted(_COLUMNS))}; make it with "
            "domaincal.temperature_table(fitted, data)."
        )
    if table.empty:
        raise InputError("table is empty; pass a table with at least one domain.")
    kinds = table["kind"] if "kind" in table else pd.Series("", index=table.index)
    ends = table[["learned", "low", "high"]].to_numpy()
    ax = axes(ax)
    ticker = require("matplotlib.ticker", extra="plots", purpose="a figure")
    ax.set_xscale("log")
    ax.set_yscale("log")
    for axis in (ax.xaxis, ax.yaxis):  # ticks at 1, 2, 5, 10, ..., written as plain numbers
        axis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(ticker.FormatStrFormatter("%g"))
        axis.set_minor_formatter(ticker.NullFormatter())
    diagonal(ax, 0.9 * float(ends.min()), 1.1 * float(ends.max()))
    for kind in dict.fromkeys(kinds):
        rows = table[kinds == kind]
        spread = [rows["predicted"] - rows["low"], rows["high"] - rows["predicted"]]
        _, _, bars = ax.errorbar(
            rows["learned"], rows["predicted"], spread, linestyle="none", markersize=5,
            elinewidth=0.9, alpha=0.85, zorder=3, label=label(kind) or None, **kind_style(kind),
        )  # fmt: skip
        for bar in bars:  # pale, because bars of similar temperatures overlap
            bar.set_alpha(0.35)
    ax.set_xlabel("temperature learned from labels")
    ax.set_ylabel("predicted temperature (median, 5 to 95%)")
    if any(kinds):
        ax.legend(loc="upper left", framealpha=0.8, fontsize="small")
    return ax
