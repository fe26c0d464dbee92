"""``domaincal reproduce`` and ``demo``, on the embedded benchmark with few images."""

import io
import json
import re
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from functools import cache, partial
from importlib.resources import files

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import domaincal as dc
from domaincal.cli import main
from domaincal.experiments import data_sources
from domaincal.experiments.demo import demo_experiment
from domaincal.experiments.methods import (
    BINNING_METHODS,
    MAIN_METHODS,
    MD_TS,
    MSP,
    ONE_VS_REST_METHODS,
    TS,
    head_methods,
)
from domaincal.experiments.paper_tables import ece_table, pooled_table
from domaincal.experiments.reproduce import reproduce
from domaincal.experiments.runner import run_experiment
from domaincal.experiments.targets import TARGETS
from domaincal.experiments.text_table import Block, Line, TextTable
from domaincal.experiments.verdicts import verdicts
from support import small_domains

matplotlib = pytest.importorskip("matplotlib", reason="needs the extra plots")
pytestmark = pytest.mark.filterwarnings("ignore::domaincal.DomaincalWarning")

DIGITS = dc.experiments.read_experiment("digits-c")


def _small(text):
    return text.replace('{source = "digits-c"}', '{source = "digits-c", n_images = 24}')


def _load_in_one_process(random_state, *, n_jobs, **options):
    return dc.vision.load_digits_c(random_state, n_jobs=1, **options)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """``reproduce all`` of Digits-C with 24 images and 2 repeats."""
    pytest.importorskip("imagecorruptions", reason="needs the extra corruptions")
    folder = tmp_path_factory.mktemp("digits")
    shipped = (files("domaincal.experiments") / "definitions/digits-c.toml").read_text()
    (folder / "small.toml").write_text(_small(shipped))
    before = dict(matplotlib.rcParams)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data_sources, "load_digits_c", _load_in_one_process)
        result = CliRunner().invoke(
            main, ["reproduce", "all", "--experiment", str(folder / "small.toml"), "--repeats",
                   "2", "-o", str(folder / "out")],
        )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert dict(matplotlib.rcParams) == before
    return folder / "out", result


def test_reproduce_all_writes_every_target(made):
    folder, result = made
    for name, target in TARGETS.items():
        suffixes = (".txt", ".md", ".tex", ".csv") if target.is_table else (".png", ".svg")
        for suffix in suffixes:
            assert (folder / name).with_suffix(suffix).stat().st_size > 200, name
    assert len(TARGETS) == 4 + 6 + 8
    for k in range(1, 7):
        assert f"Table {k}: " in result.stdout


@pytest.mark.parametrize("name", [n for n, t in TARGETS.items() if not t.is_table])
def test_figures_are_valid_png_and_svg_files(made, name):
    folder, _ = made
    assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    root = ElementTree.parse(folder / f"{name}.svg").getroot()
    assert root.tag.endswith("svg")


TABLES = {
    "table-1": (MAIN_METHODS, "unseen-severities", "ece"),
    "table-2": (MAIN_METHODS, "unseen-severities", "gap"),
    "table-3": (head_methods(), "unseen-severities", "ece"),
    "table-5": ((*BINNING_METHODS, *ONE_VS_REST_METHODS), "unseen-severities", "ece"),
    "table-6": (MAIN_METHODS, "unseen-severity-5", "ece"),
}


@pytest.mark.parametrize("name", TABLES)
def test_the_numbers_of_a_table_are_means_of_the_results(made, name):
    folder, _ = made
    methods, partition, score = TABLES[name]
    numbers = pd.read_csv(folder / f"{name}.csv")
    assert set(numbers["method"]) == {method.name for method in methods}
    assert set(numbers["partition"]) == {partition}
    assert set(numbers["split"]) == {"row"}
    results = pd.read_csv(folder / "results.csv")
    for row in numbers.itertuples():
        own = results.query(
            "partition == @row.partition and split == 'row' and method == @row.method and "
            "kind == @row.kind"
        )
        per_domain = own.groupby("domain")[score].mean()
        assert row.value == pytest.approx(100 * per_domain.mean(), rel=1e-4)
        error = 100 * per_domain.std(ddof=1) / len(per_domain) ** 0.5
        assert row.standard_error == pytest.approx(error, rel=1e-4)
        assert row.n_domains == len(per_domain)
    text = (folder / f"{name}.txt").read_text()
    for row in numbers.itertuples():
        assert f"{row.value:.2f} ± {row.standard_error:.2f}" in text


