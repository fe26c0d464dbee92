"""Predicted against true accuracy of unseen domains."""

from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes

from benchmarks.accuracy.estimators import DEFAULT, TS
from benchmarks.accuracy.summary import is_draw

_COLOURS = {TS: "#d55e00", DEFAULT: "#0072b2"}
# Partition of corrupted images that is drawn.
_PARTITION = "kinds"
# Cells are drawn until a panel has so many domains.
_ENOUGH = 25


def draw(scores: pd.DataFrame, path: Path) -> None:
    """A row of panels for each estimator: 100 rows of each OOD domain, with the intervals."""
    drawn = {data: drawn_rows(own) for data, own in scores.groupby("data", sort=False)}
    figure, axes = plt.subplots(
        len(_COLOURS), len(drawn), figsize=(2.5 * len(drawn), 5.2), squeeze=False, sharex="col",
        sharey="col", layout="constrained",
    )  # fmt: skip
    for column, (data, own) in zip(axes.T, drawn.items(), strict=True):
        values = 100 * own[["accuracy", "predicted"]].to_numpy()
        limits = values.min() - 3, min(values.max() + 3, 101)
        for axis, (name, colour) in zip(column, _COLOURS.items(), strict=True):
            _draw_panel(axis, own[own["estimator"] == name], colour)
            axis.axline((50, 50), slope=1, color="0.4", linewidth=0.8, linestyle=":")
            axis.set(xlim=limits, ylim=limits, aspect="equal")
        column[0].set_title(data, fontsize=10)
        column[-1].set_xlabel("accuracy, %")
    for axis, name in zip(axes[:, 0], _COLOURS, strict=True):
        axis.set_ylabel(f"predicted, %: {name}")
    figure.savefig(path, dpi=100)
    plt.close(figure)


def _draw_panel(axis: Axes, rows: pd.DataFrame, colour: str) -> None:
    low, high = 100 * rows["low"], 100 * rows["high"]
    if (high - low < 100).any():
        axis.vlines(100 * rows["accuracy"], low, high, color=colour, alpha=0.25, linewidth=2)
    axis.scatter(100 * rows["accuracy"], 100 * rows["predicted"], s=10, color=colour, zorder=3)
    axis.spines[["top", "right"]].set_visible(False)


def drawn_rows(scores: pd.DataFrame) -> pd.DataFrame:
    """Estimates from 100 rows in the first seeds of one partition of a data set."""
    own = scores[~is_draw(scores) & (scores["n"] == "100") & scores["estimator"].isin(_COLOURS)]
    if (own["partition"] == _PARTITION).any():
        own = own[own["partition"] == _PARTITION]
    per_seed = own[own["estimator"] == TS].groupby("seed").size().cumsum()
    last = per_seed.index[(per_seed < _ENOUGH).sum()] if per_seed.max() >= _ENOUGH else None
    return own if last is None else own[own["seed"] <= last]
