"""Make a page of docs/results from the folder that ``domaincal reproduce`` wrote.

``python tools/results_page.py OUT docs/results/wisdm.md "WISDM: people" "domaincal reproduce ..."``
puts the tables of OUT into the page, under the command that made them, and copies its figures and
tables to a folder beside it. What the page says above the mark is kept. Where there are several
networks, a table of all of them comes first.
"""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pandas as pd

from domaincal.experiments.targets import TARGETS

_SHOWN = ("MSP", "TS", "MD-TS", "MD-TS log T", "oracle")
_MARK = "<!-- made by tools/results_page.py from here on -->"


def page(out: Path, target: Path, title: str, command: str) -> str:
    """The text of the page."""
    before = f"# {title}\n\n"
    if target.exists() and _MARK in target.read_text():
        before = target.read_text().split(_MARK)[0]
    known = json.loads((out / "provenance.json").read_text())
    versions = ", ".join(f"{name} {number}" for name, number in known[0]["versions"].items())
    parts = [f"```sh\n{command}\n```\n", f"Tables by Python {known[0]['python']}, {versions}.\n"]
    parts += _networks(known)
    parts += _at_a_glance(pd.read_csv(out / "results.csv"))
    folder = target.with_suffix("")
    folder.mkdir(exist_ok=True)
    copied = ["means"]
    for name in TARGETS:
        if (out / f"{name}.md").exists():
            parts.append((out / f"{name}.md").read_text())
            copied.append(name)
        elif (out / f"{name}.png").exists():
            shutil.copyfile(out / f"{name}.png", folder / f"{name}.png")
            about = f"{name}: {TARGETS[name].about}"
            parts.append(f"![{about}]({folder.name}/{name}.png)\n\n*{about}*\n")
    for name in copied:
        shutil.copyfile(out / f"{name}.csv", folder / f"{name}.csv")
    links = ", ".join(f"[{name}.csv]({folder.name}/{name}.csv)" for name in copied)
    parts.append(f"The same numbers as files: {links}.\n")
    return before + _MARK + "\n\n" + "\n".join(parts)


def _networks(known: list[dict[str, Any]]) -> list[str]:
    """A table of the networks that were trained for it, if any."""
    lines = []
    for experiment in known:
        for name, rows in experiment["rows"].items():
            for own in rows:
                if "network epochs" not in own:
                    continue
                said = {key.removeprefix("network "): value for key, value in own.items()}
                made, accuracy = said["versions"], said["accuracy"]
                lines.append(
                    f"| {experiment['experiment']}, {name} | {said['timm']} "
                    f"| {'pre-trained' if said['pretrained'] else 'random'} "
                    f"| {'-' if accuracy is None else f'{100 * accuracy:.1f}%'} "
                    f"| {said['epochs']} | {said['seconds']:.0f} s "
                    f"| {said['device']}, torch {made['torch']}, timm {made['timm']} |"
                )
    if not lines:
        return []
    return ["\n".join([
        "**Networks**\n",
        "| network | timm | first weights | clean accuracy | epochs | training | where |",
        "| --- | --- | --- | ---: | ---: | ---: | --- |",
        *lines,
        "",
    ])]  # fmt: skip


def _at_a_glance(results: pd.DataFrame) -> list[str]:
    """One line for each network and partition that has unseen domains, if networks are several."""
    results = results[(results["kind"] == "OOD") & (results["split"] == "row")]
    if results["network"].nunique() < 2:
        return []
    shown = [name for name in _SHOWN if name in set(results["method"])]
    columns = [*shown]
    columns.insert(shown.index("MD-TS") + 1, "MD-TS less TS")
    parts = []
    for title, score, unit, digits in (("ECE in %", "ece", 100, 2), ("NLL", "nll", 1, 3)):
        lines = []
        for (data, network, partition), cells in results.groupby(
            ["data", "network", "partition"], sort=False
        ):
            table = unit * cells.pivot_table(index="domain", columns="method", values=score)
            loss = table["MD-TS"] - table["TS"]
            means = {name: f"{table[name].mean():.{digits}f}" for name in shown}
            means["MD-TS less TS"] = (
                f"{loss.mean():+.{digits}f} ± {_standard_error(loss):.{digits}f}"
            )
            cells_of_line = " | ".join(means[name] for name in columns)
            lines.append(f"| {data}, {network} | {partition} | {cells_of_line} |")
        parts.append("\n".join([
            f"**{title} of unseen domains at a glance**\n",
            f"| network | partition | {' | '.join(columns)} |",
            f"| --- | --- |{' ---: |' * len(columns)}",
            *lines,
            "",
        ]))  # fmt: skip
    parts.append(
        "Means over the domains and repeats, halves of rows. MD-TS less TS: of each domain, and "
        "the standard error, for which severities of a corruption count as one: they are alike.\n"
    )
    return parts


def _standard_error(values: pd.Series) -> float:
    """Of the mean over domains, if those of one corruption move together."""
    away = values - values.mean()
    sums = away.groupby(values.index.str.replace(r"-\d+$", "", regex=True)).sum()
    n = len(sums)
    return float((n / (n - 1) * (sums**2).sum()) ** 0.5 / len(values))


if __name__ == "__main__":
    _out, _target = Path(sys.argv[1]), Path(sys.argv[2])
    _target.parent.mkdir(parents=True, exist_ok=True)
    _target.write_text(page(_out, _target, *sys.argv[3:5]))
