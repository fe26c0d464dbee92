"""The page docs/results/distance.md: tables below the mark, conclusions by hand above it."""

from pathlib import Path

import pandas as pd
from scipy.stats import spearmanr

from benchmarks.distance.cells import DISTANCES, N_DOMAINS, SIZES, WORSE
from benchmarks.distance.certificates import N_DRAWS, N_SEEN
from benchmarks.distance.synthetic import FEW_ROWS, N_REPEATS, N_ROWS
from benchmarks.shift.problems import DATA_SETS

MARK = "<!-- made by benchmarks/distance from here on -->"
METHODS = ("TS", "batch")
_TERMS = ["weighted_risk", "divergence", "complexity", "lambda", "bound", "true_risk",
          "largest_risk"]  # fmt: skip
_NAMES = {
    "divergence": "divergence d to the best mixture",
    "unexplained": "part that no mixture explains",
    "two_sample": "classifier two-sample distance",
    "histograms": "histograms, nearest domain (the verdict)",
}


def write_page(
    page: Path,
    synthetic: pd.DataFrame,
    domains: pd.DataFrame,
    verdicts: pd.DataFrame,
    certificates: pd.DataFrame,
    covered: pd.DataFrame,
    minutes: float,
) -> None:
    """Write the tables below the mark of the page."""
    parts = [
        "```sh\npython -m benchmarks.distance OUT --data FOLDER --page docs/results/distance.md\n"
        f"```\n\nIt took {minutes:.0f} minutes on one core.\n",
        "## The bound on synthetic domains\n",
        f"Four known domains, {N_ROWS:,} rows each; labels are drawn from the softmax at a known "
        "temperature. bound: the sum of the four terms before it; largest: the risk if the worst "
        f"temperature of the grid were the best one, with no theorem. Last columns: {FEW_ROWS} "
        f"rows for each domain, mean of {N_REPEATS} repeats, and how often the true risk was below "
        "the bound.\n",
        _markdown(_synthetic_table(synthetic)),
        "## The bound on real domains\n",
        f"TS; means over {N_DOMAINS} random OOD domains of each partition and 5 seeds. delta = "
        "0.05. holds: share of the domains whose true risk is at most the bound; says something: "
        "share whose bound is below the largest risk.\n",
        _markdown(_bound_table(domains)),
        "## Does distance tell the calibration error?\n",
        "Spearman's rank correlation of each distance with the excess ECE of the same OOD domains, "
        "all rows; mean over the partitions and seeds, and its standard error. 1: the furthest "
        "domain has the largest error. Grid of the first two: 9 temperatures, 1/4 to 4 times the "
        "pooled one.\n",
        _markdown(_correlation_table(domains)),
        "## Does the verdict tell it?\n",
        f"Verdicts on batches of n rows ({SIZES[20]} for each domain, or all its rows). worse: the "
        f"excess ECE of the domain is {100 * WORSE:.0f} points or more above the mean of the InD "
        "domains, which are scored on rows that were not in the fit. The temperature of the batch "
        "method is that of the n rows. The last three columns are the shares of worse domains "
        "among the batches with that verdict, with the number of batches.\n",
        _markdown(_verdict_table(verdicts)),
        "## Certificate\n",
        "Nominal 90%. limit: mean of the upper limits of the ECE; covered: share of the OOD "
        "domains whose ECE is at most the limit. Random draws: the InD domains "
        f"({', '.join(f'{n} for {data}' for data, n in N_SEEN.items())}) are drawn from all "
        f"domains, {N_DRAWS} draws for each seed, all rows; these are exchangeable with the "
        "others. On Digits-C, the batch method is fitted with seed 0 only, for its many fits.\n",
        _markdown(_certificate_table(certificates, covered)),
    ]
    above = page.read_text().split(MARK)[0] if page.exists() else "# Distance\n\n"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(f"{above}{MARK}\n\n" + "\n".join(parts))


