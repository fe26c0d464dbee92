"""The paper's figures, and overviews of experiments; drawn by domaincal.plots."""

import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from domaincal._files import atomic_file
from domaincal._optional import require
from domaincal.experiments.results import Results
from domaincal.experiments.trial_results import Cell
from domaincal.metrics.reliability import curve_of_bins
from domaincal.plots import (
    plot_accuracy_prediction,
    plot_domain_errors,
    plot_method_scatter,
    plot_reliability,
    plot_temperatures,
)

#: The domain that the paper's first figure shows.
_SHOWN_DOMAIN = "gaussian_noise-5"
_SIDE = 3.7
_PNG_DPI = 200
_FIRST_REPEAT = "MD-TS, first repeat"
# Letters above a panel.
_TITLE_WIDTH = 42


def reliability_figure(results: Results) -> Any:
    """Reliability of TS on pooled domains and on one of them, and the ECE of every domain."""
    network, cell = _first_cell(results)
    figure, axes = _panels(1, 3, widths=(1, 1, 1.6))
    plot_reliability(curve_of_bins(cell.sums()), ax=axes[0], label="pooled")
    table = cell.table
    place = table.index[table["domain"] == _SHOWN_DOMAIN]
    row = int(place[0]) if len(place) else int(table["ece"].to_numpy().argmax())
    curve = curve_of_bins(cell.sums([row]))
    plot_reliability(curve, ax=axes[1], label=str(table["domain"].iloc[row]))
    axes[1].get_legend().remove()  # that of the first panel will do
    pooled = 100 * cell.sums().calibration_error()
    plot_domain_errors(table.assign(method="TS"), ax=axes[2])
    axes[2].set_xlabel(f"{len(table)} domains, sorted")
    axes[2].set_xticks([])
    axes[2].axhline(pooled, color="black", linestyle=":", label=f"TS, pooled ({pooled:.2f})")
    axes[2].legend(fontsize="small")
    axes[2].set_title("every domain", fontsize="medium")
    _title(figure, f"{_name(results, network)}: TS on {len(table)} domains, first repeat")
    return figure


def temperature_figure(results: Results) -> Any:
    """Temperatures that MD-TS predicts for the rows of each domain against the learned one."""
    network, cell = _first_cell(results)
    figure, axes = _panels(1, 1)
    plot_temperatures(_temperatures(cell), ax=axes[0])
    _panel_title(axes[0], f"{_name(results, network)}: {len(cell.table)} domains, first repeat")
    return figure


def scatter_figure(runs: Sequence[Results]) -> Any:
    """ECE of TS against MD-TS, one panel for each data set, InD above and OOD below."""
    shown = [(run, *next(_by_network(run))) for run in runs]
    kinds = [kind for kind in ("InD", "OOD") if any((t["kind"] == kind).any() for *_, t in shown)]
    figure, axes = _panels(len(kinds), len(shown))
    for k, kind in enumerate(kinds):
        for j, (run, network, table) in enumerate(shown):
            ax = axes[k * len(shown) + j]
            _scatter(ax, table[table["kind"] == kind], f"({kind}) {_name(run, network)}")
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
        _accuracy(ax, table, f"({_unseen(table)}) {_name(run, network)}")
    for ax in axes[len(shown) :]:
        ax.set_axis_off()
    return figure


def split_figure(results: Results) -> Any:
    """ECE of TS against MD-TS on several partitions, InD above and OOD below."""
    network, table = next(_by_network(results))
    partitions = _partitions(results)
    figure, axes = _panels(2, len(partitions))
    for k, kind in enumerate(("InD", "OOD")):
        for j, (name, title) in enumerate(partitions.items()):
            part = table[(table["partition"] == name) & (table["kind"] == kind)]
            _scatter(axes[k * len(partitions) + j], part, f"({kind}) {title}")
    _title(figure, _name(results, network))
    return figure


