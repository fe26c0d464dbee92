"""Files, Markdown, folds and gates of ``domaincal evaluate``."""

import json
import sys

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import domaincal as dc
from domaincal.cli import main
from domaincal.cli.options import claimed
from support import small_domains

DATA = small_domains(n_rows=60)
METHODS = {"ts": dc.TemperatureScaling(), "md-ts": dc.MultiDomainTemperatureScaling()}
OPTIONS = ["--methods", "ts,md-ts", "--ood", "domain-[24]"]


def run(*arguments, code=0):
    result = CliRunner().invoke(main, [str(a) for a in arguments])
    assert result.exit_code == code, (result.output, result.exception)
    return result


@pytest.fixture
def scores(tmp_path):
    dc.write(DATA, tmp_path / "scores.npz")
    return tmp_path / "scores.npz"


@pytest.fixture
def earlier(scores):
    path = scores.parent / "earlier.json"
    path.write_text(run("evaluate", scores, *OPTIONS, "--json").stdout)
    return path


class TestTable:
    @pytest.mark.parametrize("suffix", ["csv", "parquet", "json"])
    def test_the_file_has_the_table_of_the_library(self, scores, tmp_path, suffix):
        if suffix == "parquet":
            pytest.importorskip("pyarrow")
        path = tmp_path / f"table.{suffix}"
        out = run("evaluate", scores, *OPTIONS, "-o", path).stdout
        assert f"Table written to {path}." in out
        read = {"csv": pd.read_csv, "parquet": pd.read_parquet, "json": pd.read_json}[suffix]
        expected = dc.evaluate_split(METHODS, DATA, ood="domain-[24]")
        pd.testing.assert_frame_equal(read(path), expected, check_dtype=False)

    def test_a_score_that_is_not_finite_is_null_in_json(self, tmp_path):
        from domaincal.evaluation.result_files import write_results

        table = pd.DataFrame({"domain": np.array([7]), "nll": [np.inf], "ece": [np.nan]})
        write_results(table, tmp_path / "t.json")
        rows = json.loads((tmp_path / "t.json").read_text())
        assert rows == [{"domain": 7, "nll": None, "ece": None}]

    @pytest.mark.parametrize("option", ["-o", "--plot"])
    def test_a_file_is_replaced_only_with_force(self, scores, tmp_path, option):
        pytest.importorskip("matplotlib")
        path = tmp_path / ("table.csv" if option == "-o" else "figure.svg")
        path.write_text("mine")
        options = ["evaluate", scores, "--methods", "ts", option, path]
        assert f"{path} exists; pass --force" in run(*options, code=1).stderr
        assert path.read_text() == "mine"
        run(*options, "--force")
        assert path.read_text() != "mine"
        path.unlink()
        with claimed(path, force=False):
            assert "another command is writing" in run(*options, code=1).stderr
        assert not list(tmp_path.glob(".*"))

    @pytest.mark.parametrize(
        ("option", "name", "message"),
        [
            ("-o", "t.txt", "t.txt has the suffix '.txt'; results are written to .csv, .parquet"),
            ("--plot", "f.jpg", "f.jpg has the suffix '.jpg'; figures are written to .png, .svg"),
            ("-o", "no/t.csv", "there is no folder"),
            ("--plot", "no/f.png", "there is no folder"),
        ],
    )
    def test_a_bad_file_is_refused_before_the_data_are_read(
        self, scores, tmp_path, option, name, message
    ):
        pytest.importorskip("matplotlib")
        scores.write_bytes(b"never read")
        assert message in run("evaluate", scores, option, tmp_path / name, code=1).stderr

    def test_missing_packages_are_reported_before_the_data_are_read(
        self, scores, tmp_path, monkeypatch
    ):
        monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
        monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
        scores.write_bytes(b"never read")
        error = run("evaluate", scores, "--plot", tmp_path / "f.png", code=1).stderr
        assert "pip install 'domaincal[plots]'" in error
        error = run("evaluate", scores, "-o", tmp_path / "t.parquet", code=1).stderr
        assert "pip install 'domaincal[parquet]'" in error

    def test_a_failed_gate_has_written_its_files(self, scores, tmp_path):
        gate = ["--methods", "ts", "--fail-above", "-1"]
        run("evaluate", scores, *gate, "-o", tmp_path / "t.csv", code=3)
        assert len(pd.read_csv(tmp_path / "t.csv")) == 6