def _synthetic_table(synthetic: pd.DataFrame) -> pd.DataFrame:
    shown = synthetic[["domain", *_TERMS, "few_bound"]].copy()
    for column in shown.select_dtypes("number"):
        shown[column] = shown[column].map("{:.3f}".format)
    shown["few_held"] = synthetic["few_held"].map("{:.0%}".format)
    return shown.rename(
        columns={
            "domain": "new domain",
            "few_bound": f"bound, {FEW_ROWS} rows",
            "few_held": "held",
            **_short_names(),
        }
    )


def _short_names() -> dict[str, str]:
    return {
        "weighted_risk": "weighted risk", "true_risk": "true risk", "largest_risk": "largest",
    }  # fmt: skip


def _bound_table(domains: pd.DataFrame) -> pd.DataFrame:
    domains = domains[domains["data"] != "FDU-MTL"].copy()
    domains["divergence"] = domains["bound_divergence"]
    domains["holds"] = domains["true_risk"] <= domains["bound"]
    domains["says something"] = domains["bound"] < domains["largest_risk"]
    groups = domains.groupby(["data", "partition"], sort=False)
    table = groups[_TERMS].mean().map("{:.3f}".format)
    for column in ("holds", "says something"):
        table[column] = groups[column].mean().map("{:.0%}".format)
    table.insert(0, "domains", groups.size())
    return table.reset_index().rename(columns=_short_names())


def _correlation_table(domains: pd.DataFrame) -> pd.DataFrame:
    records = []
    for distance in DISTANCES:
        record = {"distance": _NAMES[distance]}
        for data, own in domains.groupby("data", sort=False):
            for method in METHODS:
                found = [
                    spearmanr(cell[distance], cell[f"excess_{method}"])[0]
                    for _, cell in own.groupby(["partition", "seed"])
                ]
                values = pd.Series(found)
                record[f"{data}, {method}"] = f"{values.mean():+.2f} ± {values.sem():.2f}"
        records.append(record)
    return pd.DataFrame(records)


def _verdict_table(verdicts: pd.DataFrame) -> pd.DataFrame:
    records = []
    for (data, method, n), own in verdicts.groupby(["data", "method", "n"], sort=False):
        record = {"data": data, "method": method, "n": n, "worse": f"{own['worse'].mean():.0%}"}
        for verdict in ("inside", "edge", "outside"):
            chosen = own[own["verdict"] == verdict]
            share = f"{chosen['worse'].mean():.0%} of {len(chosen)}" if len(chosen) else ""
            record[verdict] = share
        records.append(record)
    table = pd.DataFrame(records)
    order = {name: k for k, name in enumerate((*DATA_SETS, *METHODS, *map(str, SIZES)))}
    return table.sort_values(["data", "method", "n"], key=lambda column: column.map(order))


def _certificate_table(certificates: pd.DataFrame, covered: pd.DataFrame) -> pd.DataFrame:
    records = [
        (data, partition, method, f"{own['n_ind'].mean():.0f}", f"{own['limit'].mean():.1%}",
         int(own["n_domains"].sum()), f"{own['below'].sum() / own['n_domains'].sum():.0%}")
        for (data, partition, method), own in certificates.groupby(
            ["data", "partition", "method"], sort=False
        )
    ]  # fmt: skip
    records += [
        (data, "random draws", "TS", str(N_SEEN[data]), f"{own['limit'].mean():.1%}", len(own),
         f"{own['below'].mean():.0%}")
        for data, own in covered.groupby("data", sort=False)
    ]  # fmt: skip
    columns = ["data", "partition", "method", "InD domains", "limit", "OOD domains", "covered"]
    return pd.DataFrame(records, columns=columns)


def _markdown(table: pd.DataFrame) -> str:
    rows = [list(map(str, table.columns)), ["---"] * len(table.columns)]
    rows += [list(map(str, row)) for row in table.itertuples(index=False)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"
