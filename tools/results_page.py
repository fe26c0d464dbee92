"""Make a page of docs/results from the output folder of ``domaincal reproduce``.

``python tools/results_page.py OUT docs/results/wisdm.md "WISDM: people" "domaincal reproduce ..."``
writes one table, one figure and the command to the page, and to the folder beside it, wisdm, the
appendices tables.md and figures.md, the figures and the csv files. The text of the page above the
mark is kept.
"""

import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from scipy.stats import t as student

from domaincal.experiments.methods import HEAD_NAMES
from domaincal.experiments.partitions import CORRUPTION_PARTITIONS
from domaincal.experiments.targets import TARGETS
from domaincal.statistics.paired_interval import paired_interval
from domaincal.vision.corruptions.catalogue import CORRUPTIONS

_MARK = "<!-- made by tools/results_page.py from here on -->"
# Columns of the tables at a glance.
_METHODS = ("MSP", "TS", "MD-TS", "MD-TS log T", "oracle")
_DIFFERENCE = "MD-TS less TS"
# Columns of the table of intercepts, by method.
_INTERCEPTS = {
    "TS": "TS", "MD-TS": "MD-TS", "MD-TS intercept": "with intercept", "MD-TS log T": "log T",
    "MD-TS log T, intercept": "log T, with intercept",
}  # fmt: skip
# ECE in % above which the paper calls TS poor.
_POOR = 8
_NAMES = ("network", "partition")
_CLUSTERED = ", clustered by corruption, since the severities of a corruption are alike"
_HALVES = {"row": "halves of rows", "group": "halves that are disjoint in groups"}


class _Score(NamedTuple):
    """A score: its column, and how tables show it."""

    column: str
    title: str
    unit: int
    digits: int

    def text(self, value: float, sign: str = "") -> str:
        """The value; an empty text if it is missing."""
        return "" if value != value else f"{self.unit * value:{sign}.{self.digits}f}"


_ECE, _NLL = _Score("ece", "ECE in %", 100, 2), _Score("nll", "NLL", 1, 3)


