"""The page docs/results/shift.md: tables, the figure, and what holds of them."""

from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

from benchmarks.shift.methods import AUTO, BATCH, BATCHES, ORACLE, TS
from benchmarks.shift.networks import DRAWS, REPEATS
from benchmarks.shift.problems import (
    DATA_SETS,
    DRAW_ROWS,
    MIXTURES,
    N_BINS,
    N_DRAWS,
    N_MIXTURES,
    NETWORK_BINS,
    SEEDS,
)
from benchmarks.shift.scores import ANY
from benchmarks.shift.summary import comparisons, gains, method_table, never_worse
from domaincal.vision.corruptions.catalogue import CLEAN

MARK = "<!-- made by benchmarks/shift from here on -->"
_SIZES = [str(size) for size in BATCHES]
_COLOURS = {BATCH: "#0072b2", "batch, logits only": "#56b4e9", AUTO: "#000000",
            "shift-weighted": "#d55e00", "MD-TS": "#009e73", "MD-TS log T": "#cc79a7"}  # fmt: skip


def write_page(scores: pd.DataFrame, page: Path) -> None:
    """Write the tables below the mark of the page, and the figure and csv files beside it."""
    scores, mixed = _without_mixtures(scores)
    methods, compared = _write_files(page, scores)
    parts = [
        "```sh\npython -m benchmarks.shift OUT --data FOLDER --page docs/results/shift.md\n```\n",
        _how_to_read(f"{len(SEEDS)} seeds", N_BINS),
        *_tables(methods),
        *_never_worse_parts(compared, f"{N_DRAWS} random draws of 3 to 12 InD domains"),
        "## Mixtures of seen domains\n",
        f"All domains of Digits-C are seen. Scored are {N_MIXTURES} mixtures of two to four of "
        "them, in random proportions, made of rows that were not in the fit.\n",
        markdown(_shown(method_table(mixed, "Digits-C"))),
    ]
    _write(page, parts)


def write_network_page(scores: pd.DataFrame, domains: pd.DataFrame, page: Path) -> None:
    """The same for networks on corrupted images; conclusions first, all tables last.

    ``domains`` has accuracy, T_k and the mean norm of the features of each domain.
    """
    scores, mixed = _without_mixtures(scores)
    methods, compared = _write_files(page, scores)
    folder = page.with_suffix("")
    domains.to_csv(folder / "domains.csv", index=False, float_format="%.4f")
    _draw_norms(domains, folder / "norms.png")
    parts = [
        "```sh\npython -m benchmarks.shift OUT --store ResNet-50=STORE ... "
        "--page docs/results/shift-networks.md\n```\n",
        "![Gap closed against the size of the batch](shift-networks/gap-closed.png)\n",
        "Share of the distance from TS to the oracle that is closed, in ECE, and the NLL:\n",
        markdown(_closed_table(methods)),
        "## By partition\n",
        "ECE in %, mean over the unseen domains and the repeats; n: rows of a batch.\n",
        markdown(_partition_table(scores)),
        *_never_worse_parts(compared, f"{len(DRAWS)} random draws of 3 to 12 InD domains"),
        "## Mixtures of seen domains\n",
        f"All domains are seen. Scored are {N_MIXTURES} mixtures of two to four of them, in random "
        "proportions, made of rows that were not in the fit. ECE in %:\n",
        markdown(_mixture_table(mixed)),
        "## Norms of the features\n",
        "Rank correlations over the 76 domains with T_k, the temperature that the labels of a "
        f"domain give ([domains.csv]({folder.name}/domains.csv)). A circle: the clean images.\n",
        f"![T_k against the mean norm of the features of each domain]({folder.name}/norms.png)\n",
        markdown(_norm_table(domains)),
        "## All methods\n",
        _how_to_read(f"{len(REPEATS)} repeats", NETWORK_BINS),
        *_tables(methods)[1:],
    ]
    _write(page, parts)


def _method_tables(scores: pd.DataFrame) -> dict[str, pd.DataFrame]:
    tables = scores[~scores["partition"].str.startswith("draw")]
    names = dict.fromkeys([*DATA_SETS, *tables["data"]])
    own = [name for name in names if (tables["data"] == name).any()]
    return {data: method_table(tables, data) for data in own}


def _how_to_read(repeats: str, n_bins: int) -> str:
    return (
        f"Means over the OOD domains of all partitions and {repeats}; ECE, excess, worst and gap "
        f"in %, {n_bins} bins. worst: the highest ECE of a domain, averaged over partitions and "
        f"{repeats.split()[1]}; gap: |mean confidence - accuracy|; closed: (TS - method) / (TS - "
        "oracle) in ECE; covered: how often log T ± 1.96 of its standard error holds the T of the "
        "labels. Batches are disjoint, of shuffled rows of one domain; a method without a batch "
        "treats every row on its own. oracle: TS fitted to the labels of each OOD domain.\n"
    )


def _tables(methods: dict[str, pd.DataFrame]) -> list[str]:
    parts = ["![Gap closed against the size of the batch](shift/gap-closed.png)\n"]
    for data, table in methods.items():
        parts += [f"## {data}\n", markdown(_shown(table))]
    return parts


