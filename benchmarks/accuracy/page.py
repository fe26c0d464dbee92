"""The page docs/results/accuracy.md: tables, the figure, and how to read them."""

from pathlib import Path

import pandas as pd

from benchmarks.accuracy.estimators import DEFAULT, DRAW_ESTIMATORS, ORACLE, PLAIN, SIZES, TS
from benchmarks.accuracy.figure import draw
from benchmarks.accuracy.published import ATC_PAPER, PAPER
from benchmarks.accuracy.summary import (
    by_size,
    coverages,
    error_means,
    is_draw,
    network_means,
    targets,
)
from benchmarks.shift.page import markdown

MARK = "<!-- made by benchmarks/accuracy from here on -->"
_COMMAND = "python -m benchmarks.accuracy OUT --data FOLDER{rows} --page docs/results/accuracy.md"
# Estimators of the table of all partitions.
_IN_SHORT = (PLAIN, TS, "MD-TS", "MD-TS log T", DEFAULT, "ATC-NE", "regression", ORACLE)


def write_page(scores: pd.DataFrame, page: Path) -> None:
    """Write the tables below the mark of the page, and the figure and csv files beside it."""
    folder = page.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    draw(scores, folder / "predicted.png")
    covered = coverages(scores)
    by_partition = error_means(scores, "data", "partition")
    _save(by_size(by_partition), folder / "errors.csv")
    _save(covered.set_index("data"), folder / "coverage.csv")
    files = [f"[{name}]({folder.name}/{name})" for name in ("errors.csv", "coverage.csv")]
    own = ("Digits-C", "WISDM", "FDU-MTL")
    of_other_kind = ~is_draw(covered) & (covered["data"] != "WISDM")
    rows = "".join(f" --rows '{name}=FILE'" for name in scores["data"].unique() if name not in own)
    parts = [
        f"```sh\n{_COMMAND.format(rows=rows)}\n```\n",
        f"![Predicted against true accuracy of unseen domains]({folder.name}/predicted.png)\n",
        "A point is the estimate from 100 rows of an unseen domain, for corrupted images in the "
        "partition by kinds; on the dotted line it would be right. Bars are 90% intervals, which "
        "need 9 labelled domains; in FDU-MTL there are 7.\n",
        "## Errors\n",
        "Mean absolute error in points with 20 / 100 / all rows of a new domain. Bold: the "
        "smallest without labels.\n",
        markdown(_error_table(error_means(scores, "data"))),
        "## Limits set beforehand\n",
        "With 100 rows. The best estimator may have a third of the error of TS on images and half "
        "of it on WISDM, and 1.5 times the error of the oracle plus 1 point.\n",
        markdown(_rounded(targets(scores))),
        "## Errors by partition, 100 rows\n",
        markdown(_partition_table(by_partition)),
        "## Coverage of the 90% intervals\n",
        "InD domains drawn at random: new domains are of the same kind as the seen ones, which is "
        "what the intervals assume. Share of the new domains whose accuracy is in the interval, in "
        "%, and in brackets the mean width of the intervals in points. seen: number of InD "
        "domains; pairs: number of new domains, summed over the draws; n: rows of a new domain.\n",
        markdown(_coverage_table(covered[is_draw(covered)], tuple(DRAW_ESTIMATORS))),
        "Partitions in which the new domains are of another kind: nothing is promised.\n",
        markdown(_coverage_table(covered[of_other_kind], (DEFAULT, TS))),
        "## Large networks on Tiny-ImageNet-C\n",
        "Of these networks (see [tiny-imagenet-c.md](tiny-imagenet-c.md)) only means are kept, not "
        "rows: the errors with all rows, InD / OOD, from [means.csv](tiny-imagenet-c/means.csv).\n",
        markdown(network_means()),
        "## Published errors, as published\n",
        "Other data and networks: only the order of methods can be compared. The paper on MD-TS, "
        "InD / OOD domains, all rows:\n",
        markdown(PAPER),
        "In ImageNet-C, InD and OOD domains hold the same images. The error of TS for ResNeXt-50 "
        "on RxRx1, 12.88, is above the ECE in the same paper, 11.80, which is impossible.\n",
        "The paper on ATC (Garg et al. 2022), DenseNet, one source data set:\n",
        markdown(ATC_PAPER),
        f"All numbers: {', '.join(files)}.\n",
    ]  # fmt: skip
    title = "# Predicted accuracy of domains without labels\n\n"
    before = page.read_text().split(MARK)[0] if page.exists() else title
    page.write_text(f"{before}{MARK}\n\n" + "\n".join(parts))


def _save(table: pd.DataFrame, path: Path) -> None:
    table.to_csv(path, float_format="%.3f")


def _error_table(means: pd.Series) -> pd.DataFrame:
    """One row for each estimator, one column for each data set."""
    wide = by_size(means).unstack("data", sort=False)
    lowest = wide.drop(ORACLE).min()
    columns = {
        data: [
            " / ".join(_bold(wide.loc[name, (n, data)], lowest[n, data], name) for n in SIZES)
            for name in wide.index
        ]
        for data in dict.fromkeys(wide.columns.get_level_values("data"))
    }
    table = pd.DataFrame({"estimator": wide.index, **columns})
    last = table["estimator"] == ORACLE
    return pd.concat([table[~last], table[last]])


def _bold(value: float, lowest: float, name: str) -> str:
    shown = f"{value:.2f}"
    return f"**{shown}**" if value == lowest and name != ORACLE else shown


def _partition_table(means: pd.Series) -> pd.DataFrame:
    wide = means.xs("100", level="n").unstack("estimator", sort=False)[list(_IN_SHORT)]
    return wide.map("{:.2f}".format).reset_index().rename(columns={"partition": "unseen"})


def _coverage_table(covered: pd.DataFrame, estimators: tuple[str, ...]) -> pd.DataFrame:
    """One row for each partition and estimator, one column for each number of rows."""
    own = covered[covered["estimator"].isin(estimators)]
    cells = own.assign(
        shown=own["covered"].map("{:.1f}".format) + own["width"].map(" ({:.0f})".format)
    )
    order = pd.Categorical(cells["estimator"], estimators)
    index = ["data", "partition", "seen", "pairs", "estimator"]
    wide = cells.assign(estimator=order).pivot(index=index, columns="n", values="shown")
    places = {name: place for place, name in enumerate(covered["data"].unique())}
    wide = wide[list(SIZES)].rename(columns="n = {}".format).fillna("").reset_index()
    wide = wide.sort_values("data", key=lambda names: names.map(places), kind="stable")
    drawn = wide["partition"].str.startswith("draw").all()
    return wide.drop(columns="partition") if drawn else wide.rename(columns={"partition": "unseen"})


def _rounded(table: pd.DataFrame) -> pd.DataFrame:
    numbers = table.select_dtypes("number").columns
    shown = {name: table[name].map(lambda v: "" if pd.isna(v) else f"{v:.2f}") for name in numbers}
    return table.assign(**shown)