def test_the_standard_error_of_the_pooled_table_is_over_repeats(made):
    folder, _ = made
    numbers = pd.read_csv(folder / "table-4.csv").set_index(["kind", "method"])
    pooled = pd.read_csv(folder / "pooled.csv").query(
        "partition == 'unseen-severities' and split == 'row'"
    )
    for key, row in numbers.iterrows():
        own = pooled[(pooled["kind"] == key[0]) & (pooled["method"] == key[1])]["ece"]
        assert len(own) == 2
        assert row["value"] == pytest.approx(100 * own.mean(), rel=1e-4)
        assert row["standard_error"] == pytest.approx(100 * own.std() / 2**0.5, rel=1e-4)


def test_the_summary_has_every_partition_split_and_method(made):
    folder, _ = made
    numbers = pd.read_csv(folder / "summary.csv")
    assert set(numbers["partition"]) == {p.name for p in DIGITS.partitions}
    assert set(numbers["split"]) == {"row", "group"}
    assert set(numbers["method"]) == {m.name for m in DIGITS.methods}
    # 5 methods InD, all but T_k OOD where there are OOD domains.
    assert len(numbers) == 2 * (8 * 5 + 6 * 4)
    text = (folder / "summary.txt").read_text()
    assert (
        len(re.findall(r"^Digits-C, MLP, .*MD-TS (is better|is worse|does not)", text, re.M)) == 8
    )


