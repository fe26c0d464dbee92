"""Make a page of docs/results from the output folder of ``domaincal reproduce``.

``python tools/results_page.py OUT docs/results/wisdm.md "WISDM: people" "domaincal reproduce ..."``
writes the tables of OUT to the page, below the command that made them, and copies its figures and
csv files to a folder beside the page. The text of the page above the mark is kept. With several
networks, the page begins with tables of all of them.
"""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pandas as pd

from domaincal.experiments.targets import TARGETS

# Columns of the tables of all networks.
_METHODS = ("MSP", "TS", "MD-TS", "MD-TS log T", "oracle")
_MARK = "<!-- made by tools/results_page.py from here on -->"


def write_page(results: Path, page: Path, title: str, command: str) -> None:
    """Write the page, and the folder of figures and csv files beside it.

    Parameters
    ----------
    results : Path
        Output folder of ``domaincal reproduce``.
    page : Path
        The Markdown file.
    title : str
        Title of a new page.
    command : str
        The command that made the results.
    """
    before = f"# {title}\n\n"
    if page.exists() and _MARK in page.read_text():
        before = page.read_text().split(_MARK)[0]
    provenance = json.loads((results / "provenance.json").read_text())
    python = provenance[0]["python"]
    versions = ", ".join(f"{name} {number}" for name, number in provenance[0]["versions"].items())
    parts = [f"```sh\n{command}\n```\n", f"Tables by Python {python}, {versions}.\n"]
    parts += _trained_networks(provenance)
    parts += _all_networks(pd.read_csv(results / "results.csv"))
    folder = page.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    copied = ["means"]
    for name in TARGETS:
        if (results / f"{name}.md").exists():
            parts.append((results / f"{name}.md").read_text())
            copied.append(name)
        elif (results / f"{name}.png").exists():
            shutil.copyfile(results / f"{name}.png", folder / f"{name}.png")
            about = f"{name}: {TARGETS[name].about}"
            parts.append(f"![{about}]({folder.name}/{name}.png)\n\n*{about}*\n")
    for name in copied:
        shutil.copyfile(results / f"{name}.csv", folder / f"{name}.csv")
    links = ", ".join(f"[{name}.csv]({folder.name}/{name}.csv)" for name in copied)
    parts.append(f"The same numbers as files: {links}.\n")
    page.write_text(before + _MARK + "\n\n" + "\n".join(parts))


def _trained_networks(provenance: list[dict[str, Any]]) -> list[str]:
    """A table of the networks that were trained for the results, if any."""
    lines = []
    for experiment in provenance:
        for name, rows in experiment["rows"].items():
            for own in rows:
                if "network epochs" not in own:
                    continue
                header = {key.removeprefix("network "): value for key, value in own.items()}
                versions, accuracy = header["versions"], header["accuracy"]
                lines.append(
                    f"| {experiment['experiment']}, {name} | {header['timm']} "
                    f"| {'pre-trained' if header['pretrained'] else 'random'} "
                    f"| {'-' if accuracy is None else f'{100 * accuracy:.1f}%'} "
                    f"| {header['epochs']} | {header['seconds']:.0f} s "
                    f"| {header['device']}, torch {versions['torch']}, timm {versions['timm']} |"
                )
    if not lines:
        return []
    return ["\n".join([
        "**Networks**\n",
        "| network | timm | initial weights | clean accuracy | epochs | training | where |",
        "| --- | --- | --- | ---: | ---: | ---: | --- |",
        *lines,
        "",
    ])]  # fmt: skip


def _all_networks(results: pd.DataFrame) -> list[str]:
    """Tables of ECE and NLL, a line for each network and partition; none for a single network."""
    results = results[(results["kind"] == "OOD") & (results["split"] == "row")]
    if results["network"].nunique() < 2:
        return []
    shown = [name for name in _METHODS if name in set(results["method"])]
    columns = [*shown]
    columns.insert(shown.index("MD-TS") + 1, "MD-TS less TS")
    parts = []
    for title, score, unit, digits in (("ECE in %", "ece", 100, 2), ("NLL", "nll", 1, 3)):
        lines = []
        for (data, network, partition), rows in results.groupby(
            ["data", "network", "partition"], sort=False
        ):
            table = unit * rows.pivot_table(index="domain", columns="method", values=score)
            difference = table["MD-TS"] - table["TS"]
            means = {name: f"{table[name].mean():.{digits}f}" for name in shown}
            means["MD-TS less TS"] = (
                f"{difference.mean():+.{digits}f} ± {_standard_error(difference):.{digits}f}"
            )
            cells = " | ".join(means[name] for name in columns)
            lines.append(f"| {data}, {network} | {partition} | {cells} |")
        parts.append("\n".join([
            f"**{title} of unseen domains at a glance**\n",
            f"| network | partition | {' | '.join(columns)} |",
            f"| --- | --- |{' ---: |' * len(columns)}",
            *lines,
            "",
        ]))  # fmt: skip
    parts.append(
        "Means over domains and repeats, halves of rows. MD-TS less TS: mean of the differences of "
        "the domains, ± its standard error, clustered by corruption.\n"
    )
    return parts


def _standard_error(values: pd.Series) -> float:
    """Standard error of the mean over domains, clustered by corruption.

    The severities of a corruption are not independent.
    """
    deviations = values - values.mean()
    sums = deviations.groupby(values.index.str.replace(r"-\d+$", "", regex=True)).sum()
    n = len(sums)
    return float((n / (n - 1) * (sums**2).sum()) ** 0.5 / len(values))


if __name__ == "__main__":
    write_page(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:5])
