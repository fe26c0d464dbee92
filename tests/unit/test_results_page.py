"""tools/results_page.py: the page has one table and one figure; the rest is in its appendices."""

import importlib.util
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

ROOT = Path(__file__).parents[2]
_spec = importlib.util.spec_from_file_location("results_page", ROOT / "tools/results_page.py")
results_page = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(results_page)

MARK = "<!-- made by tools/results_page.py from here on -->"
METHODS = ("MSP", "TS", "MD-TS", "MD-TS log T", "oracle", "OLS")
INTERCEPTS = ("MD-TS intercept", "MD-TS log T, intercept")
DOMAINS = [f"{name}-{k}" for name in ("fog", "snow", "frost", "contrast") for k in (1, 2, 3)]


def _results(experiments, methods):
    """Scores of two partitions in two splits and repeats; MD-TS is better than TS in the first."""
    rng = np.random.default_rng(0)
    rows = []
    for data, networks in experiments.items():
        for network in networks:
            for partition in ("first", "second"):
                for split in ("row", "group"):
                    for repeat in (0, 1):
                        for method in methods:
                            better = 0.1 * (method == "MD-TS" and partition == "first")
                            for kind, domains in (("InD", ["clean"]), ("OOD", DOMAINS)):
                                rows += [
                                    (data, network, partition, split, repeat, method, kind, domain,
                                     0.3 - better + 0.01 * rng.random(), 1 + 0.5 * rng.random())
                                    for domain in domains
                                ]  # fmt: skip
    columns = ["data", "network", "partition", "split", "repeat", "method", "kind", "domain"]
    return pd.DataFrame(rows, columns=[*columns, "ece", "nll"])


def _folder(folder, *, experiments, methods=METHODS):
    """A small folder as of ``domaincal reproduce``."""
    folder.mkdir()
    _results(experiments, methods).to_csv(folder / "results.csv", index=False)
    for name in ("means", "summary", "table-1"):
        (folder / f"{name}.csv").write_text("a\n1\n")
    (folder / "table-1.md").write_text("**Table 1: ECE**\n\n| domains |\n| --- |\n| InD |\n")
    first = next(iter(experiments))
    (folder / "summary.md").write_text(
        "**Per-domain ECE**\n\n| domains |\n| --- |\n| InD |\n\nBold: the lowest.\n\n"
        f"{first}, one, p (OOD): MD-TS is better.\n"
    )
    for name in ("domains", "accuracy", "figure-3"):
        (folder / f"{name}.png").write_bytes(b"png")
    provenance = [
        {"experiment": name, "python": "3.11", "versions": {"numpy": "2"},
         "rows": {network: [{}] for network in networks}}
        for name, networks in experiments.items()
    ]  # fmt: skip
    (folder / "provenance.json").write_text(json.dumps(provenance))
    return folder


def _write(tmp_path, **options):
    page = tmp_path / "docs/page.md"
    page.parent.mkdir(exist_ok=True)
    out = _folder(tmp_path / "out", **options)
    results_page.write_page(out, page, "A page", "domaincal reproduce all")
    appendices = [page.parent / "page/tables.md", page.parent / "page/figures.md"]
    return [path.read_text() for path in (page, *appendices)]


def _cells(text, start):
    """Cells of the lines of the first table after ``start``."""
    table = text[text.index(start) :].split("\n\n")[1]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]


def test_all_links_lead_to_files(tmp_path):
    _write(tmp_path, experiments={"c": ["one", "two"]})
    pages = sorted((tmp_path / "docs").rglob("*.md"))
    assert {page.name for page in pages} == {"page.md", "figures.md", "tables.md"}
    for page in pages:
        links = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text())
        assert links
        for link in links:
            assert (page.parent / link).exists(), (page, link)


def test_the_page_of_several_networks_has_one_table_and_one_figure(tmp_path):
    page, tables, figures = _write(tmp_path, experiments={"c": ["one", "two"]})
    title = "ECE in % of unseen domains, TS / MD-TS"
    assert page.startswith(f"# A page\n\n{MARK}\n\n**{title}**\n")
    assert "## How it was made\n\n```sh\ndomaincal reproduce all\n```\n" in page
    assert re.findall(r"^\*\*(.*)\*\*$", page, re.M) == [title, "ECE in %, first"]
    assert re.findall(r"!\[.*\]\((.*)\)", page) == ["page/domains.png"]
    assert "Below the diagonal: MD-TS has the lower ECE." in page
    assert re.findall("^## (.*)$", tables, re.M) == [
        "ECE in % of unseen domains at a glance", "NLL of unseen domains at a glance",
        "Per-domain ECE", "Table 1: ECE",
    ]  # fmt: skip
    assert "c, one, p (OOD): MD-TS is better." in tables
    assert re.findall(r"!\[.*\]\((.*)\)", figures) == [
        "domains.png",
        "accuracy.png",
        "figure-3.png",
    ]
    assert "On the diagonal: mean confidence equals accuracy" in figures