def _never_worse_parts(compared: pd.DataFrame, draws: str) -> list[str]:
    return [
        "## Is AutoCalibration ever worse than TS?\n",
        "Differences of ECE to TS in points. A cell is a partition (repeats averaged) or one of "
        f"{draws} of each data set, whose OOD domains have at most {DRAW_ROWS} rows. surely worse: "
        "share of the cells whose paired 95% t-interval over the domains is above 0; kept TS: "
        "share of the cells in which TS was kept.\n",
        markdown(_rounded(never_worse(compared))),
        "Gain over TS of AutoCalibration and of the best fixed candidate:\n",
        markdown(_rounded(gains(compared))),
    ]


def _without_mixtures(scores: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Scores of unseen domains, and of mixtures of seen ones."""
    mixed = scores["partition"] == MIXTURES
    return scores[~mixed], scores[mixed]


def _write_files(page: Path, scores: pd.DataFrame) -> tuple[dict[str, pd.DataFrame], pd.DataFrame]:
    """Write the figure and the csv files; return the tables of the methods and comparisons."""
    methods, compared = _method_tables(scores), comparisons(scores)
    folder = page.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    _draw(methods, folder / "gap-closed.png")
    pd.concat(methods, names=["data"]).reset_index(level=0).to_csv(
        folder / "methods.csv", index=False, float_format="%.4f"
    )
    compared.to_csv(folder / "comparisons.csv", index=False, float_format="%.4f")
    return methods, compared


def _write(page: Path, parts: list[str]) -> None:
    folder = page.stem
    files = [f"[{name}]({folder}/{name})" for name in ("methods.csv", "comparisons.csv")]
    parts = [*parts, f"All numbers: {', '.join(files)}.\n"]
    before = page.read_text().split(MARK)[0] if page.exists() else "# Shift: every method\n\n"
    page.write_text(f"{before}{MARK}\n\n" + "\n".join(parts))


def _closed_table(methods: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Gap closed by MD-TS and in batches, and NLL, one row for each network."""
    records = []
    for network, table in methods.items():
        own = table.set_index(["method", "batch"])
        closed = [own.loc[("MD-TS", ANY), "closed"], own.loc[("MD-TS log T", ANY), "closed"],
                  *(own.loc[(BATCH, size), "closed"] for size in _SIZES)]  # fmt: skip
        nll = [own.loc[key, "nll"] for key in ((TS, ANY), (BATCH, "100"), (ORACLE, ANY))]
        records.append((network, *(f"{v:.2f}" for v in closed), *(f"{v:.3f}" for v in nll)))
    columns = ["network", "MD-TS", "MD-TS log T", *(f"batch of {size}" for size in _SIZES[:-1]),
               "batch of all", "NLL: TS", "batch of 100", "oracle"]  # fmt: skip
    return pd.DataFrame(records, columns=columns)


_IN_SHORT = (
    ("MSP", ANY), (TS, ANY), ("MD-TS", ANY), ("MD-TS log T", ANY), (AUTO, "1"), (BATCH, "5"),
    (BATCH, "20"), (BATCH, "100"), (ORACLE, ANY),
)  # fmt: skip


def _partition_table(scores: pd.DataFrame) -> pd.DataFrame:
    """ECE of some methods, one row for each network and partition."""
    own = scores[~scores["partition"].str.startswith("draw")]
    means = own.groupby(["data", "partition", "method", "batch"], sort=False)["ece"].mean()
    return _ece_columns(means.unstack(["method", "batch"], sort=False))


def _mixture_table(scores: pd.DataFrame) -> pd.DataFrame:
    means = scores.groupby(["data", "method", "batch"], sort=False)["ece"].mean()
    return _ece_columns(means.unstack(["method", "batch"], sort=False))


def _ece_columns(wide: pd.DataFrame) -> pd.DataFrame:
    columns = {
        method if batch == ANY else f"{method}, n = {batch}": wide[(method, batch)].map(
            "{:.2f}".format
        )
        for method, batch in _IN_SHORT
    }
    return pd.DataFrame(columns, index=wide.index).reset_index()


def _norm_table(domains: pd.DataFrame) -> pd.DataFrame:
    """Rank correlations with T_k, one row for each network."""
    records = [
        (network, *(own["temperature"].corr(own[column], method="spearman")
                    for column in ("norm", "accuracy")))
        for network, own in domains.groupby("network", sort=False)
    ]  # fmt: skip
    table = pd.DataFrame(records, columns=["network", "mean norm", "accuracy"])
    return table.assign(**{name: table[name].map("{:+.2f}".format) for name in table.columns[1:]})


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


def markdown(table: pd.DataFrame) -> str:
    """The table in Markdown."""
    rows = [list(map(str, table.columns)), ["---"] * len(table.columns)]
    rows += [list(map(str, row)) for row in table.itertuples(index=False)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def _draw_norms(domains: pd.DataFrame, path: Path) -> None:
    """T_k against the mean norm of the features, one panel for each network."""
    networks = domains.groupby("network", sort=False)
    figure, axes = plt.subplots(
        1, networks.ngroups, figsize=(3.2 * networks.ngroups, 3.2), squeeze=False,
        layout="constrained",
    )  # fmt: skip
    for axis, (network, own) in zip(axes[0], networks, strict=True):
        axis.scatter(own["norm"], own["temperature"], s=10, color="#0072b2")
        clean = own[own["domain"] == CLEAN]
        axis.scatter(clean["norm"], clean["temperature"], s=60, facecolor="none", edgecolor="black")
        axis.set_yscale("log")
        axis.set_xlabel("mean norm of the features")
        axis.set_title(network, fontsize=10)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0][0].set_ylabel("T_k")
    figure.savefig(path, dpi=150)
    plt.close(figure)


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
