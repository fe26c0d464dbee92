"""Figures of results tables, with one point for each domain."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from domaincal.errors import InputError
from domaincal.plots.style import (
    GRID,
    KINDS,
    LABEL_WIDTH,
    LEGEND_WIDTH,
    axes,
    diagonal,
    drawn,
    drawn_lines,
    kind_style,
    label,
    method_styles,
    shortened,
)

# The names of more domains would overlap.
_MAX_NAMED_DOMAINS = 40
# Characters of a domain's name, and the height of a character in inches.
_NAME_WIDTH = 32
_CHARACTER = 0.075
# A legend with more lines, or with long names, stands above the axes, where it hides no points.
_LINES_INSIDE = 4
_SCORES = {"ece": "ECE", "excess": "excess ECE", "gap": "|confidence - accuracy|"}


def plot_domain_errors(table: pd.DataFrame, *, score: str = "ece", ax: Any = None) -> Any:
    """Plot a score of every domain for each method, in the order of the first method's scores.

    Parameters
    ----------
    table : DataFrame
        Results table, e.g. from :func:`evaluate` or :func:`evaluate_split`.
    score : {"ece", "excess", "gap"}, default "ece"
    ax : matplotlib Axes, optional
        By default, the axes of a new figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=6, random_state=0)
    >>> table = dc.evaluate_split([dc.MaxSoftmax(), dc.TemperatureScaling()], data)
    >>> dc.plots.plot_domain_errors(table).get_ylabel()
    'ECE in %'
    """
    name = _score_label(table, score)
    methods = table["method"].unique().tolist()
    wide = _by_method(table, score)
    order = wide[methods[0]].sort_values(kind="stable").index
    means = {method: 100.0 * float(np.nanmean(wide[method])) for method in methods}
    names = shortened([drawn(domain) for *_, domain in order.to_flat_index()], _NAME_WIDTH)
    is_named = len(order) <= _MAX_NAMED_DOMAINS
    width = float(np.clip(0.16 * len(order), 4.4, 12.0))
    room = _CHARACTER * max(0, max(map(len, names)) - 12) if is_named else 0.0
    texts = {method: label(f"{method} (mean {mean:.2f})") for method, mean in means.items()}
    lines = sum(text.count("\n") + 1 for text in texts.values())
    is_large = lines > min(_LINES_INSIDE, len(texts))
    legend = 0.19 * (lines + 1) if is_large else 0.0
    ax = axes(ax, size=(width, 3.6 + room + legend))
    places = np.arange(len(order))
    for method, style in method_styles(methods).items():
        values = 100.0 * wide[method].loc[order].to_numpy()
        ax.plot(places, values, linestyle="none", markersize=5, label=texts[method], **style)
        ax.axhline(means[method], color=style["color"], linewidth=1.0, alpha=0.6)
    bold = False
    if is_named:
        ax.set_xticks(places, names, rotation=90, fontsize="small")
        bold = _mark_ood(ax, order)
    else:
        ax.set_xticks([])
        text = f"{len(order)} domains, in the order of {methods[0]}"
        ax.set_xlabel(drawn_lines(text, 2 * LABEL_WIDTH))
    ax.set_ylabel(f"{name} in %")
    ax.set_ylim(bottom=min(0.0, ax.get_ylim()[0]))
    ax.grid(True, axis="y", **GRID)
    ax.set_axisbelow(True)
    title = "lines: mean" + ("; bold: OOD" if bold else "")
    above = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.01)} if legend else {"loc": "best"}
    ax.legend(fontsize="small", title=title, title_fontsize="small", **above)
    return ax


def plot_method_scatter(
    table: pd.DataFrame, first: str, second: str, *, score: str = "ece", ax: Any = None
) -> Any:
    """Plot a score of one method against another, with one point for each domain.

    InD and OOD domains have different markers. Below the diagonal, the second method is better.

    Parameters
    ----------
    table : DataFrame
        Results table, e.g. from :func:`evaluate_split`.
    first, second : str
        Methods on the horizontal and on the vertical axis.
    score : {"ece", "excess", "gap"}, default "ece"
    ax : matplotlib Axes, optional
        By default, the axes of a new figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=6, random_state=0)
    >>> methods = {"TS": dc.TemperatureScaling(), "MD-TS": dc.MultiDomainTemperatureScaling()}
    >>> table = dc.evaluate_split(methods, data, ood="*-[45]")
    >>> dc.plots.plot_method_scatter(table, "TS", "MD-TS").get_xlabel()
    'TS: ECE in %'
    """
    name = _score_label(table, score)
    for argument, method in (("first", first), ("second", second)):
        if method not in set(table["method"]):
            raise InputError(
                f"{argument}={method!r} is not a method of the table; choose from "
                f"{', '.join(map(repr, table['method'].unique()))}."
            )
    wide = 100.0 * _by_method(table, score)[[first, second]].dropna()
    low = min(0.0, float(wide.to_numpy().min()))
    texts = {}
    for kind, rows in _kinds(wide):
        better = int((rows[second] < rows[first]).sum())
        start = f"{kind}: " if kind else ""
        texts[kind] = label(f"{start}{second} lower in {better} of {len(rows)}")
    # The limits leave room for the legend above all points, so that it hides none of them.
    lines = sum(text.count("\n") + 1 for text in texts.values())
    above = 1.25 + 0.07 * max(0, lines - 2)
    room = max(1.05 * (wide.to_numpy().max() - low), above * (wide[second].max() - low), 1e-9)
    ax = axes(ax)
    diagonal(ax, low, low + float(room))
    for kind, rows in _kinds(wide):
        ax.plot(
            rows[first], rows[second], linestyle="none", markersize=5, alpha=0.85, zorder=3,
            label=texts[kind], **kind_style(kind),
        )  # fmt: skip
    ax.set_xlabel(drawn_lines(f"{first}: {name} in %", LABEL_WIDTH))
    ax.set_ylabel(drawn_lines(f"{second}: {name} in %", LABEL_WIDTH))
    ax.legend(loc="upper left", fontsize="small")
    ax.text(
        0.97, 0.04, drawn_lines(f"{second} better", LEGEND_WIDTH), transform=ax.transAxes,
        color="0.55", fontsize="small", fontstyle="italic", horizontalalignment="right",
        clip_on=True, zorder=1,
    )  # fmt: skip
    return ax


def plot_accuracy_prediction(
    table: pd.DataFrame, *, methods: tuple[str, ...] | None = None, ax: Any = None
) -> Any:
    """Plot the accuracy of each domain against its mean confidence.

    On an unlabelled domain, the mean confidence is a prediction of the accuracy. On the diagonal it
    is right; below it, the method is too confident.

    Parameters
    ----------
    table : DataFrame
        Results table, e.g. from :func:`evaluate_split`; repeated rows of a domain are averaged.
    methods : tuple of str, optional
        By default, all methods of the table.
    ax : matplotlib Axes, optional
        By default, the axes of a new figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=6, random_state=0)
    >>> table = dc.evaluate_split([dc.MaxSoftmax(), dc.TemperatureScaling()], data)
    >>> dc.plots.plot_accuracy_prediction(table).get_xlabel()
    'mean confidence in %, the predicted accuracy'
    """
    _check_columns(table, "accuracy", "mean_confidence")
    known = table["method"].unique().tolist()
    chosen = known if methods is None else list(methods)
    unknown = [method for method in chosen if method not in known]
    if unknown or not chosen:
        raise InputError(
            f"methods={methods!r} must be methods of the table; choose from {', '.join(known)}."
        )
    rows = table[table["method"].isin(chosen)]
    # Repeated rows of a domain are averaged into one point and one error.
    gap = (rows["mean_confidence"] - rows["accuracy"]).abs()
    rows = rows[["method", "domain", "accuracy", "mean_confidence"]].assign(gap=gap)
    rows = rows.groupby(["method", "domain"], sort=False).mean().reset_index()
    values = 100.0 * rows[["accuracy", "mean_confidence"]].to_numpy()
    margin = 0.05 * max(float(np.ptp(values)), 1.0)
    ax = axes(ax)
    diagonal(ax, max(0.0, values.min() - margin), min(100.0, values.max() + margin))
    for method, style in method_styles(chosen).items():
        part = rows[rows["method"] == method]
        error = 100.0 * float(part["gap"].mean())
        ax.plot(
            100.0 * part["mean_confidence"], 100.0 * part["accuracy"], linestyle="none",
            markersize=5, alpha=0.85, zorder=3, **style,
            label=label(f"{method} (MAE {error:.2f}%)"),
        )  # fmt: skip
    ax.set_xlabel("mean confidence in %, the predicted accuracy")
    ax.set_ylabel("accuracy in %")
    ax.legend(loc="best", fontsize="small")
    return ax


def _by_method(table: pd.DataFrame, score: str) -> pd.DataFrame:
    """Scores with one row for each (kind, domain) and one column for each method."""
    kind = table["kind"] if "kind" in table else pd.Series("", index=table.index, name="kind")
    columns = {"kind": kind, "domain": table["domain"], "method": table["method"]}
    frame = pd.DataFrame({**columns, "score": table[score]})
    return frame.pivot_table(index=["kind", "domain"], columns="method", values="score")


def _kinds(wide: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Each kind with its rows."""
    kinds = wide.index.get_level_values("kind")
    return [(kind, wide[kinds == kind]) for kind in dict.fromkeys(kinds)]


def _mark_ood(ax: Any, order: pd.Index) -> bool:
    """Set the names of OOD domains in bold if there are InD domains too; return whether it did."""
    kinds = [kind for kind, _ in order.to_flat_index()]
    if set(kinds) != set(KINDS):
        return False
    for text, kind in zip(ax.get_xticklabels(), kinds, strict=True):
        text.set_fontweight("bold" if kind == "OOD" else "normal")
    return True


def _score_label(table: pd.DataFrame, score: str) -> str:
    if score not in _SCORES:
        raise InputError(f"score must be one of {', '.join(map(repr, _SCORES))}, got {score!r}.")
    _check_columns(table, score)
    return _SCORES[score]


def _check_columns(table: pd.DataFrame, *columns: str) -> None:
    if not isinstance(table, pd.DataFrame) or not {"method", "domain", *columns} <= set(table):
        raise InputError(
            "table must be a results table with the columns method, domain, "
            f"{', '.join(columns)}; make it with domaincal.evaluate or evaluate_split."
        )
    if table.empty:
        raise InputError("table is empty; pass a table with at least one domain.")