def write_page(results: Path, page: Path, title: str, command: str) -> None:
    """Write the page, and its appendices, figures and csv files to the folder beside it.

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
        title = before.partition("\n")[0].removeprefix("# ")
    folder = page.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    tables = [name for name in TARGETS if (results / f"{name}.md").exists()]
    figures = [name for name in TARGETS if (results / f"{name}.png").exists()]
    numbers = ["means", *tables]
    for file in (*(f"{name}.png" for name in figures), *(f"{name}.csv" for name in numbers)):
        shutil.copyfile(results / file, folder / file)
    provenance = json.loads((results / "provenance.json").read_text())
    scores = _named_apart(pd.read_csv(results / "results.csv"))
    unseen = scores[scores["kind"] == "OOD"]
    several = unseen["network"].nunique() > 1
    glance = _two_methods(unseen) if several else []
    links = [
        "Appendices:\n",
        f"- [Tables]({folder.name}/tables.md): NLL of unseen domains, all partitions and methods, "
        "the tables of the paper.",
        f"- [Figures]({folder.name}/figures.md): {', '.join(figures)}.",
        "- The same numbers as files: "
        + ", ".join(f"[{name}.csv]({folder.name}/{name}.csv)" for name in numbers)
        + ".\n",
    ]
    parts = [
        *(glance or [_without_verdicts(results / "summary.md", provenance)]),
        *(_figure(name, folder=f"{folder.name}/") for name in figures if name == "domains"),
        *_claims(scores),
        "\n".join(links),
        f"## How it was made\n\n```sh\n{command}\n```\n",
        _versions(provenance),
        *_trained_networks(provenance),
    ]
    page.write_text(before + _MARK + "\n\n" + "\n".join(parts))
    back = f"Appendix of [{title}](../{page.name}), made by tools/results_page.py.\n"
    made = [(results / f"{name}.md").read_text() for name in tables]
    more = [*(_at_a_glance(unseen, _ECE) if several else []), *_at_a_glance(unseen, _NLL)]
    sections = map(_as_section, [*more, *_intercepts(unseen), *made])
    (folder / "tables.md").write_text("\n".join([f"# {title}: tables\n", back, *sections]))
    captioned = map(_figure, figures)
    (folder / "figures.md").write_text("\n".join([f"# {title}: figures\n", back, *captioned]))


def _named_apart(results: pd.DataFrame) -> pd.DataFrame:
    """Results in the first split; names of networks tell experiments apart."""
    if results["data"].nunique() > 1:
        results["network"] = results["data"] + ", " + results["network"]
    return results[results["split"] == results["split"].iloc[0]]


def _versions(provenance: list[dict[str, Any]]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in provenance[0]["versions"].items())
    return f"Tables by Python {provenance[0]['python']}, {versions}.\n"


def _trained_networks(provenance: list[dict[str, Any]]) -> list[str]:
    """A table of the networks that were trained for the results, if any."""
    lines = []
    for experiment in provenance:
        start = f"{experiment['experiment']}, " if len(provenance) > 1 else ""
        for name, rows in experiment["rows"].items():
            for own in rows:
                if "network epochs" not in own:
                    continue
                header = {key.removeprefix("network "): value for key, value in own.items()}
                versions, accuracy = header["versions"], header["accuracy"]
                lines.append(
                    f"| {start}{name} | {header['timm']} "
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


def _two_methods(unseen: pd.DataFrame) -> list[str]:
    """ECE of TS and MD-TS, a line for each partition and a column for each network."""
    networks = list(unseen["network"].unique())
    lines = []
    for partition, own in unseen.groupby("partition", sort=False):
        cells = {}
        for network, rows in own.groupby("network", sort=False):
            table = rows.pivot_table(index="domain", columns="method", values="ece")
            if not {"TS", "MD-TS"} <= set(table):
                return []
            low, high = _interval(*_mean_and_error(table["MD-TS"] - table["TS"]))
            ts, md_ts = (_ECE.text(table[name].mean()) for name in ("TS", "MD-TS"))
            ts, md_ts = f"**{ts}**" if low > 0 else ts, f"**{md_ts}**" if high < 0 else md_ts
            cells[network] = f"{ts} / {md_ts}"
        lines.append(
            [_partition_title(str(partition)), *(cells.get(network, "") for network in networks)]
        )
    return [
        _table("ECE in % of unseen domains, TS / MD-TS", ["partition"], networks, lines),
        f"{_averaged(unseen)} Bold: clearly lower than the other (95% t-interval of the difference"
        f"{_CLUSTERED if _has_clusters(unseen) else ''}).\n",
    ]


def _at_a_glance(unseen: pd.DataFrame, score: _Score) -> list[str]:
    """A table of a score, a line for each network and partition; none without TS and MD-TS."""
    shown = [name for name in _METHODS if name in set(unseen["method"])]
    if not {"TS", "MD-TS"} <= set(shown):
        return []
    columns = [*shown]
    columns.insert(shown.index("MD-TS") + 1, _DIFFERENCE)
    lines = []
    for names, rows in _networks_and_partitions(unseen):
        table = rows.pivot_table(index="domain", columns="method", values=score.column)
        table = table.reindex(columns=shown)
        cells = {name: score.text(table[name].mean()) for name in shown}
        cells[_DIFFERENCE] = _difference(table["MD-TS"] - table["TS"], score)
        lines.append([*names, *(cells[name] for name in columns)])
    error = "standard error" + (_CLUSTERED if _has_clusters(unseen) else "")
    note = (
        f"{_averaged(unseen)} {_DIFFERENCE}: mean of the differences in the domains, ± its {error}."
        " Bold: MD-TS is clearly lower (95% t-interval below 0).\n"
    )
    title = f"{score.title} of unseen domains at a glance"
    return [_table(title, _NAMES, columns, lines), note]


def _intercepts(unseen: pd.DataFrame) -> list[str]:
    """A table of MD-TS with and without an intercept, if the results have both."""
    shown = [name for name in _INTERCEPTS if name in set(unseen["method"])]
    if not {"MD-TS intercept", "MD-TS log T, intercept"} <= set(shown):
        return []
    lines = []
    for names, rows in _networks_and_partitions(unseen):
        means = rows.groupby(["method", "domain"])[["ece", "nll"]].mean().groupby("method").mean()
        pairs = means.reindex(shown).itertuples()
        lines.append([*names, *(f"{_ECE.text(own.ece)} / {_NLL.text(own.nll)}" for own in pairs)])
    title = "ECE in % / NLL of unseen domains, with and without an intercept"
    return [
        _table(title, _NAMES, [_INTERCEPTS[name] for name in shown], lines),
        f"{_averaged(unseen)} The MD-TS of the paper has no intercept.\n",
    ]


def _claims(scores: pd.DataFrame) -> list[str]:
    """What the results say to claims of the paper, a line for each claim."""
    answers = {network: _answers(own) for network, own in scores.groupby("network", sort=False)}
    claims = dict.fromkeys(claim for own in answers.values() for claim in own)
    lines = [[claim, *(own.get(claim, "") for own in answers.values())] for claim in claims]
    if not lines:
        return []
    title = f"ECE in %, {_partition_title(scores['partition'].iloc[0])}"
    note = "Yes and no: by 95% t-intervals of differences, paired over domains.\n"
    return [
        "## Claims of the paper\n",
        _table(title, ["the paper says"], list(answers), lines),
        note,
    ]


def _answers(scores: pd.DataFrame) -> dict[str, str]:
    """Answers of one network, by claim; only of claims whose results are there."""
    groups = scores.groupby(["kind", "partition", "method"], sort=False)
    ece = {key: 100 * own.groupby("domain")["ece"].mean() for key, own in groups}
    of_first = {m: own for (kind, p, m), own in ece.items()
                if (kind, p) == ("OOD", scores["partition"].iloc[0])}  # fmt: skip
    answers = {}
    if {"TS", "MD-TS"} <= set(of_first):
        less, poor = of_first["MD-TS"] - of_first["TS"], of_first["TS"] > _POOR
        wins = int((less < 0).sum())
        answers["MD-TS is better than TS on more than half of the unseen domains"] = (
            f"{_yes(wins > len(less) / 2)}: {wins} of {len(less)}"
        )
        answers[f"by a large margin where the ECE of TS is above {_POOR}"] = (
            f"{_yes(_is_below_0(less[poor]))}: {less[poor].mean():+.2f} in {poor.sum()} domains"
            if poor.any()
            else "no such domain"
        )
    if set(HEAD_NAMES) <= set(of_first):
        first, *others = HEAD_NAMES
        better = [name for name in others if _is_below_0(of_first[name] - of_first[first])]
        shown = better or [min(others, key=lambda name: of_first[name].mean())]
        answers[f"no other head is significantly better than {first}"] = (
            f"{_yes(not better)}: {', '.join(f'{n} {of_first[n].mean():.2f}' for n in shown)}, "
            f"{first} {of_first[first].mean():.2f}"
        )
    fewer, more = (("InD", name, "TS") for name in ("eight-corruptions", "all"))
    if {fewer, more} <= set(ece):
        few, many = ece[fewer].mean(), ece[more].mean()
        answers["TS is better with 41 seen domains than with all 76 (means)"] = (
            f"{_yes(few < many)}: {few:.2f} and {many:.2f}"
        )
    return answers


def _yes(answer: bool) -> str:
    return "yes" if answer else "no"


def _is_below_0(differences: pd.Series) -> bool:
    return paired_interval(differences.to_numpy())[1] < 0


def _partition_title(name: str) -> str:
    return CORRUPTION_PARTITIONS[name].title if name in CORRUPTION_PARTITIONS else name


def _averaged(unseen: pd.DataFrame) -> str:
    return f"Means over unseen domains and repeats, {_HALVES[unseen['split'].iloc[0]]}."


def _networks_and_partitions(
    unseen: pd.DataFrame,
) -> Iterator[tuple[tuple[str, str], pd.DataFrame]]:
    """Rows of each network and partition; the network has its name at its first partition only."""
    for network, own in unseen.groupby("network", sort=False):
        name = str(network)
        for partition, rows in own.groupby("partition", sort=False):
            yield (name, _partition_title(str(partition))), rows
            name = ""


def _table(
    title: str, names: Sequence[str], columns: Sequence[str], lines: Sequence[Sequence[str]]
) -> str:
    """A Markdown table whose lines begin with names, followed by numbers."""
    rows = [[*names, *columns], [*["---"] * len(names), *["---:"] * len(columns)], *lines]
    return "\n".join([f"**{title}**\n", *(f"| {' | '.join(row)} |" for row in rows), ""])


def _difference(values: pd.Series, score: _Score) -> str:
    """Mean difference over domains ± its standard error; bold if it is clearly below 0."""
    mean, error, n = _mean_and_error(values)
    if n < 2:
        return score.text(mean, "+")
    text = f"{score.text(mean, '+')} ± {score.text(error)}"
    return f"**{text}**" if _interval(mean, error, n)[1] < 0 else text


def _mean_and_error(values: pd.Series) -> tuple[float, float, int]:
    """Mean over domains, its clustered standard error, and the number of clusters."""
    values = values.dropna()
    mean = values.mean()
    deviations = (values - mean).groupby(_clusters(values.index.to_series())).sum()
    n = len(deviations)
    if n < 2:
        return mean, float("nan"), n
    return mean, (n / (n - 1) * (deviations**2).sum()) ** 0.5 / len(values), n


def _interval(mean: float, error: float, n: int) -> tuple[float, float]:
    """95% t-interval; NaN with one cluster."""
    half = student.ppf(0.975, n - 1) * error if n > 1 else float("nan")
    return mean - half, mean + half


def _has_clusters(unseen: pd.DataFrame) -> bool:
    return bool((_clusters(unseen["domain"]) != unseen["domain"].astype(str)).any())


def _clusters(domains: pd.Series) -> pd.Series:
    """The corruption of each domain; domains that are no corruption stand for themselves."""
    pattern = rf"^({'|'.join(CORRUPTIONS)})-\d$"
    return domains.astype(str).str.replace(pattern, r"\1", regex=True)


def _without_verdicts(summary: Path, provenance: list[dict[str, Any]]) -> str:
    """The summary table with its notes; sentences on single experiments are in the appendix."""
    starts = tuple(f"{own['experiment']}, " for own in provenance)
    paragraphs = summary.read_text().rstrip().split("\n\n")
    return "\n\n".join(text for text in paragraphs if not text.startswith(starts)) + "\n"


def _figure(name: str, folder: str = "") -> str:
    """A figure with its caption."""
    target = TARGETS[name]
    return f"![{target.about}]({folder}{name}.png)\n\n**{name}.** {target.caption}\n"


def _as_section(table: str) -> str:
    """A table with its title as a heading; other text as it is."""
    title, line, rest = table.partition("\n")
    if not (title.startswith("**") and title.endswith("**")):
        return table
    return f"## {title.strip('*')}{line}{rest}"


if __name__ == "__main__":
    write_page(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:5])