def test_the_page_of_one_network_has_the_summary_without_its_sentences(tmp_path):
    page, tables, _ = _write(tmp_path, experiments={"c": ["one"]})
    assert "**Per-domain ECE**\n\n| domains |" in page
    assert "Bold: the lowest.\n" in page
    assert "(OOD): MD-TS is better" not in page
    assert "at a glance" not in page
    assert "c, one, p (OOD): MD-TS is better." in tables


def test_the_table_at_a_glance_has_means_and_a_clustered_interval(tmp_path):
    _, tables, _ = _write(tmp_path, experiments={"c": ["one", "two"]})
    header, _, *lines = _cells(tables, "## ECE in %")
    assert header == [
        "network", "partition", "MSP", "TS", "MD-TS", "MD-TS less TS", "MD-TS log T", "oracle",
    ]  # fmt: skip
    # The name of the experiment is not repeated, nor is that of a network.
    assert [line[:2] for line in lines] == [
        ["one", "first"], ["", "second"], ["two", "first"], ["", "second"],
    ]  # fmt: skip
    results = pd.read_csv(tmp_path / "out/results.csv")
    own = results.query(
        "network == 'two' and partition == 'first' and split == 'row' and kind == 'OOD'"
    )
    means = own.pivot_table(index="domain", columns="method", values="ece")
    assert lines[2][3] == f"{100 * means['TS'].mean():.2f}"
    # All corruptions have as many severities: the clustered error is that of their means.
    difference = means["MD-TS"] - means["TS"]
    of_corruptions = difference.groupby(difference.index.str[:-2]).mean()
    error = of_corruptions.std(ddof=1) / len(of_corruptions) ** 0.5
    text = f"{100 * difference.mean():+.2f} ± {100 * error:.2f}"
    assert lines[2][5] == f"**{text}**"
    assert "**" not in lines[3][5]
    assert "clustered by corruption" in tables


def test_the_table_of_two_methods_has_a_line_for_each_partition(tmp_path):
    page, _, _ = _write(tmp_path, experiments={"c": ["one", "two"]})
    header, _, first, second = _cells(page, "**ECE in %")
    assert header == ["partition", "one", "two"]
    unseen = pd.read_csv(tmp_path / "out/results.csv").query("split == 'row' and kind == 'OOD'")
    means = 100 * unseen.groupby(["partition", "network", "method"])["ece"].mean()
    ts, md_ts = means["first", "two", "TS"], means["first", "two", "MD-TS"]
    assert first == ["first", first[1], f"{ts:.2f} / **{md_ts:.2f}**"]
    assert second[0] == "second"
    assert "**" not in second[2]


def test_the_table_of_two_methods_marks_where_ts_is_lower():
    rows = [
        ("net", "p", "row", method, f"{kind}-1", 0.1 * (method == "MD-TS") + 0.01 * k)
        for method in ("TS", "MD-TS")
        for k, kind in enumerate(("fog", "snow", "frost"))
    ]
    columns = ["network", "partition", "split", "method", "domain", "ece"]
    table, _ = results_page._two_methods(pd.DataFrame(rows, columns=columns))
    assert "| p | **1.00** / 11.00 |" in table


COLUMNS = ["network", "partition", "method", "kind", "domain", "ece"]


def _claims(ece):
    """Answers to the claims, from the ECE of unseen domains by method."""
    rows = [
        ("net", "first", method, "OOD", f"d{k}", value)
        for method, values in ece.items()
        for k, value in enumerate(values)
    ]
    rows += [("net", "eight-corruptions", "TS", "InD", "d0", 0.11)]
    rows += [("net", "all", "TS", "InD", "d0", 0.12)]
    _, table, _ = results_page._claims(pd.DataFrame(rows, columns=COLUMNS))
    return [line.split("|")[2].strip() for line in table.splitlines()[4:]]


