"""Figures of the paper, and overviews of experiments; domaincal.plots draws the panels."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from domaincal._optional import require
from domaincal.experiments.results import Results
from domaincal.experiments.trial_results import TrialResult
from domaincal.metrics.reliability import curve_from_bins
from domaincal.plots import (
    plot_accuracy_prediction,
    plot_domain_errors,
    plot_method_scatter,
    plot_reliability,
    plot_temperatures,
)
from domaincal.plots.figure_files import write_figure
from domaincal.plots.style import drawn
from domaincal.plots.temperatures import set_log_ticks

# The domain in the paper's first figure.
_SHOWN_DOMAIN = "gaussian_noise-5"
_SIDE = 3.7  # of a panel, in inches
_MAX_SIDE = 14.8  # of a figure, in inches: at most 3,000 pixels
_MAX_COLUMNS = 4  # of panels in an overview of one network
_FIRST_REPEAT = "MD-TS, first repeat"
# Characters in a line of a panel title.
_TITLE_WIDTH = 42
# The same in a grid of small panels, their side in inches, and the size of ticks and legends.
_SMALL_WIDTH, _SMALL_SIDE, _SMALL_FONT = 20, 2.2, 7
# What the numbers in their legends are.
_SMALL_LEGENDS = {
    "domains": "numbers: domains in which MD-TS has the lower ECE",
    "accuracy": "numbers: mean of |confidence - accuracy| in %",
}


def reliability_figure(results: Results) -> Any:
    """Reliability of TS on the pooled domains and on one domain, and the ECE of every domain."""
    network, result = _first_result(results)
    figure, axes = _panels(1, 3, widths=(1, 1, 1.6))
    plot_reliability(curve_from_bins(result.sums()), ax=axes[0], label="pooled")
    table = result.table
    place = table.index[table["domain"] == _SHOWN_DOMAIN]
    row = int(place[0]) if len(place) else int(table["ece"].to_numpy().argmax())
    curve = curve_from_bins(result.sums([row]))
    plot_reliability(curve, ax=axes[1], label=str(table["domain"].iloc[row]))
    axes[1].get_legend().remove()  # the first panel has the same legend
    pooled = 100 * result.sums().calibration_error()
    plot_domain_errors(table.assign(method="TS"), ax=axes[2])
    axes[2].set_xlabel(f"{len(table)} domains, sorted")
    axes[2].set_xticks([])
    axes[2].axhline(pooled, color="black", linestyle=":", label=f"TS, pooled ({pooled:.2f})")
    axes[2].legend(fontsize="small")
    axes[2].set_title("every domain", fontsize="medium")
    _title(figure, f"{_name(results, network)}: TS on {len(table)} domains, first repeat")
    return figure


def temperature_figure(results: Results) -> Any:
    """Learned temperature of each domain against those that MD-TS predicts.

    Left as in the paper: T_k of the calibration rows, mean and standard deviation. Right: the
    temperature of the scored rows themselves, median and quantiles.
    """
    network, result = _first_result(results)
    figure, axes = _panels(1, 2)
    table = _temperatures(result)
    calibrated = table.assign(learned=table["calibrated"]).dropna(subset=["calibrated"])
    plot_temperatures(calibrated, spread="deviation", ax=axes[0])
    _panel_title(axes[0], "T of the calibration rows, as in the paper")
    plot_temperatures(table, ax=axes[1])
    _panel_title(axes[1], "T of the scored rows")
    _title(figure, f"{_name(results, network)}: {len(result.table)} domains, first repeat")
    return figure


def scatter_figure(runs: Sequence[Results]) -> Any:
    """ECE of TS against MD-TS, one panel for each data set, InD above and OOD below."""
    shown = [(run, *next(_by_network(run))) for run in runs]
    kinds = [kind for kind in ("InD", "OOD") if any((t["kind"] == kind).any() for *_, t in shown)]
    figure, axes = _panels(len(kinds), len(shown))
    for k, kind in enumerate(kinds):
        for j, (run, network, table) in enumerate(shown):
            ax = axes[k * len(shown) + j]
            _draw_scatter(ax, table[table["kind"] == kind], f"({kind}) {_name(run, network)}")
    return figure


def accuracy_figure(runs: Sequence[Results], *, all_networks: bool) -> Any:
    """Predicted against true accuracy of OOD domains, for the first network or for each."""
    shown = [
        (run, network, table)
        for run in runs
        for network, table in list(_by_network(run))[: None if all_networks else 1]
    ]
    columns = min(len(shown), 3)
    figure, axes = _panels(-(-len(shown) // columns), columns)
    for ax, (run, network, table) in zip(axes, shown, strict=False):
        _draw_accuracy(ax, table, f"({_shown_kind(table)}) {_name(run, network)}")
    for ax in axes[len(shown) :]:
        ax.set_axis_off()
    return figure


def split_figure(results: Results) -> Any:
    """ECE of TS against MD-TS on several partitions, InD above and OOD below."""
    network, table = next(_by_network(results))
    partitions = results.partition_titles
    figure, axes = _panels(2, len(partitions))
    for k, kind in enumerate(("InD", "OOD")):
        for j, (name, title) in enumerate(partitions.items()):
            part = table[(table["partition"] == name) & (table["kind"] == kind)]
            _draw_scatter(axes[k * len(partitions) + j], part, f"({kind}) {title}")
    _title(figure, _name(results, network))
    return figure


def overview_figure(
    runs: Sequence[Results], what: Literal["domains", "accuracy", "temperatures"]
) -> Any:
    """A panel for each network and partition; several of both make a row for each network."""
    rows = [(run, network, table) for run in runs for network, table in _by_network(run)]
    columns = max(len(run.partition_titles) for run in runs)
    if len(rows) > 1 and columns > 1:
        return _overview_grid(runs, rows, columns, what)
    shown = [(*row, *named) for row in rows for named in row[0].partition_titles.items()]
    height = -(-len(shown) // _MAX_COLUMNS)
    figure, axes = _panels(height, -(-len(shown) // height))
    for ax, (run, network, table, name, partition) in zip(axes, shown, strict=False):
        # With several experiments, each panel names its own.
        who = network if len(runs) == 1 else _name(run, network)
        title = f"{who}: {partition}" if len(rows) > 1 else partition
        _draw_overview(ax, what, run, network, table, name)
        _panel_title(ax, title if len(runs) == 1 else _with_kind(what, table, title))
    for ax in axes[len(shown) :]:
        ax.set_axis_off()
    _title(figure, _overview_title(runs, what))
    return figure


def _overview_grid(
    runs: Sequence[Results],
    rows: Sequence[tuple[Results, str, pd.DataFrame]],
    columns: int,
    what: str,
) -> Any:
    """Small panels: a row for each network, with its own limits, and a column for each partition.

    The partitions are named above the first network of an experiment, the networks at the left.
    """
    figure, axes = _panels(len(rows), columns, side=_SMALL_SIDE, extra=(0.8, 1.3))
    labels = ("", "")
    for k, (run, network, table) in enumerate(rows):
        row = axes[columns * k : columns * (k + 1)]
        partitions = run.partition_titles
        for ax, name in zip(row, partitions, strict=False):
            _draw_overview(ax, what, run, network, table, name)
            labels = ax.get_xlabel(), ax.get_ylabel()
            _make_small(ax, legend="best" if what == "accuracy" else "upper left")
            if what == "temperatures" and ax is not axes[0]:
                ax.legend([], frameon=False)  # all legends are the same
        for ax in row[len(partitions) :]:
            ax.set_axis_off()
        _share_limits(row[: len(partitions)])
        if k == 0 or rows[k - 1][0] is not run:
            for ax, title in zip(row, partitions.values(), strict=False):
                text = title if len(runs) == 1 else _with_kind(what, table, title)
                _panel_title(ax, text, _SMALL_WIDTH)
        who = network if len(runs) == 1 else _name(run, network)
        name_lines = map(drawn, textwrap.wrap(who, _SMALL_WIDTH))
        row[0].set_ylabel("\n".join(name_lines), fontsize="medium", fontweight="bold")
    figure.supxlabel(labels[0], fontsize="medium")
    figure.supylabel(labels[1], fontsize="medium")
    title, numbers = _overview_title(runs, what), _SMALL_LEGENDS.get(what, "")
    _title(figure, f"{title} ({numbers})" if title and numbers else title or numbers)
    return figure


def _draw_overview(
    ax: Any, what: str, run: Results, network: str, table: pd.DataFrame, partition: str
) -> None:
    """Draw the panel of a network and a partition, without a title."""
    part = table[table["partition"] == partition]
    if what == "domains":
        plot_method_scatter(part, "TS", "MD-TS", ax=ax)
    elif what == "accuracy":
        plot_accuracy_prediction(part[part["kind"] == _shown_kind(part)], ax=ax)
    else:
        plot_temperatures(_temperatures(_result_of(run, network, partition)), ax=ax)


def _make_small(ax: Any, *, legend: str) -> None:
    """Adapt a panel to the size of those of a grid; its axes are named once for all panels."""
    ax.set(xlabel="", ylabel="")
    ax.tick_params(labelsize=_SMALL_FONT)
    for line in ax.get_lines():
        line.set_markersize(0.5 * line.get_markersize())
    for text in ax.texts:
        text.set_fontsize(_SMALL_FONT)
    handles, texts = ax.get_legend_handles_labels()
    if handles:
        ax.legend(
            handles, list(map(_short_label, texts)), fontsize=_SMALL_FONT, loc=legend,
            borderpad=0.2, borderaxespad=0.2, labelspacing=0.2, handletextpad=0.1, framealpha=0.8,
        )  # fmt: skip


def _short_label(text: str) -> str:
    """The method or kind of a label, and its number.

    Examples
    --------
    >>> _short_label("InD: MD-TS lower in 3 of 4"), _short_label("TS (MAE 1.23%)")
    ('InD 3 of 4', 'TS 1.23')
    """
    return re.sub(r":? ?\S* lower in | \(MAE ", " ", text).removesuffix("%)").strip()


def _share_limits(axes: Sequence[Any]) -> None:
    """Give square panels the same limits, with tick labels at the left of the first only."""
    limits = [ax.get_xlim() for ax in axes]
    low, high = min(low for low, _ in limits), max(high for _, high in limits)
    for ax in axes:
        ax.set(xlim=(low, high), ylim=(low, high))
        ax.tick_params(labelleft=ax is axes[0])
        if ax.get_xscale() == "log":
            set_log_ticks(ax, most=6)


def _with_kind(what: str, table: pd.DataFrame, title: str) -> str:
    """Title with the kind of domains that are shown, if it is only one."""
    return f"({_shown_kind(table)}) {title}" if what == "accuracy" else title


def _overview_title(runs: Sequence[Results], what: str) -> str:
    """Title of an overview; of several experiments, only what all panels have in common."""
    if len(runs) > 1:
        return _FIRST_REPEAT if what == "temperatures" else ""
    networks = runs[0].table["network"].unique()
    name = runs[0].experiment.name if len(networks) > 1 else _name(runs[0], networks[0])
    if what == "domains":
        return name
    shown = _FIRST_REPEAT if what == "temperatures" else f"{_shown_kind(runs[0].table)} domains"
    return f"{name}: {shown}"


def save_figure(figure: Any, path: Path) -> list[Path]:
    """Write PNG and SVG; the same figure gives the same files."""
    paths = [path.with_suffix(".png"), path.with_suffix(".svg")]
    for each in paths:
        write_figure(figure, each)
    return paths


def _panels(
    rows: int,
    columns: int,
    *,
    widths: Sequence[float] | None = None,
    side: float = _SIDE,
    extra: tuple[float, float] = (0.0, 0.0),
) -> tuple[Any, list[Any]]:
    """A figure, made without pyplot and its global state, and its axes, row by row.

    ``side`` of a panel, and ``extra`` width and height for what stands beside all panels, are in
    inches. The side is smaller where the figure would be too large.
    """
    module = require("matplotlib.figure", extra="plots", purpose="drawing")
    total = sum(widths) if widths else columns
    # Panels are square, with room for their titles.
    side = min(side, (_MAX_SIDE - extra[0]) / total, (_MAX_SIDE - extra[1]) / (1.12 * rows))
    size = (side * total + extra[0], 1.12 * side * rows + extra[1])
    figure = module.Figure(figsize=size, layout="constrained")
    figure.get_layout_engine().set(h_pad=0.1)  # inches between a title and the label above it
    grid = figure.subplots(rows, columns, squeeze=False, width_ratios=widths)
    return figure, list(grid.flat)


def _title(figure: Any, text: str) -> None:
    """Title of the figure, at the left so that it does not look like the title of a panel."""
    if not text:
        return
    figure.suptitle(
        drawn(text), x=0.01, horizontalalignment="left", fontsize="medium", fontweight="bold"
    )


def _panel_title(ax: Any, text: str, width: int = _TITLE_WIDTH) -> None:
    """Title of a panel, broken into lines that fit its width."""
    lines = [text]
    if len(text) > width:
        lines = [line for part in text.split(": ") for line in textwrap.wrap(part, width)]
    ax.set_title("\n".join(map(drawn, lines)), fontsize="medium")


def _result_of(results: Results, network: str, partition: str) -> TrialResult:
    """The first result of a network and partition."""
    return next(
        result
        for (own, trial), result in results.trial_results.items()
        if own == network and trial.partition.name == partition
    )


def _draw_scatter(ax: Any, table: pd.DataFrame, title: str) -> None:
    if table.empty:  # no domain of that kind
        ax.set_axis_off()
        return
    plot_method_scatter(table, "TS", "MD-TS", ax=ax)
    _panel_title(ax, title)


def _draw_accuracy(ax: Any, table: pd.DataFrame, title: str) -> None:
    plot_accuracy_prediction(table[table["kind"] == _shown_kind(table)], ax=ax)
    _panel_title(ax, title)


def _shown_kind(table: pd.DataFrame) -> str:
    """The kind of domains to show: OOD, or InD where there are no OOD domains."""
    return "OOD" if (table["kind"] == "OOD").any() else "InD"


def _temperatures(result: TrialResult) -> pd.DataFrame:
    table = result.table.dropna(subset=["learned", "predicted"])
    return table if table["kind"].nunique() > 1 else table.drop(columns="kind")


def _by_network(results: Results) -> Iterator[tuple[str, pd.DataFrame]]:
    for network, table in results.table.groupby("network", sort=False):
        yield str(network), table


def _first_result(results: Results) -> tuple[str, TrialResult]:
    (network, _), result = next(iter(results.trial_results.items()))
    return network, result


def _name(results: Results, network: str) -> str:
    return f"{results.experiment.name}, {network}"
