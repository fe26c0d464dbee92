"""Tables of the study from the errors of all cells; errors, coverages and widths in percent."""

from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.accuracy.estimators import DEFAULT, DRAW_ESTIMATORS, ORACLE, PLAIN, SIZES, TS

#: Means of the networks that were trained on a GPU, whose rows are not kept.
NETWORK_MEANS = Path(__file__).parents[2] / "docs/results/tiny-imagenet-c/means.csv"
NETWORK_METHODS = ("MSP", "TS", "MD-TS", "MD-TS log T", "oracle")
NETWORK_PARTITIONS = {
    "unseen-severities": "severities 2-4",
    "unseen-severity-5": "severity 5",
    "unseen-types": "noise and blur",
    "unseen-kinds": "kinds",
}
#: The largest share of the error of TS that the best estimator may have with 100 rows.
SHARES = {"WISDM": 1 / 2, "FDU-MTL": np.nan}
IMAGE_SHARE = 1 / 3


def is_draw(scores: pd.DataFrame) -> pd.Series:
    """Whether the InD domains were drawn at random, for the coverage of intervals."""
    return scores["partition"].str.startswith("draw")


def error_means(scores: pd.DataFrame, *keys: str) -> pd.Series:
    """Mean error over the domains of each cell, then over the cells of the partitions."""
    own = scores[~is_draw(scores)]
    keys = (*keys, "estimator", "n")
    cells = own.groupby([*dict.fromkeys(["data", "partition", "seed", *keys])], sort=False)
    return 100 * cells["error"].mean().groupby(list(keys), sort=False).mean()


def targets(scores: pd.DataFrame) -> pd.DataFrame:
    """The limits that were set beforehand for the best estimator with 100 rows."""
    means = error_means(scores, "data").xs("100", level="n")
    records = []
    for data, own in means.groupby("data", sort=False):
        own = own.droplevel("data")
        best = own.drop(ORACLE).idxmin()
        share = SHARES.get(data, IMAGE_SHARE)
        of_ts, of_oracle = share * own[TS], 1.5 * own[ORACLE] + 1.0
        limits = (_limit(own[best], own[DEFAULT], limit) for limit in (of_ts, of_oracle))
        records.append((data, best, own[best], own[DEFAULT], *limits))
    columns = ["data", "best", "its error", "error of the default", "limit from TS",
               "limit from the oracle"]  # fmt: skip
    return pd.DataFrame(records, columns=columns)


def _limit(best: float, default: float, limit: float) -> str:
    if np.isnan(limit):
        return "none"
    if best > limit:
        return f"{limit:.2f}: missed"
    return f"{limit:.2f}: met" + ("" if default <= limit else ", but not by the default")


def coverages(scores: pd.DataFrame) -> pd.DataFrame:
    """Share of the OOD domains whose accuracy is in the interval, and its mean width.

    ``seen`` is the number of InD domains. Where all intervals are [0, 1], there is no row.
    """
    own = scores[scores["estimator"].isin(DRAW_ESTIMATORS)]
    inside = (own["low"] <= own["accuracy"]) & (own["accuracy"] <= own["high"])
    own = own.assign(covered=100 * inside, width=100 * (own["high"] - own["low"]))
    groups = own.groupby(["data", "partition", "estimator", "n"], sort=False)
    table = groups.agg(
        seen=("n_ind", "first"), pairs=("covered", "size"), covered=("covered", "mean"),
        width=("width", "mean"),
    )  # fmt: skip
    return table[table["width"] < 100].reset_index()


def network_means() -> pd.DataFrame:
    """MAE with all rows of the networks in ``docs/results/tiny-imagenet-c``, InD / OOD."""
    means = pd.read_csv(NETWORK_MEANS)
    means = means[(means["split"] == "row") & means["partition"].isin(list(NETWORK_PARTITIONS))]
    gap = 100 * means.groupby(["network", "partition", "method", "kind"], sort=False)["gap"].mean()
    records = [
        (network, title,
         *(f"{gap[network, name, method, 'InD']:.2f} / {gap[network, name, method, 'OOD']:.2f}"
           for method in NETWORK_METHODS))
        for network in means["network"].unique() for name, title in NETWORK_PARTITIONS.items()
    ]  # fmt: skip
    return pd.DataFrame(records, columns=["network", "unseen", PLAIN, *NETWORK_METHODS[1:]])


def by_size(means: pd.Series) -> pd.DataFrame:
    """Columns 20, 100 and all of a series whose last index level is n."""
    return means.unstack("n", sort=False)[list(SIZES)]
