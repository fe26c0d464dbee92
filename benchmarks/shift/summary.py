"""Tables of the comparison from the scores of all cells."""

import numpy as np
import pandas as pd

from benchmarks.shift.methods import AUTO, BATCH, BATCHES, ORACLE, TS
from benchmarks.shift.scores import ANY
from domaincal.calibrators.choice.selection import paired_interval

CELL = ["data", "partition", "seed"]
#: A smaller distance of TS from the oracle is reported, but not divided by.
SMALLEST_GAP = 0.5
#: Candidates of AutoCalibration besides TS, for single rows and for batches.
SINGLE_ROWS, BATCHES_OF_ROWS = ("mixture", "feature TS", BATCH), (BATCH,)


def method_table(scores: pd.DataFrame, data: str) -> pd.DataFrame:
    """Means over the OOD domains of all partitions and seeds; one row for each method and batch."""
    own = scores[scores["data"] == data]
    cells = own.groupby([*CELL, "method", "batch"], sort=False)
    means = cells[["ece", "excess", "nll", "gap", "covered"]].mean()
    means["worst"] = cells["ece"].max()
    table = means.groupby(["method", "batch"], sort=False).mean()
    table["closed"] = gap_closed(means["ece"])
    return table[["ece", "excess", "worst", "gap", "nll", "closed", "covered"]].reset_index()


def gap_closed(ece: pd.Series) -> pd.Series:
    """(TS - method) / (TS - oracle), a ratio of sums over partitions and seeds.

    NaN where TS is less than 0.5 points from the oracle.
    """
    wide = ece.unstack(["method", "batch"])
    ts, oracle = wide[(TS, ANY)], wide[(ORACLE, ANY)]
    total = float((ts - oracle).sum())
    closed = wide.rsub(ts, axis=0).sum() / total
    return closed if total / len(wide) >= SMALLEST_GAP else closed * np.nan


def comparisons(scores: pd.DataFrame) -> pd.DataFrame:
    """Differences of ECE to TS in each cell and batch, paired over the domains.

    Cells of the tables are averaged over their seeds first; a random draw is a cell.
    """
    draws = scores["partition"].str.startswith("draw")
    cell = scores["seed"].where(draws, -1)
    keys = ["data", "partition", "cell", "method", "batch", "domain"]
    ece = scores.assign(cell=cell).groupby(keys)["ece"].mean().unstack(["method", "batch"])
    records = []
    for (data, partition, number), own in ece.groupby(["data", "partition", "cell"]):
        for method, size in own.columns:
            if method in (TS, ORACLE):
                continue
            difference = (own[(method, size)] - own[(TS, ANY)]).to_numpy()
            if np.isnan(difference).any():
                continue
            low, high = paired_interval(difference)
            records.append((data, partition, number, method, size, difference.mean(), low, high))
    columns = ["data", "partition", "cell", "method", "batch", "difference", "low", "high"]
    return pd.DataFrame(records, columns=columns)


def never_worse(compared: pd.DataFrame) -> pd.DataFrame:
    """How often AutoCalibration is worse than TS, by data set and batch."""
    own = compared[compared["method"] == AUTO]
    sizes = pd.Categorical(own["batch"], [str(size) for size in BATCHES])
    groups = own.assign(batch=sizes).groupby(["data", "batch"], observed=True)
    table = pd.DataFrame(
        {
            "cells": groups.size(),
            "mean": groups["difference"].mean(),
            "surely_worse": groups["low"].apply(lambda low: (low > 0).mean()),
            "above_1": groups["difference"].apply(lambda d: (d > 1).mean()),
            "largest": groups["difference"].max(),
            "kept_ts": groups["difference"].apply(lambda d: (d == 0).mean()),
        }
    )
    return table.reset_index()


def gains(compared: pd.DataFrame) -> pd.DataFrame:
    """Gain over TS of AutoCalibration and of the best fixed candidate, by batch.

    Over the random draws with at least 8 InD domains, and over all cells.
    """
    sizes = [str(size) for size in BATCHES]
    few = compared["partition"].str.extract(r"draw of (\d+)")[0].astype(float)
    records = []
    for title, own in (
        ("draws of 8 to 12 InD domains", compared[few >= 8]),
        ("all cells", compared),
    ):
        for size in sizes:
            candidates = {
                name: own[(own["method"] == name) & own["batch"].isin([size, ANY])]
                for name in (SINGLE_ROWS if size == "1" else BATCHES_OF_ROWS)
            }
            means = {name: rows["difference"].mean() for name, rows in candidates.items()}
            best = min([(0.0, TS), *((mean, name) for name, mean in means.items())])
            auto = own[(own["method"] == AUTO) & (own["batch"] == size)]["difference"].mean()
            records.append((title, size, auto, best[1], best[0]))
    return pd.DataFrame(records, columns=["cells", "batch", "auto", "best", "best_difference"])