def test_claims_of_the_paper_that_hold_are_answered_yes():
    answers = _claims({"TS": [0.02, 0.10, 0.30, 0.31], "MD-TS": [0.03, 0.04, 0.25, 0.25]})
    assert answers == ["yes: 3 of 4", "yes: -5.67 in 3 domains", "yes: 11.00 and 12.00"]


def test_claims_of_the_paper_that_do_not_hold_are_answered_no():
    heads = dict.fromkeys(("MD-TS", *results_page.HEAD_NAMES), (0.03, 0.20, 0.40))
    worse = _claims({"TS": [0.02, 0.10, 0.30], **heads, "Huber": [0.01, 0.18, 0.38]})
    assert worse[:3] == [
        "no: 0 of 3", "no: +10.00 in 2 domains", "no: Huber 19.00, OLS 21.00",
    ]  # fmt: skip
    assert _claims({"TS": [0.02, 0.03], "MD-TS": [0.03, 0.02]})[:2] == [
        "no: 1 of 2", "no such domain",
    ]  # fmt: skip


def test_a_difference_is_bold_if_it_is_below_0_beyond_its_interval():
    domains = ["fog-1", "fog-2", "snow-1", "snow-2", "frost-1", "frost-2"]
    ends = np.array([-1.0, -1.0, 0.0, 0.0, 1.0, 1.0])
    error = 1 / 3**0.5  # of three corruptions with a standard deviation of 1
    half = student.ppf(0.975, 2) * error
    score = results_page._Score("ece", "ECE", 1, 2)

    def text(mean):
        return results_page._difference(pd.Series(mean + ends, index=domains), score)

    assert text(-1.01 * half) == f"**{-1.01 * half:+.2f} ± {error:.2f}**"
    assert text(-0.99 * half) == f"{-0.99 * half:+.2f} ± {error:.2f}"
    assert text(1.01 * half) == f"{1.01 * half:+.2f} ± {error:.2f}"
    # One corruption tells nothing of others.
    one = pd.Series([-2.0, -2.1], index=["fog-1", "fog-2"])
    assert results_page._difference(one, score) == "-2.05"
    # Domains that are no corruptions count one by one.
    people = pd.Series([-2.0, -2.1], index=[1600, 1601])
    assert results_page._difference(people, score) == "**-2.05 ± 0.05**"


@pytest.mark.parametrize("methods", [METHODS, (*METHODS, *INTERCEPTS)])
def test_intercepts_have_a_table_if_there_are_any(tmp_path, methods):
    page, tables, _ = _write(tmp_path, experiments={"c": ["one", "two"]}, methods=methods)
    title = "ECE in % / NLL of unseen domains, with and without an intercept"
    assert title not in page
    assert (title in tables) == (methods != METHODS)
    if methods == METHODS:
        return
    header, _, *lines = _cells(tables, title)
    assert header[2:] == ["TS", "MD-TS", "with intercept", "log T", "log T, with intercept"]
    own = pd.read_csv(tmp_path / "out/results.csv").query(
        "network == 'one' and partition == 'second' and split == 'row' and kind == 'OOD'"
    )
    means = own[own["method"] == "MD-TS intercept"][["ece", "nll"]].mean()
    assert lines[1][4] == f"{100 * means['ece']:.2f} / {means['nll']:.3f}"


def test_several_experiments_are_named_in_each_table(tmp_path):
    page, tables, _ = _write(tmp_path, experiments={"c": ["one"], "d": ["one"]})
    assert _cells(page, "**ECE in %")[0] == ["partition", "c, one", "d, one"]
    _, _, *lines = _cells(tables, "## ECE in %")
    assert [line[0] for line in lines] == ["c, one", "", "d, one", ""]


def test_the_text_above_the_mark_is_kept(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"# Mine\n\nMy words.\n\n{MARK}\n\nold\n")
    out = _folder(tmp_path / "out", experiments={"c": ["one", "two"]})
    for _ in range(2):
        results_page.write_page(out, page, "ignored", "domaincal reproduce all")
    text = page.read_text()
    assert text.startswith(f"# Mine\n\nMy words.\n\n{MARK}\n")
    assert text.count(MARK) == 1
    assert "old" not in text.partition(MARK)[2].split()
    assert (tmp_path / "page/tables.md").read_text().startswith("# Mine: tables\n")