@pytest.mark.parametrize(
    ("suffix", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")]
)
def test_the_figure_is_the_same_for_the_same_scores(scores, tmp_path, suffix, start):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    content = set()
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        path = tmp_path / folder / f"figure.{suffix}"
        out = run("evaluate", scores, "--methods", "ts", "--plot", path).stdout
        assert f"Figure written to {path}." in out
        content.add(path.read_bytes())
    (found,) = content
    assert found.startswith(start)
    assert b"Date" not in found
    assert pyplot.get_fignums() == []


class TestFolds:
    def test_folds_are_those_of_the_library(self, scores):
        options = ["--leave-one-domain-out", "--folds", "3", "--seed", "5", "--methods", "ts,md-ts"]
        found = json.loads(run("evaluate", scores, *options, "--json").stdout)
        expected = dc.evaluate_leave_one_domain_out(METHODS, DATA, n_folds=3, random_state=5)
        pd.testing.assert_frame_equal(pd.DataFrame(found["table"]), expected)
        assert found["protocol"]["folds"] == 3
        out = run("evaluate", scores, *options).stdout
        assert "The domains were dealt at random into 3 folds; each fold was scored" in out

    @pytest.mark.parametrize(
        ("options", "code", "message"),
        [
            (["--folds", "3"], 2, "add --leave-one-domain-out"),
            (["--folds", "1", "--leave-one-domain-out"], 2, "1 is not in the range"),
            (["--folds", "9", "--leave-one-domain-out"], 1, "9 folds need at least 9 domains"),
            (["--folds", "2", "--model", "m.safetensors"], 2, "--model scores fitted calibrators"),
        ],
    )
    def test_wrong_folds_are_refused(self, scores, options, code, message):
        assert message in run("evaluate", scores, *options, code=code).stderr


class TestMarkdown:
    def test_the_summary_has_protocol_means_worst_domains_and_comparison(self, scores):
        result = run("evaluate", scores, *OPTIONS, "--markdown", "--fail-above", "100%")
        out = result.stdout
        assert "Fitted on a random half of every InD domain; scored on" in out
        table = dc.evaluate_split(METHODS, DATA, ood="domain-[24]")
        for row in dc.summary_table(table).to_dict("records"):
            assert f"| {row['method']} | {100 * row['ece']:.2f} ± " in out
        assert "OOD domains with the largest ECE of md-ts" in out
        ood = table[table["kind"] == "OOD"]
        worst = ood[ood["method"] == "md-ts"].nlargest(1, "ece")["domain"].item()
        ece = ood[ood["domain"] == worst].set_index("method")["ece"]
        assert f" | {100 * ece['ts']:.2f} | {100 * ece['md-ts']:.2f} |" in out
        assert "**Gate passed**: the mean excess of md-ts over 2 OOD domains is" in out
        found = dc.compare_methods(ood, "md-ts", "ts").sentence()
        assert f"- OOD: {found}" in out

    def test_a_failed_gate_is_marked(self, scores, earlier):
        gates = ["--fail-above", "-1", "--baseline", earlier, "--fail-worse", "-1"]
        out = run("evaluate", scores, *OPTIONS, "--markdown", *gates, code=3).stdout
        assert "**Gate FAILED**: the mean excess" in out
        assert "**Gate on change FAILED**: the mean excess" in out

    def test_names_are_shown_as_they_are(self, tmp_path):
        """A name cannot end its cell, start a style or open a tag."""
        names = np.array(["a|b", "*bold*_x_", "<img src=x>"])[np.arange(360) % 3]
        dc.write(
            dc.CalibrationData(DATA.logits, labels=DATA.labels, domains=names),
            tmp_path / "scores.npz",
        )
        out = run("evaluate", tmp_path / "scores.npz", "--methods", "ts", "--markdown").stdout
        assert r"| a\|b | 60 |" in out
        assert r"| \*bold\*\_x\_ | 60 |" in out
        assert r"| \<img src=x\> | 60 |" in out

    def test_one_form_of_the_output_is_chosen(self, scores):
        error = run("evaluate", scores, "--markdown", "--json", code=2).stderr
        assert "--markdown and --json are two forms of the output; choose one" in error


class TestBaseline:
    def test_the_change_is_that_of_the_library(self, scores, earlier):
        new = small_domains(n_rows=40)
        dc.write(new, scores)
        more = ["--worst", "--fail-on", "ece", "--baseline", earlier]
        found = json.loads(run("evaluate", scores, *OPTIONS, *more, "--json").stdout)["change"]
        before = dc.evaluate_split(METHODS, DATA, ood="domain-[24]")
        now = dc.evaluate_split(METHODS, new, ood="domain-[24]")
        expected = dc.check_change(now, before, score="ece", worst=True)
        assert (found["before"], found["value"]) == (expected.before, expected.value)
        assert (found["difference"], found["holds"]) == (expected.difference, True)
        out = run("evaluate", scores, *OPTIONS, *more).stdout
        assert expected.sentence() in out
        limit = f"{expected.difference - 1e-4:.6f}"
        out = run("evaluate", scores, *OPTIONS, *more, "--fail-worse", limit, code=3).stdout
        assert "Gate on change FAILED: the worst ece of md-ts over 2 OOD domains" in out
        run("evaluate", scores, *OPTIONS, *more, "--fail-worse", "1")

    def test_nothing_has_changed_against_the_same_evaluation(self, scores, earlier):
        gate = ["--baseline", earlier, "--fail-worse", "0"]
        result = run("evaluate", scores, *OPTIONS, *gate)
        assert "Gate on change holds" in result.stdout
        assert "(difference +0.00 points, the limit +0.00)" in result.stdout
        assert result.stderr == ""

    def test_domains_of_only_one_evaluation_are_named(self, scores, earlier):
        rows = DATA.select(DATA.domains != "domain-2")
        other = np.where(rows.domains == "domain-0", "moon", rows.domains)
        data = dc.CalibrationData(
            rows.logits, labels=rows.labels, features=rows.features, domains=other
        )
        dc.write(data, scores)
        result = run("evaluate", scores, *OPTIONS, "--baseline", earlier)
        assert "only in the baseline: 'domain-2'" in result.stderr
        assert "over 1 OOD domain is" in result.stdout

    @pytest.mark.parametrize(
        ("options", "code", "message"),
        [
            (["--fail-worse", "1%"], 2, "add --baseline FILE"),
            (["--baseline", "earlier.json", "--fail-worse", "5"], 2, "is not a fraction"),
            (["--baseline", "no.json"], 1, "there is no file no.json."),
            (["--baseline", "."], 1, "is a folder"),
            (["--baseline", "scores.npz"], 1, "must be what evaluate --json printed"),
            (["--baseline", "earlier.json", "--bins", "9"], 1,
             "was made with --bins 15, this evaluation with --bins 9"),
            (["--baseline", "earlier.json", "--seed", "9"], 1, "with --seed 0, this"),
            (["--baseline", "earlier.json", "--methods", "msp"], 1,
             "has no method 'msp', only 'ts', 'md-ts'"),
        ],
    )  # fmt: skip
    def test_a_baseline_that_cannot_be_compared_is_refused(
        self, scores, earlier, monkeypatch, options, code, message
    ):
        monkeypatch.chdir(scores.parent)
        result = run("evaluate", "scores.npz", *OPTIONS, *options, code=code)
        assert message in result.stderr
        assert result.stdout == ""

    def test_another_protocol_is_refused(self, scores, earlier):
        more = ["--methods", "ts,md-ts", "--baseline", earlier]
        error = run("evaluate", scores, *more, code=1).stderr
        assert "was made with --ood domain-[24], this evaluation without --ood" in error
        error = run("evaluate", scores, *more, "--leave-one-domain-out", code=1).stderr
        assert "has the protocol 'halves', this evaluation 'leave one domain out'" in error

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda d: d.update(document="domaincal fit"), "is not a document of evaluate"),
            (lambda d: d.update(version=2), "has version 2 of the document, newer than 1"),
            (lambda d: d.update(version="x"), "has version 'x'"),
            (lambda d: d.pop("protocol"), "has no data, no protocol or no table"),
            (lambda d: d.update(table=[]), "has no data, no protocol or no table"),
            (lambda d: d["data"].update(n_classes=7), "scores of 7 classes, this evaluation from"),
            (lambda d: d["table"].append(3), "row 12 of the table"),
            (lambda d: d["table"][3].pop("ece"), "row 3 of the table"),
            (lambda d: d["table"][3].update(gap="high"), "row 3 of the table"),
            (lambda d: d["table"][3].update(gap=7.0), "row 3 of the table"),
            (lambda d: d["table"].append(d["table"][-1]), "baseline has the domain 'domain-4' twi"),
        ],
    )
    def test_a_damaged_or_foreign_document_is_one_error(self, scores, earlier, change, message):
        document = json.loads(earlier.read_text())
        change(document)
        earlier.write_text(json.dumps(document))
        error = run("evaluate", scores, *OPTIONS, "--baseline", earlier, code=1).stderr
        assert message in error
        assert str(earlier) in error

    @pytest.mark.parametrize(
        ("content", "message"),
        [("", "is not JSON"), ("method,ece\nts,0.1\n", "is not JSON"),
         ("[]", "is a table (from -o)"),
         ("3", "is not a document of evaluate"), ("[" * 100_000, "is not JSON")],
    )  # fmt: skip
    def test_other_files_are_one_error(self, scores, earlier, content, message):
        earlier.write_text(content)
        error = run("evaluate", scores, *OPTIONS, "--baseline", earlier, code=1).stderr
        assert message in error
        assert str(earlier) in error


def test_messages_name_options_and_files(scores, tmp_path):
    """Not the arguments of Python functions."""
    error = run("evaluate", scores, "--ood", "*", code=1).stderr
    assert error.startswith("Error: --ood matches all of the 6 domains")
    one = dc.CalibrationData(DATA.logits, labels=DATA.labels, groups=np.zeros(360, int))
    dc.write(one, tmp_path / "one.npz")
    error = run("evaluate", tmp_path / "one.npz", "--methods", "ts", code=1).stderr
    assert "all rows are in one group" in error
    assert "split by row instead" in error
    bare = dc.CalibrationData(DATA.logits, labels=DATA.labels, domains=DATA.domains)
    dc.write(bare, tmp_path / "bare.npz")
    for method in ("md-ts", "batch"):
        model = tmp_path / f"{method}.safetensors"
        run("fit", scores, "-o", model, "--method", method)
        error = run("evaluate", tmp_path / "bare.npz", "--model", model, code=1).stderr
        assert f"bare.npz has no features, which {model} needs" in error
        assert "features=" not in error
    error = run("evaluate", scores, "--methods", "ts,histogram:n_bins=0", code=2).stderr
    assert "Error: histogram:n_bins=0: n_bins must be" in error
