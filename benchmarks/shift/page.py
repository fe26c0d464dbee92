"""The page docs/results/shift.md: tables, the figure, and what holds of them."""

from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

from benchmarks.shift.methods import AUTO, BATCH, BATCHES, ORACLE
from benchmarks.shift.problems import DATA_SETS, DRAW_ROWS, N_BINS, N_DRAWS, SEEDS
from benchmarks.shift.scores import ANY
from benchmarks.shift.summary import comparisons, gains, method_table, never_worse

MARK = "<!-- made by benchmarks/shift from here on -->"
_SIZES = [str(size) for size in BATCHES]
_COLOURS = {BATCH: "#0072b2", "batch, logits only": "#56b4e9", AUTO: "#000000",
            "shift-weighted": "#d55e00", "MD-TS": "#009e73", "MD-TS log T": "#cc79a7"}  # fmt: skip


def write_page(scores: pd.DataFrame, page: Path, command: str) -> None:
    """Write the tables below the mark of the page, and the figure and csv files beside it."""
    folder = page.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    tables = scores[~scores["partition"].str.startswith("draw")]
    methods = {
        data: method_table(tables, data) for data in DATA_SETS if (tables["data"] == data).any()
    }
    compared = comparisons(scores)
    worse, gained = never_worse(compared), gains(compared)
    _draw(methods, folder / "gap-closed.png")
    pd.concat(methods, names=["data"]).reset_index(level=0).to_csv(
        folder / "methods.csv", index=False, float_format="%.4f"
    )
    compared.to_csv(folder / "comparisons.csv", index=False, float_format="%.4f")
    parts = [
        f"```sh\n{command}\n```\n",
        f"Means over the OOD domains of all partitions and {len(SEEDS)} seeds; ECE, excess, worst "
        f"and gap in %, {N_BINS} bins. worst: the highest ECE of a domain, averaged over "
        "partitions and seeds; gap: |mean confidence - accuracy|; closed: (TS - method) / "
        "(TS - oracle) in ECE; covered: how often log T ± 1.96 of its standard error holds the T "
        "of the labels. Batches are disjoint, of shuffled rows of one domain; a method without a "
        "batch treats every row on its own. oracle: TS fitted to the labels of each OOD domain.\n",
        "![Gap closed against the size of the batch](shift/gap-closed.png)\n",
    ]
    for data, table in methods.items():
        parts += [f"## {data}\n", _markdown(_shown(table))]
    parts += [
        "## Is AutoCalibration ever worse than TS?\n",
        f"Differences of ECE to TS in points. A cell is a partition (seeds averaged) or one of "
        f"{N_DRAWS} random draws of 3 to 12 InD domains of each data set, whose OOD domains have "
        f"at most {DRAW_ROWS} rows. surely worse: share of the cells whose paired 95% t-interval "
        "over the domains is above 0; kept TS: share of the cells in which TS was kept.\n",
        _markdown(_rounded(worse)),
        "Gain over TS of AutoCalibration and of the best fixed candidate:\n",
        _markdown(_rounded(gained)),
        "All numbers: [methods.csv](shift/methods.csv), "
        "[comparisons.csv](shift/comparisons.csv).\n",
    ]
    before = page.read_text().split(MARK)[0] if page.exists() else "# Shift: every method\n\n"
    page.write_text(f"{before}{MARK}\n\n" + "\n".join(parts))


def _shown(table: pd.DataFrame) -> pd.DataFrame:
    """The table with rounded numbers; the lowest ECE without labels is bold."""
    shown = table.copy()
    shown["batch"] = shown["batch"].replace({ANY: "", "domain": "all"})
    lowest = table.loc[~table["method"].isin([ORACLE]), "ece"].min()
    for column in ("ece", "excess", "worst", "gap"):
        shown[column] = table[column].map("{:.2f}".format)
    shown.loc[table["ece"] == lowest, "ece"] = f"**{lowest:.2f}**"
    shown["nll"] = table["nll"].map("{:.3f}".format)
    for column in ("closed", "covered"):
        shown[column] = table[column].map(lambda v: "" if pd.isna(v) else f"{v:.2f}")
    return shown


def _rounded(table: pd.DataFrame) -> pd.DataFrame:
    shares = {"surely_worse", "above_1", "kept_ts"}
    shown = table.copy()
    for column in table.select_dtypes("number"):
        if column in shares:
            shown[column] = table[column].map("{:.1%}".format)
        elif column != "cells":
            shown[column] = table[column].map("{:+.2f}".format)
    return shown.rename(columns=lambda name: name.replace("_", " "))


def _markdown(table: pd.DataFrame) -> str:
    rows = [list(map(str, table.columns)), ["---"] * len(table.columns)]
    rows += [list(map(str, row)) for row in table.itertuples(index=False)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def _draw(methods: dict[str, pd.DataFrame], path: Path) -> None:
    """Gap closed against the size of the batch, one panel for each data set."""
    drawn = {data: table for data, table in methods.items() if table["closed"].notna().any()}
    figure, axes = plt.subplots(
        1, len(drawn), figsize=(4.3 * len(drawn) + 1.4, 3.6), sharey=True, squeeze=False,
        layout="constrained",
    )  # fmt: skip
    places = range(len(_SIZES))
    for axis, (data, table) in zip(axes[0], drawn.items(), strict=True):
        for method, colour in _COLOURS.items():
            own = table[table["method"] == method].set_index("batch")["closed"]
            if own.empty:
                continue
            every = ANY in own.index
            values = [own[ANY] if every else own[size] for size in _SIZES]
            style = {"linestyle": ":"} if every else {"marker": "o", "markersize": 4}
            axis.plot(places, values, color=colour, label=method, **style)
        axis.axhline(1.0, color="0.5", linewidth=0.8)
        axis.axhline(0.0, color="0.5", linewidth=0.8)
        axis.text(0, 1.01, "oracle (labels)", fontsize=7, color="0.4", va="bottom")
        axis.text(0, 0.01, "TS", fontsize=7, color="0.4", va="bottom")
        axis.set_xticks(places, ["1", "5", "20", "100", "all"])
        axis.set_xlabel("unlabelled rows of the new domain")
        axis.set_title(data, fontsize=10)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0][0].set_ylabel("gap to the oracle closed")
    figure.legend(
        *axes[0][0].get_legend_handles_labels(), fontsize=8, frameon=False,
        loc="outside right center",
    )  # fmt: skip
    figure.savefig(path, dpi=150)
    plt.close(figure)
