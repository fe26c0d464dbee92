"""Figure of risk against coverage."""

from __future__ import annotations

from typing import Any

from domaincal.errors import InputError
from domaincal.metrics import RiskCoverage, RiskCurve
from domaincal.plots.style import COLOURS, GRID, axes, label, numbered_style

# Curves start where so many rows are kept: the risk of fewer rows is mostly chance.
_FEW_ROWS = 10
# More domains have no colours and names of their own. Black is the colour of all rows.
_MAX_NAMED_DOMAINS = len(COLOURS) - 1


def plot_risk_coverage(curves: RiskCoverage, *, ax: Any = None) -> Any:
    """Plot the error rate of the kept rows against their share, for each domain and all rows.

    Curves start at 10 kept rows. Up to 6 domains have names and colours; more are grey lines.

    Parameters
    ----------
    curves : RiskCoverage
        From :func:`risk_coverage`.
    ax : matplotlib Axes, optional
        By default, the axes of a new figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=3, random_state=0)
    >>> confidences = dc.TemperatureScaling().fit(data).predict_confidence(data)
    >>> hits = data.logits.argmax(axis=1) == data.labels
    >>> ax = dc.plots.plot_risk_coverage(dc.risk_coverage(confidences, hits, data.domains))
    >>> ax.get_xlabel()
    'coverage: share of the rows that are kept, in %'
    """
    if not isinstance(curves, RiskCoverage):
        raise InputError(
            f"curves must be a RiskCoverage, got {type(curves).__name__}; make it with "
            "domaincal.risk_coverage(confidences, hits, domains)."
        )
    *domains, (_, all_rows) = curves.curves.items()
    ax = axes(ax, size=(5.0, 4.0))
    named = len(domains) <= _MAX_NAMED_DOMAINS
    for k, (name, curve) in enumerate(domains):
        if named:
            style = {**numbered_style(k), "linewidth": 1.2, "markersize": 4}
            _draw(ax, curve, label=label(_described(name, curve)), markevery=0.15, **style)
        else:
            text = f"{len(domains)} domains" if k == 0 else None
            _draw(ax, curve, label=text, color="0.65", linewidth=0.8, alpha=0.7)
    if len(domains) != 1:  # the curve of a single domain is that of all rows
        text = _described("all rows", all_rows)
        _draw(ax, all_rows, label=text, color="black", linewidth=2.0, zorder=3)
    ax.set_xlabel("coverage: share of the rows that are kept, in %")
    ax.set_ylabel("risk: error rate of these rows, in %")
    ax.set_xlim(0.0, 100.0)
    ax.set_ylim(bottom=0.0)
    ax.grid(True, **GRID)
    ax.set_axisbelow(True)
    ax.legend(loc="best", framealpha=0.8, fontsize="small")
    return ax


def _described(name: object, curve: RiskCurve) -> str:
    return f"{name} (area {100.0 * curve.area:.2f}%)"


def _draw(ax: Any, curve: RiskCurve, **style: Any) -> None:
    drawn = curve.kept >= min(_FEW_ROWS, curve.n)
    ax.plot(100.0 * curve.coverage[drawn], 100.0 * curve.risk[drawn], **style)
