"""Predicted against true accuracy of unseen domains."""

from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

from benchmarks.accuracy.estimators import DEFAULT, TS

_COLOURS = {TS: "#d55e00", DEFAULT: "#0072b2"}
# Partition of corrupted images that is drawn.
_PARTITION = "kinds"
# Cells are drawn until a panel has so many domains.
_ENOUGH = 25


def draw(scores: pd.DataFrame, path: Path) -> None:
    """One panel for each data set: 100 rows of each OOD domain, with the intervals."""
    drawn = {data: drawn_rows(own) for data, own in scores.groupby("data", sort=False)}
    figure, axes = plt.subplots(
        1, len(drawn), figsize=(3.1 * len(drawn), 3.5), squeeze=False, layout="constrained"
    )
    for axis, (data, own) in zip(axes[0], drawn.items(), strict=True):
        for name, colour in _COLOURS.items():
            rows = own[own["estimator"] == name]
            x, y = 100 * rows["accuracy"], 100 * rows["predicted"]
            if ((rows["high"] - rows["low"]) < 1).all():
                axis.vlines(
                    x, 100 * rows["low"], 100 * rows["high"], color=colour, alpha=0.2, linewidth=2
                )
            axis.scatter(x, y, s=12, color=colour, label=name, zorder=3)
        low = 100 * min(own["accuracy"].min(), own["predicted"].min()) - 3
        axis.plot([low, 100], [low, 100], color="0.4", linewidth=0.8, linestyle=":")
        axis.set_xlim(low, 101)
        axis.set_ylim(low, 101)
        axis.set_aspect("equal")
        axis.set_title(data, fontsize=10)
        axis.set_xlabel("accuracy of all rows, %")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0][0].set_ylabel("predicted from 100 rows, %")
    figure.legend(
        *axes[0][0].get_legend_handles_labels(), fontsize=9, frameon=False, ncols=2,
        loc="outside lower center",
    )  # fmt: skip
    figure.savefig(path, dpi=110)
    plt.close(figure)


def drawn_rows(scores: pd.DataFrame) -> pd.DataFrame:
    """Estimates from 100 rows in the first seeds of one partition of a data set."""
    own = scores[~scores["partition"].str.startswith("draw") & (scores["n"] == "100")]
    if (own["partition"] == _PARTITION).any():
        own = own[own["partition"] == _PARTITION]
    per_seed = own[own["estimator"] == TS].groupby("seed").size().cumsum()
    last = per_seed.index[(per_seed < _ENOUGH).sum()] if per_seed.max() >= _ENOUGH else None
    return own if last is None else own[own["seed"] <= last]