def overview_figure(runs: Sequence[Results], what: str) -> Any:
    """A panel for each network and partition: ``domains``, ``accuracy`` or ``temperatures``."""
    networks = [(run, network, table) for run in runs for network, table in _by_network(run)]
    shown = [(*of, name, title) for of in networks for name, title in _partitions(of[0]).items()]
    most = max(len(_partitions(run)) for run in runs)
    columns = min(most, 3) if most > 1 else min(len(networks), 3)
    figure, axes = _panels(-(-len(shown) // columns), columns)
    for ax, (run, network, table, name, partition) in zip(axes, shown, strict=False):
        part = table[table["partition"] == name]
        who = network if len(runs) == 1 else _name(run, network)
        title = f"{who}: {partition}" if len(networks) > 1 else partition
        if what == "domains":
            _scatter(ax, part, title)
        elif what == "accuracy":
            _accuracy(ax, part, title if len(runs) == 1 else f"({_unseen(part)}) {title}")
        else:
            plot_temperatures(_temperatures(_cell(run, network, name)), ax=ax)
            _panel_title(ax, title)
    for ax in axes[len(shown) :]:
        ax.set_axis_off()
    # Of several experiments, each panel names its own.
    name = runs[0].experiment.name if len(networks) > 1 else _name(*networks[0][:2])
    which = {"accuracy": f"{_unseen(runs[0].table)} domains", "temperatures": _FIRST_REPEAT}
    if len(runs) == 1:
        _title(figure, ": ".join([name, which[what]] if what in which else [name]))
    elif what == "temperatures":
        _title(figure, _FIRST_REPEAT)
    return figure


def save_figure(figure: Any, path: Path) -> list[Path]:
    """Write PNG and SVG; the same figure gives the same files."""
    matplotlib = require("matplotlib", extra="plots", purpose="drawing")
    paths = [path.with_suffix(".png"), path.with_suffix(".svg")]
    with matplotlib.rc_context({"svg.hashsalt": path.name}):
        with atomic_file(paths[0]) as file:
            figure.savefig(file, format="png", dpi=_PNG_DPI)
        with atomic_file(paths[1]) as file:
            figure.savefig(file, format="svg", metadata={"Date": None})
    return paths


def _panels(
    rows: int, columns: int, widths: Sequence[float] | None = None
) -> tuple[Any, list[Any]]:
    """A figure that no global state knows of, and its axes, row by row."""
    module = require("matplotlib.figure", extra="plots", purpose="drawing")
    total = sum(widths) if widths else columns
    # A little higher than wide: square panels have titles above them.
    figure = module.Figure(figsize=(_SIDE * total, 1.12 * _SIDE * rows), layout="constrained")
    figure.get_layout_engine().set(h_pad=0.1)  # in inches: a title is not taken for the label above
    grid = figure.subplots(rows, columns, squeeze=False, width_ratios=widths)
    return figure, list(grid.flat)


def _title(figure: Any, text: str) -> None:
    """Of the whole figure: at its left, where it is not taken for that of a panel."""
    figure.suptitle(text, x=0.01, horizontalalignment="left", fontsize="medium", fontweight="bold")


def _panel_title(ax: Any, text: str) -> None:
    """On as many lines as the width of a panel asks for."""
    if len(text) > _TITLE_WIDTH:
        text = "\n".join(textwrap.fill(part, _TITLE_WIDTH) for part in text.split(": "))
    ax.set_title(text, fontsize="medium")


def _cell(results: Results, network: str, partition: str) -> Cell:
    """The first cell of a network and partition."""
    return next(
        cell
        for (own, asked), cell in results.cells.items()
        if own == network and asked.partition.name == partition
    )


def _scatter(ax: Any, table: pd.DataFrame, title: str) -> None:
    if table.empty:  # no domain of that kind
        ax.set_axis_off()
        return
    plot_method_scatter(table, "TS", "MD-TS", ax=ax)
    _panel_title(ax, title)


def _accuracy(ax: Any, table: pd.DataFrame, title: str) -> None:
    plot_accuracy_prediction(table[table["kind"] == _unseen(table)], ax=ax)
    _panel_title(ax, title)


def _unseen(table: pd.DataFrame) -> str:
    """The kind of domains to look at: OOD, where there are any."""
    return "OOD" if (table["kind"] == "OOD").any() else "InD"


def _temperatures(cell: Cell) -> pd.DataFrame:
    table = cell.table.dropna(subset=["learned", "predicted"])
    return table if table["kind"].nunique() > 1 else table.drop(columns="kind")


def _by_network(results: Results) -> Iterator[tuple[str, pd.DataFrame]]:
    for network, table in results.table.groupby("network", sort=False):
        yield str(network), table


def _partitions(results: Results) -> dict[str, str]:
    """Titles of the partitions by name."""
    return {asked.partition.name: asked.partition.title for _, asked in results.cells}


def _first_cell(results: Results) -> tuple[str, Cell]:
    (network, _), cell = next(iter(results.cells.items()))
    return network, cell


def _name(results: Results, network: str) -> str:
    return f"{results.experiment.name}, {network}"