def test_cached_trials_are_not_run_again(made):
    folder, _ = made
    before = {p.name: p.stat().st_mtime_ns for p in (folder / "cells").iterdir()}
    table = (folder / "table-1.csv").read_bytes()
    result = CliRunner().invoke(
        main, ["reproduce", "table-1", "--experiment", str(folder.parent / "small.toml"),
               "--repeats", "2", "-o", str(folder), "--json"],
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert {p.name: p.stat().st_mtime_ns for p in (folder / "cells").iterdir()} == before
    document = json.loads(result.stdout)
    numbers = document["targets"]["table-1"]["numbers"]
    assert len(numbers) == 9
    assert numbers[0]["paper"] is None
    assert (folder / "table-1.csv").read_bytes() == table
    assert document["provenance"][0]["experiment"] == "Digits-C"


@pytest.mark.parametrize(
    ("table_format", "start"),
    [("markdown", "**Table 1: "), ("latex", "\\begin{table}"), ("csv", "data,network,partition")],
)
def test_formats_of_a_printed_table(made, table_format, start):
    folder, _ = made
    result = CliRunner().invoke(
        main, ["reproduce", "table-1", "--experiment", str(folder.parent / "small.toml"),
               "--repeats", "2", "-o", str(folder), "--format", table_format],
    )  # fmt: skip
    assert result.stdout.startswith(start)
    assert "Open" not in result.stdout
    assert "Open" in result.stderr
    if table_format == "csv":
        assert len(pd.read_csv(io.StringIO(result.stdout))) == 9


@pytest.fixture
def paper_like(tmp_path):
    """Small files with the names of the paper's networks and domains."""
    for name, network in [("imagenet-c", "resnet-50"), ("rxrx1", "resnet-50")]:
        data = small_domains(n_rows=40)
        if name == "imagenet-c":
            names = ["clean", *(f"fog-{k}" for k in range(1, 6))]
        else:
            names = ["HEPG2-08", "HUVEC-17", "RPE-08", "U2OS-04", "HUVEC-18", "RPE-09"]
        domains = np.array(names)[np.unique(data.domains, return_inverse=True)[1]]
        (tmp_path / name).mkdir()
        dc.write(replace(data, domains=domains), tmp_path / name / network)
    return tmp_path


def test_tables_show_the_papers_cells_beside_ours_and_mark_doubtful_ones(paper_like):
    result = CliRunner().invoke(
        main, ["reproduce", "table-1", "table-3", "--experiment", "imagenet-c", "--experiment",
               "rxrx1", "--data", str(paper_like), "-o", str(paper_like / "out"), "--repeats", "1"],
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    text = (paper_like / "out/table-1.txt").read_text()
    assert "ImageNet-C, ResNet-50: severities 2, 3, 4 unseen" in text
    assert re.search(r"^InD, paper +7.36 ± 0.28 +5.80 ± 0.10 +3.84 ± 0.05$", text, re.M)
    assert re.search(r"^InD, paper +26.22 ± 0.38 \[1\] +9.83 ± 0.57 +2.85 ± 0.17$", text, re.M)
    assert re.search(r"^\[1\] The paper's cell is doubtful: .*repeats", text, re.M)
    # Its standard errors are of something else. Table 3 has none.
    assert re.search(r"^The paper's ± cannot be compared with ours", text, re.M)
    assert "The paper's ±" not in (paper_like / "out/table-3.txt").read_text()
    numbers = pd.read_csv(paper_like / "out/table-1.csv")
    cell = numbers.query("data == 'RxRx1' and kind == 'OOD' and method == 'MD-TS'").iloc[0]
    assert (cell["paper"], cell["paper_standard_error"]) == (5.25, 0.11)
    assert numbers.query("method == 'oracle'")["paper"].isna().all()
    heads = (paper_like / "out/table-3.txt").read_text()
    assert re.search(r"^OOD, paper +5.25 +5.26 +5.29 +4.99 +5.44$", heads, re.M)
    assert "EfficientNet-b1 is left out" in result.stderr


def test_paper_cells_are_complete_and_consistent():
    cells = dc.experiments.paper_cells()
    assert cells.groupby("table").size().to_dict() == {1: 60, 2: 36, 3: 30, 4: 60, 5: 60, 6: 24}
    keys = ["table", "dataset", "architecture", "kind", "method", "head"]
    assert not cells.duplicated(keys).any()
    # OLS of table 3 is MD-TS of table 1; both are sorted as printed.
    ols = cells.query("table == 3 and head == 'ols'")["value"].tolist()
    main_table = cells.query("table == 1 and dataset == 'RxRx1' and method == 'MD-TS'")
    assert ols == main_table["value"].tolist()
    # |mean confidence - accuracy| <= ECE wherever no slip is marked, within rounding.
    wide = cells[cells["slip"] == ""].pivot_table(
        index=["dataset", "architecture", "kind", "method"], columns="table", values="value"
    )
    both = wide[[1, 2]].dropna()
    assert (both[2] <= both[1] + 0.025).all()
    assert cells["slip"].ne("").sum() == 17


def test_the_list_of_targets_and_errors_about_targets(tmp_path):
    runner = CliRunner()
    listed = runner.invoke(main, ["reproduce", "--list"])
    assert [line.split()[0] for line in listed.stdout.splitlines()[:-1]] == [*TARGETS, "all"]
    assert json.loads(runner.invoke(main, ["reproduce", "--list", "--json"]).stdout)["targets"]
    assert runner.invoke(main, ["reproduce"]).exit_code == 2
    out = ["-o", str(tmp_path / "out")]
    wrong = runner.invoke(main, ["reproduce", "table-9", *out])
    assert wrong.exit_code == 1
    assert "there is no target 'table-9'; choose from summary" in wrong.stderr
    lacking = runner.invoke(main, ["reproduce", "table-6", "--experiment", "gldv2", *out])
    assert "table-6 needs the partition unseen-severity-5" in lacking.stderr
    absent = runner.invoke(main, ["reproduce", "table-1", "--experiment", "gldv2", *out])
    assert "the data of 'GLDv2' do not exist" in absent.stderr


def test_data_without_features_need_md_ts_on_logits(tmp_path):
    dc.write(replace(small_domains(), features=None), tmp_path / "mine.npz")
    text = 'name = "mine"\ndata = {net = "mine.npz"}\n[methods]\nTS = "ts"\nMD-TS = "%s"'
    (tmp_path / "mine.toml").write_text(text % "md-ts")
    arguments = ["--experiment", str(tmp_path / "mine.toml"), "-o", str(tmp_path / "out")]
    result = CliRunner().invoke(main, ["reproduce", "table-1", *arguments])
    assert result.exit_code == 1
    assert "'net' have no features" in result.stderr
    assert 'write MD-TS = "md-ts:features=logits" in [methods]' in result.stderr
    (tmp_path / "mine.toml").write_text(text % "md-ts:features=logits")
    result = CliRunner().invoke(main, ["reproduce", "all", *arguments])
    assert result.exit_code == 0, result.output
    heads = pd.read_csv(tmp_path / "out/table-3.csv").set_index("method")
    assert heads.loc["OLS", "value"] != heads.loc["KNN", "value"]


def test_a_folder_with_other_files_is_an_error(tmp_path):
    (tmp_path / "thesis.tex").touch()
    result = CliRunner().invoke(main, ["reproduce", "table-1", "-o", str(tmp_path)])
    assert "holds other files" in result.stderr
    result = CliRunner().invoke(main, ["demo", "-o", str(tmp_path / "thesis.tex")])
    assert "is not a folder" in result.stderr


@pytest.mark.parametrize("kept", ["cells", "made"])
def test_a_folder_with_cells_or_made_of_an_earlier_run_is_accepted(kept, tmp_path):
    (tmp_path / kept).mkdir()
    result = CliRunner().invoke(
        main, ["reproduce", "table-1", "-o", str(tmp_path), "--experiment", "rxrx1"]
    )
    assert "holds other files" not in result.stderr
    assert result.exit_code == 1  # there are no data


def _results(tmp_path, ece):
    """Results whose ECE are made up: one list for each method, OOD domains in order."""
    dc.write(small_domains(), tmp_path / "mine.npz")
    (tmp_path / "mine.toml").write_text(
        'name = "mine"\ndata = {net = "mine.npz"}\nmethods = {MSP = "msp", TS = "ts", '
        'MD-TS = "md-ts"}\npartitions = [{name = "p", title = "new ones", ood = ["*-[345]"]}]'
    )
    results = run_experiment(
        dc.experiments.read_experiment(tmp_path / "mine.toml"), tmp_path / "out"
    )
    table = results.table
    for method, values in ece.items():
        chosen = (table["method"] == method) & (table["kind"] == "OOD")
        table.loc[chosen, "ece"] = values
    return results


@pytest.mark.parametrize(
    ("ece", "verdict"),
    [
        (
            [0.30, 0.31, 0.32],
            "MD-TS is worse than TS: ECE 31.00% against 10.00% (difference +21.00 points",
        ),
        (
            [0.01, 0.011, 0.012],
            "MD-TS is better than TS: ECE 1.10% against 10.00% (difference -8.90 points",
        ),
        ([0.09, 0.09, 0.9], "MD-TS does not differ clearly from TS: ECE 36.00% against 10.00%"),
        ([0.05, 0.12, 0.12], "does not differ clearly from TS: ECE 9.67% against 10.00%"),
    ],
)
def test_verdicts_name_the_better_method(tmp_path, ece, verdict):
    results = _results(tmp_path, {"TS": [0.1, 0.1, 0.1], "MD-TS": ece, "MSP": [0.2, 0.2, 0.2]})
    (sentence,) = verdicts(results)
    assert sentence.startswith("mine, net, new ones (OOD): MD-TS ")
    assert verdict in sentence
    to_ts = sentence.partition("; ")[0]
    assert re.search(r", (with|but) excess [-\d.]+% against .* and NLL [\d.]+ against ", to_ts)


def test_verdicts_without_md_ts_compare_the_last_method_with_the_others(tmp_path):
    dc.write(small_domains(), tmp_path / "mine.npz")
    text = 'name = "mine"\ndata = {net = "mine.npz"}\nmethods = {%s}'
    found = []
    for methods in ('a = "msp", o = "oracle"', 'a = "msp", t = "domain-ts", b = "ts"'):
        (tmp_path / "mine.toml").write_text(text % methods)
        results = run_experiment(
            dc.experiments.read_experiment(tmp_path / "mine.toml"), tmp_path / "out"
        )
        found.append(verdicts(results))
    assert found[0] == []
    assert re.match(r"mine, net, all domains seen \(InD\): b \w+ .*a: ECE", found[1][0])


def test_verdicts_name_the_method_with_the_lowest_mean_if_it_is_another(tmp_path):
    dc.write(small_domains(), tmp_path / "mine.npz")
    (tmp_path / "mine.toml").write_text(
        'name = "mine"\ndata = {net = "mine.npz"}\nmethods = {TS = "ts", MD-TS = "md-ts", '
        'mine = "isotonic"}'
    )
    results = run_experiment(
        dc.experiments.read_experiment(tmp_path / "mine.toml"), tmp_path / "out"
    )
    results.table.loc[results.table["method"] == "mine", "ece"] = 0.01
    assert verdicts(results)[0].endswith("; the lowest mean is that of mine (1.00%).")


@pytest.mark.parametrize(
    ("ece", "best"),
    [
        # A clear winner: it is lower by about the same in every domain.
        ({"MSP": [0.30, 0.31, 0.33], "TS": [0.1, 0.11, 0.12], "MD-TS": [0.2, 0.22, 0.21]}, 1),
        # The lowest mean, but higher in one domain.
        ({"MSP": [0.30, 0.31, 0.33], "TS": [0.1, 0.11, 0.12], "MD-TS": [0.05, 0.05, 0.2]}, None),
        # Clearly lower than one method, not than the other.
        ({"MSP": [0.30, 0.31, 0.33], "TS": [0.1, 0.2, 0.3], "MD-TS": [0.15, 0.12, 0.25]}, None),
        # The same numbers.
        ({"MSP": [0.30, 0.31, 0.33], "TS": [0.1, 0.2, 0.3], "MD-TS": [0.1, 0.2, 0.3]}, None),
    ],
)
def test_the_best_number_of_a_line_is_clearly_lower_than_all_others(tmp_path, ece, best):
    results = _results(tmp_path, ece)
    table = ece_table([results], (MSP, TS, MD_TS), "t", None)
    assert table.printed.blocks[0].lines[1].best == best
    # The interval is that of the sentences.
    means = {method: np.mean(values) for method, values in ece.items()}
    lowest = min(means, key=means.get)
    rows = results.table[results.table["kind"] == "OOD"]
    found = [dc.compare_methods(rows, lowest, other) for other in ece if other != lowest]
    assert all(one.is_clear for one in found) == (best is not None)


def test_a_line_with_one_method_or_one_domain_has_no_best_number(tmp_path):
    results = _results(tmp_path, {"TS": [0.1, 0.11, 0.12], "MD-TS": [0.2, 0.22, 0.21]})
    table = ece_table([results.only(_trials_of(results, "TS"))], (TS,), "t", None)
    assert [line.best for line in table.printed.blocks[0].lines] == [None, None]
    one = results.table.query("domain == 'domain-3' or kind == 'InD'")
    results.__dict__["table"] = one  # one OOD domain
    table = ece_table([results], (TS, MD_TS), "t", None)
    assert table.printed.blocks[0].lines[1].name == "OOD (1)"
    assert table.printed.blocks[0].lines[1].best is None


def _trials_of(results, method):
    return [trial for _, trial in results.trial_results if trial.method.name == method]


def test_repeats_are_averaged_before_domains_are_compared(tmp_path):
    """Two methods that take turns are equal in every domain, however many repeats there are."""
    dc.write(small_domains(), tmp_path / "mine.npz")
    (tmp_path / "mine.toml").write_text(
        'name = "mine"\nrepeats = 4\ndata = {net = "mine.npz"}\n'
        'methods = {TS = "ts", MD-TS = "md-ts"}\npartitions = [{name = "p", ood = ["*-[345]"]}]'
    )
    results = run_experiment(
        dc.experiments.read_experiment(tmp_path / "mine.toml"), tmp_path / "out"
    )
    own = results.table["method"] == "MD-TS"
    # In one domain of three MD-TS is worse, and repeats hardly differ.
    worse = results.table["domain"] == "domain-3"
    results.table["ece"] = 0.2 - 0.05 * own + 0.06 * (own & worse) + 1e-3 * results.table["repeat"]
    table = ece_table([results], (TS, MD_TS), "t", None)
    assert table.printed.blocks[0].lines[1].best is None
    results.table["ece"] = 0.2 - 0.05 * own + 0.01 * (own & worse)
    table = ece_table([results], (TS, MD_TS), "t", None)
    assert table.printed.blocks[0].lines[1].best == 1


@pytest.mark.parametrize(("md_ts", "best"), [([0.1, 0.11, 0.1], 1), ([0.1, 0.1, 0.4], None)])
def test_the_best_pooled_number_is_decided_by_the_repeats(tmp_path, md_ts, best):
    dc.write(small_domains(), tmp_path / "mine.npz")
    (tmp_path / "mine.toml").write_text(
        'name = "mine"\nrepeats = 3\ndata = {net = "mine.npz"}\n'
        'methods = {TS = "ts", MD-TS = "md-ts"}'
    )
    results = run_experiment(
        dc.experiments.read_experiment(tmp_path / "mine.toml"), tmp_path / "out"
    )
    pooled = results.pooled
    pooled["ece"] = 0.3
    pooled.loc[pooled["method"] == "MD-TS", "ece"] = md_ts
    table = pooled_table([results], (TS, MD_TS), "t", None)
    assert [line.best for line in table.printed.blocks[0].lines] == [best]
    assert "paired over repeats" in table.printed.best


def test_text_tables_escape_special_characters():
    line = Line("a_b", ("1.00 ± 0.10", "50%"), best=0)
    table = TextTable(
        "T_k & co", "domains", ("x|y", "z"), (Block("100% {new}", (line,)),), "low", ("#1",)
    )
    assert r"\textbf{1.00 $\pm$ 0.10} & 50\% \\" in table.latex()
    assert r"T\_k \& co" in table.latex()
    assert r"\multicolumn{3}{l}{100\% \{new\}} \\" in table.latex()
    assert r"x\|y" in table.markdown()
    assert "| a_b | **1.00 ± 0.10** | 50% |" in table.markdown()
    assert "1.00 ± 0.10*" in table.text()
    assert "*: low." in table.text()
    assert "Bold: low." in table.markdown()
    assert "Bold: low. \\#1}" in table.latex()


def test_the_demo_prints_a_table_and_verdicts_and_is_reproducible(tmp_path, monkeypatch):
    pytest.importorskip("imagecorruptions", reason="needs the extra corruptions")
    small = cache(partial(dc.vision.load_digits_c, n_images=20))

    def load(random_state):
        return small(random_state)

    monkeypatch.setitem(data_sources.SHIPPED_SOURCES, "digits-c", load)
    arguments = ["demo", "--repeats", "1", "--binning"]
    first = CliRunner().invoke(main, [*arguments, "-o", str(tmp_path / "a")])
    assert first.exit_code == 0, first.output
    lines = first.stdout.splitlines()
    for title in ("severities 2, 3, 4 unseen", "severity 5 unseen", "noise and blur unseen"):
        assert f"Digits-C, MLP: {title}" in lines
        assert any(line.startswith(f"Digits-C, MLP, {title} (OOD): MD-TS ") for line in lines)
    assert "MSP" in lines[2]
    assert "oracle" in lines[2]
    assert "BBQ" in lines[2]
    for name in ("domains", "accuracy", "temperatures"):
        assert (tmp_path / f"a/{name}.png").exists()
    page = (tmp_path / "a/report.html").read_text()
    assert "--repeats 1 --binning" in page
    assert f"Open {tmp_path}/a/report.html in a browser: Confidence is off by" in lines[-1]
    monkeypatch.setattr(matplotlib.figure.Figure, "savefig", lambda self, file, **_: None)
    second = CliRunner().invoke(main, [*arguments, "-o", str(tmp_path / "b")])
    assert (tmp_path / "a/results.csv").read_bytes() == (tmp_path / "b/results.csv").read_bytes()
    assert second.stdout.splitlines()[:-3] == lines[:-3]


def test_the_demo_is_digits_c_with_three_partitions():
    experiment = demo_experiment()
    assert [p.name for p in experiment.partitions] == [
        "unseen-severities", "unseen-severity-5", "unseen-types",
    ]  # fmt: skip
    assert (experiment.repeats, experiment.random_state, experiment.n_bins) == (5, 0, 20)
    assert experiment.methods == DIGITS.methods
    more = demo_experiment(heads=True, binning=True, random_state=7)
    assert len(more.methods) == 5 + 4 + 3
    assert more.random_state == 7


@pytest.fixture
def mine(tmp_path):
    """A small experiment with an OOD domain."""
    dc.write(small_domains(), tmp_path / "mine.npz")
    (tmp_path / "mine.toml").write_text(
        'name = "mine"\ndata = {net = "mine.npz"}\npartitions = [{name = "p", ood = ["*-5"]}]'
    )
    return tmp_path / "mine.toml"


def test_the_same_figure_gives_the_same_files(mine, tmp_path):
    experiment = dc.experiments.read_experiment(mine)
    for out in ("a", "b"):
        reproduce(["figure-3", "temperatures"], [experiment], tmp_path / out)
    for name in ("figure-3.png", "figure-3.svg", "temperatures.svg"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_without_matplotlib_figures_are_left_out(mine, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    arguments = ["--experiment", str(mine), "-o", str(tmp_path / "c")]
    result = CliRunner().invoke(main, ["reproduce", "table-1", "figure-3", *arguments])
    assert result.exit_code == 0, result.output
    assert "figures are left out, because matplotlib is not installed" in result.stderr
    result = CliRunner().invoke(main, ["reproduce", "all", *arguments])
    assert result.exit_code == 0, result.output
    assert not list((tmp_path / "c").glob("*.png"))
    assert (tmp_path / "c/table-5.md").exists()
    result = CliRunner().invoke(main, ["reproduce", "figure-3", *arguments])
    assert result.exit_code == 1
