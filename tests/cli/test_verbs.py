"""The verbs inspect, convert, fit, apply and evaluate."""

import json
import re
import sys

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import domaincal as dc
from domaincal.cli import main
from support import small_domains

DATA = small_domains(n_rows=60)


def run(*arguments, code=0):
    result = CliRunner().invoke(main, [str(a) for a in arguments])
    assert result.exit_code == code, (result.output, result.exception)
    return result


def document(*arguments, code=0):
    """The JSON of a verb: one document, nothing else on stdout."""
    return json.loads(run(*arguments, "--json", code=code).stdout)


@pytest.fixture
def scores(tmp_path):
    dc.write(DATA, tmp_path / "scores.npz")
    return tmp_path / "scores.npz"


@pytest.fixture
def model(scores):
    run("fit", scores, "-o", scores.parent / "model.safetensors", "--method", "md-ts")
    return scores.parent / "model.safetensors"


class TestInspect:
    def test_a_data_file_is_described_by_domain(self, scores):
        out = run("inspect", scores).stdout
        assert "360 rows, 5 classes, 4 features, 6 domains" in out
        assert out.count("domain-") == 6
        assert "No problems found." in out
        found = document("inspect", scores)
        assert (found["document"], found["version"]) == ("domaincal inspection", 1)
        assert [row["n"] for row in found["domains"]] == [60] * 6
        assert found["fingerprint"] == DATA.fingerprint()

    def test_a_calibrator_is_described(self, model):
        assert "pooled temperature" in run("inspect", model).stdout
        found = document("inspect", model)
        assert found["class"] == "MultiDomainTemperatureScaling"
        assert found["fitted_on"] == DATA.fingerprint()

    def test_nan_is_null_in_json(self, tmp_path):
        np.savez(tmp_path / "scores.npz", logits=DATA.logits)
        found = document("inspect", tmp_path / "scores.npz")
        assert found["domains"][0]["accuracy"] is None
        assert any("no labels" in text for text in found["findings"])

    def test_markup_and_control_characters_in_names_are_escaped(self, tmp_path):
        """Without escapes, rich treats [bold] as a style and fails on [/x]."""
        names = np.array(["[bold]a", "[/x]", "\x1b[31mtab\there\n"])[np.arange(360) % 3]
        data = dc.CalibrationData(DATA.logits, labels=DATA.labels, domains=names)
        dc.write(data, tmp_path / "scores.npz")
        for verb in ("inspect", "evaluate"):
            out = run(verb, tmp_path / "scores.npz").stdout
            assert "[bold]a" in out
            assert "[/x]" in out
            assert r"\x1b[31mtab\there\n" in out

    def test_of_many_domains_the_first_or_the_worst_are_printed(self, tmp_path):
        data, _ = dc.make_multi_domain(70, 30, 3, random_state=0)
        dc.write(data, tmp_path / "scores.npz")
        assert "10 more domains" in run("inspect", tmp_path / "scores.npz").stdout
        out = run("evaluate", tmp_path / "scores.npz", "--methods", "msp,ts").stdout
        assert "the worst 20 of 70 domains" in out
        assert out.count("domain-") == 20
        table = dc.evaluate_split({"msp": dc.MaxSoftmax(), "ts": dc.TemperatureScaling()}, data)
        last = table[table["method"] == "ts"].nlargest(20, "ece")["domain"]
        assert all(name in out for name in last)
        found = document("evaluate", tmp_path / "scores.npz", "--methods", "msp,ts")
        assert len(found["table"]) == 140


class TestConvert:
    def test_a_round_trip_through_csv_and_store_changes_nothing(self, scores, tmp_path):
        run("convert", scores, tmp_path / "scores.csv")
        run("convert", tmp_path / "scores.csv", tmp_path / "store")
        run("convert", tmp_path / "store", tmp_path / "again.npz")
        again = dc.read(tmp_path / "again.npz")
        np.testing.assert_array_equal(again.logits, DATA.logits)
        np.testing.assert_array_equal(again.domains, DATA.domains)

    def test_files_of_single_sites_become_one_store(self, tmp_path):
        for k, (_, part) in enumerate(DATA.by_domain()):
            rows = dc.CalibrationData(part.logits, labels=part.labels)
            dc.write(rows, tmp_path / f"{k}.csv")
            name = f"site-{k}"
            out = run(
                "convert", tmp_path / f"{k}.csv", tmp_path / "all", "--set-domain", name, "--append"
            )
            assert f"60 rows, {60 * (k + 1)} in total" in " ".join(out.stdout.split())
        data = dc.read(tmp_path / "all")
        assert data.domain_names.tolist() == [f"site-{k}" for k in range(6)]
        np.testing.assert_allclose(data.logits, DATA.logits)

    def test_append_to_a_file_is_refused(self, scores, tmp_path):
        error = run("convert", scores, tmp_path / "x.npz", "--append", code=1).stderr
        assert "rows can be appended to a store only" in error

    def test_arrays_that_are_not_written_are_named(self, tmp_path):
        np.savez(tmp_path / "s.npz", logits=DATA.logits, epoch=3)
        error = run("convert", tmp_path / "s.npz", tmp_path / "t.npz").stderr
        assert "also holds 'epoch', which" in error

    def test_the_json_document_describes_the_data(self, scores, tmp_path):
        found = document("convert", scores, tmp_path / "x")
        assert found["document"] == "domaincal conversion"
        assert found["data"]["n_rows"] == 360

    def test_an_output_is_replaced_only_with_force(self, scores, tmp_path):
        before = scores.read_bytes()
        dc.write(DATA.select(slice(0, 100)), tmp_path / "other.npz")
        error = run("convert", tmp_path / "other.npz", scores, code=1).stderr
        assert error == f"Error: {scores} exists; pass --force to replace it.\n"
        assert scores.read_bytes() == before
        run("convert", tmp_path / "other.npz", scores, "--force")
        assert len(dc.read(scores)) == 100


class TestFit:
    def test_the_model_is_that_of_the_library(self, scores, model):
        expected = dc.MultiDomainTemperatureScaling().fit(DATA)
        np.testing.assert_array_equal(dc.load(model).coef_, expected.coef_)

    def test_parameters_of_the_method_are_set(self, scores, tmp_path):
        path = tmp_path / "m.safetensors"
        spec = "md-ts:target=log:fit_intercept=true:clip=[0.5,3]"
        found = document("fit", scores, "-o", path, "--method", spec, "--head", "ridge")
        assert found["calibrator"]["parameters"]["target"] == "log"
        fitted = dc.load(path)
        assert (fitted.head, fitted.fit_intercept, fitted.clip) == ("ridge", True, (0.5, 3))
        assert fitted.clip_ == (0.5, 3.0)

    @pytest.mark.parametrize(
        ("arguments", "code", "message"),
        [
            (["--method", "magic"], 2, "no method 'magic'; choose from msp, ts"),
            (["--method", "md-ts:hed=ols"], 2, "no parameter 'hed'; choose from alpha"),
            (["--method", "md-ts:head"], 2, "needs a value for 'head'; write head=VALUE"),
            (["--method", "md-ts:head="], 2, "needs a value for 'head'; write head=VALUE"),
            (["--method", "ts:head=ols"], 2, "ts has no parameter 'head'; it has none"),
            (["--method", "ts", "--head", "ols"], 2, "--head is an option of md-ts"),
            (["--method", "md-ts:head=knn", "--head", "ols"], 2, "--method names a head already"),
            (["--method", "histogram:n_bins=99999999999999999999"], 2, "n_bins must be"),
            (["--head", "forest"], 2, "md-ts:head=forest: head must be one of 'ols', 'ridge'"),
            (["--method", "md-ts:max_rows=-3"], 2, "max_rows must be"),
        ],
    )
    def test_wrong_methods_are_refused(self, scores, tmp_path, arguments, code, message):
        error = run("fit", scores, "-o", tmp_path / "m.safetensors", *arguments, code=code).stderr
        assert message in error
        assert "instance" not in error
        assert [p.name for p in tmp_path.iterdir()] == ["scores.npz"]

    def test_a_bad_output_is_refused(self, scores, tmp_path):
        assert "must end in .safetensors" in run("fit", scores, "-o", "m.pkl", code=1).stderr
        assert "Missing option" in run("fit", scores, code=2).stderr
        error = run("fit", scores, "-o", tmp_path / "no" / "m.safetensors", code=1).stderr
        assert "there is no folder" in error

    def test_a_warning_is_one_line_on_stderr(self, tmp_path):
        few = dc.concatenate([DATA, dc.CalibrationData(
            DATA.logits[:3], labels=DATA.labels[:3], features=DATA.features[:3], domains=["x"] * 3
        )])  # fmt: skip
        dc.write(few, tmp_path / "scores.npz")
        output = tmp_path / "m.safetensors"
        result = run("fit", tmp_path / "scores.npz", "-o", output, "--method", "md-ts")
        said = " ".join(result.stderr.split())
        assert said.startswith("warning: fewer than 10 rows in domain 'x'")
        assert said.count("warning:") == 1
        assert "Warning" not in result.output
        assert "warning:" not in result.stdout

    def test_without_features_the_logits_are_the_features(self, tmp_path):
        plain = dc.CalibrationData(DATA.logits, labels=DATA.labels, domains=DATA.domains)
        dc.write(plain, tmp_path / "s.npz")
        run("fit", tmp_path / "s.npz", "-o", tmp_path / "m.safetensors", "--head", "ridge")
        fitted = dc.load(tmp_path / "m.safetensors")
        assert (fitted.features, fitted.head) == ("logits", "ridge")
        options = ["-o", tmp_path / "n.safetensors", "--method", "md-ts"]
        error = run("fit", tmp_path / "s.npz", *options, code=1).stderr
        assert "s.npz has no features, which md-ts needs" in error
        assert (
            "add an array 'features' or columns 'feature_*', or name them with --features, or use "
            "md-ts:features=logits" in error
        )

    def test_json_holds_the_learned_numbers(self, scores, tmp_path):
        options = ["-o", tmp_path / "m.safetensors", "--method", "md-ts"]
        found = document("fit", scores, *options)["calibrator"]["learned"]
        fitted = dc.load(tmp_path / "m.safetensors")
        assert found["temperature"] == fitted.temperature_
        assert found["domain_temperatures"] == fitted.domain_temperatures_.to_dict()
        assert found["clip"] == list(fitted.clip_)


class TestApply:
    @pytest.mark.parametrize("name", ["p.csv", "p.npz", "p.parquet"])
    def test_probabilities_are_those_of_the_library(self, scores, model, tmp_path, name):
        if name.endswith("parquet"):
            pytest.importorskip("pyarrow")
        out = run("apply", model, scores, "-o", tmp_path / name).stdout
        assert "360 rows: mean confidence" in out
        expected = dc.load(model).predict_proba(DATA)
        found = np.exp(dc.read(tmp_path / name).logits)
        np.testing.assert_allclose(found, expected, rtol=1e-9)

    def test_the_table_has_labels_predictions_and_probabilities(self, scores, model, tmp_path):
        found = document("apply", model, scores, "-o", tmp_path / "p.csv")
        table = pd.read_csv(tmp_path / "p.csv")
        probabilities = [f"prob_{k}" for k in range(5)]
        columns = ["label", "domain", "predicted", "confidence", "temperature", *probabilities]
        assert table.columns.tolist() == columns
        assert found["mean_confidence"] == pytest.approx(table["confidence"].mean())

    def test_data_that_do_not_fit_the_model_are_refused(self, model, tmp_path):
        fewer = dc.CalibrationData(DATA.logits[:, :4], features=DATA.features)
        dc.write(fewer, tmp_path / "fewer.npz")
        error = run("apply", model, tmp_path / "fewer.npz", "-o", tmp_path / "p.csv", code=1).stderr
        assert "has scores of 4 classes, but" in error
        np.savez(tmp_path / "bare.npz", logits=DATA.logits)
        error = run("apply", model, tmp_path / "bare.npz", "-o", tmp_path / "p.csv", code=1).stderr
        assert "bare.npz has no features, which" in error
        assert error.endswith("or name them with --features.\n")
        assert not (tmp_path / "p.csv").exists()

    def test_a_bad_model_or_output_is_refused(self, scores, tmp_path):
        error = run("apply", scores, scores, "-o", tmp_path / "p.csv", code=1).stderr
        assert "scores.npz does not end in .safetensors" in error
        error = run("apply", scores, scores, "-o", tmp_path / "p.txt", code=1).stderr
        assert "predictions are written to" in error


class TestEvaluate:
    def test_numbers_are_those_of_the_library(self, scores):
        options = ["--methods", "msp,ts,md-ts", "--ood", "domain-[24]", "--bins", "20"]
        found = document("evaluate", scores, *options, "--seed", "3")
        assert (found["document"], found["version"]) == ("domaincal evaluation", 1)
        methods = {
            "msp": dc.MaxSoftmax(),
            "ts": dc.TemperatureScaling(),
            "md-ts": dc.MultiDomainTemperatureScaling(),
        }
        expected = dc.evaluate_split(methods, DATA, ood="domain-[24]", n_bins=20, random_state=3)
        pd.testing.assert_frame_equal(pd.DataFrame(found["table"]), expected)
        means = dc.summary_table(expected)
        pd.testing.assert_frame_equal(pd.DataFrame(found["means"]), means)
        last = found["comparisons"][-1]
        assert (last["kind"], last["method"], last["against"]) == ("OOD", "md-ts", "ts")
        ood = expected[expected["kind"] == "OOD"]
        assert last["difference"] == dc.compare_methods(ood, "md-ts", "ts").difference
        assert found["protocol"]["split"] == "row"
        assert found["gate"] is None
        text = run("evaluate", scores, *options).stdout
        assert "OOD domains" in text

    def test_leave_one_domain_out_is_that_of_the_library(self, scores):
        options = ["--leave-one-domain-out", "--methods", "ts,md-ts"]
        found = document("evaluate", scores, *options)
        methods = {"ts": dc.TemperatureScaling(), "md-ts": dc.MultiDomainTemperatureScaling()}
        expected = dc.evaluate_leave_one_domain_out(methods, DATA)
        pd.testing.assert_frame_equal(pd.DataFrame(found["table"]), expected)
        heads = run("evaluate", scores, "--methods", "msp,md-ts:clip=[0.5,3]").stdout
        assert heads.count("md-ts:clip=[0.5,3]") >= 3
        text = " ".join(run("evaluate", scores, *options).stdout.split())
        ece, *others = (
            dc.compare_methods(expected, "md-ts", "ts", score=score)
            for score in ("ece", "excess", "nll")
        )
        assert f"{ece.sentence(*others)}." in text

    def test_groups_are_kept_apart_if_the_data_have_them(self, tmp_path):
        data = dc.CalibrationData(
            DATA.logits, labels=DATA.labels, domains=DATA.domains, groups=np.arange(360) % 60
        )
        dc.write(data, tmp_path / "scores.npz")
        methods = {"msp": dc.MaxSoftmax(), "ts": dc.TemperatureScaling()}
        options = ["evaluate", tmp_path / "scores.npz", "--methods", "msp,ts", "--seed", "5"]
        for more, by in (([], "group"), (["--split", "row"], "row")):
            found = document(*options, *more)
            assert found["protocol"]["split"] == by
            expected = dc.evaluate_split(methods, data, by=by, random_state=5)
            pd.testing.assert_frame_equal(pd.DataFrame(found["table"]), expected)
            found = document(*options, "--leave-one-domain-out", *more)
            expected = dc.evaluate_leave_one_domain_out(methods, data, by=by, random_state=5)
            pd.testing.assert_frame_equal(pd.DataFrame(found["table"]), expected)

    @pytest.mark.parametrize(
        ("limit", "code"), [("1.0", 0), ("100%", 0), ("0", 3), ("-0.5", 3), ("0.01%", 3)]
    )
    def test_the_gate_sets_the_exit_status(self, scores, limit, code):
        options = ["evaluate", scores, "--methods", "msp", "--fail-on", "ece"]
        out = run(*options, "--fail-above", limit, code=code).stdout
        assert f"Gate {'holds' if code == 0 else 'FAILED'}" in out
        found = document(*options, "--fail-above", limit, "--worst", code=code)["gate"]
        assert found["holds"] == (code == 0)
        assert found["worst"]
        assert found["domain"].startswith("domain-")

    @pytest.mark.parametrize("limit", ["5", "120%", "much", "nan", ""])
    def test_limits_that_are_not_fractions_are_refused(self, scores, limit):
        assert "write 0.05 or 5%" in run("evaluate", scores, "--fail-above", limit, code=2).stderr

    def test_features_unlike_those_of_the_fit_are_reported(self, scores, tmp_path):
        """The features of another seed have other directions."""
        run("fit", scores, "--method", "md-ts", "-o", tmp_path / "md-ts.safetensors")
        dc.write(small_domains(3, n_rows=60), tmp_path / "new.npz")
        result = run("evaluate", tmp_path / "new.npz", "--model", tmp_path / "md-ts.safetensors")
        limits = r"warning: md-ts: \d+% of the 360 predicted temperatures are at a limit .*\n"
        assert re.fullmatch(limits, result.stderr)

    def test_a_saved_model_is_scored_on_new_rows(self, scores, tmp_path):
        model = tmp_path / "model.safetensors"
        run("fit", scores, "-o", model, "--method", "ts")
        new = small_domains(3, n_rows=60)
        dc.write(new, tmp_path / "new.npz")
        result = run("evaluate", tmp_path / "new.npz", "--model", model, "--json")
        assert result.stderr == ""
        found = json.loads(result.stdout)
        expected = dc.score_table({"model": dc.load(model)}, new).assign(kind="InD")
        pd.testing.assert_frame_equal(pd.DataFrame(found["table"]), expected)
        again = run("evaluate", scores, "--model", model)
        assert "was fitted on these rows" in again.stderr
        marked = document("evaluate", tmp_path / "new.npz", "--model", model, "--ood", "domain-1")
        kinds = {row["domain"]: row["kind"] for row in marked["table"]}
        assert [name for name, kind in kinds.items() if kind == "OOD"] == ["domain-1"]

    @pytest.mark.parametrize(
        ("arguments", "code", "message"),
        [
            (["--methods", "magic"], 2, "no method 'magic'"),
            (["--methods", ","], 2, "--methods is empty"),
            (["--methods", "ts,ts"], 2, "names a method twice"),
            (["--ood", "night-*"], 1, "ood contains 'night-*', which matches no domain"),
            (["--ood", "*"], 1, "ood matches all of the 6 domains"),
            (["--bins", "0"], 2, "0 is not in the range"),
            (
                ["--split", "group"],
                1,
                "has no groups, which --split group needs; add an array 'groups'",
            ),
            (["--leave-one-domain-out", "--ood", "domain-1"], 2, "leave out --ood"),
            (
                ["--model", "m.safetensors", "--methods", "ts"],
                2,
                "--model scores fitted calibrators",
            ),
            (["--worst"], 2, "add --fail-above"),
            (["--fail-on", "ece"], 2, "add --fail-above"),
            (
                ["--model", "m.safetensors", "--split", "row"],
                2,
                "--model scores fitted calibrators",
            ),
            (["--fail-on", "nll"], 2, "is not one of"),
            (["--model", "no.safetensors"], 1, "there is no file no.safetensors."),
        ],
    )
    def test_wrong_options_are_refused(self, scores, arguments, code, message):
        result = run("evaluate", scores, *arguments, code=code)
        assert message in result.stderr
        assert result.stdout == ""
        assert sum(line.startswith("Error") for line in result.stderr.splitlines()) == 1

    def test_a_csv_of_probabilities_is_evaluated(self, tmp_path):
        p = np.exp(DATA.logits) / np.exp(DATA.logits).sum(axis=1, keepdims=True)
        names = ["ant", "bee", "cat", "dog", "emu"]
        frame = pd.DataFrame(p, columns=[f"prob_{name}" for name in names])
        frame["label"], frame["domain"] = np.array(names)[DATA.labels], DATA.domains
        frame.to_csv(tmp_path / "scores.csv", index=False)
        out = run("evaluate", tmp_path / "scores.csv").stdout
        assert out.count("domain-") == 6
        found = document("evaluate", tmp_path / "scores.csv", "--methods", "msp")
        expected = dc.evaluate_split({"msp": dc.MaxSoftmax()}, DATA)
        np.testing.assert_allclose(
            [row["ece"] for row in found["table"]], expected["ece"], rtol=1e-9
        )

    def test_logits_that_look_like_probabilities_are_reported(self, tmp_path):
        p = np.exp(DATA.logits) / np.exp(DATA.logits).sum(axis=1, keepdims=True)
        domains = DATA.domains.astype(str)
        np.savez(tmp_path / "p.npz", logits=p, labels=DATA.labels, domains=domains)
        options = ["evaluate", tmp_path / "p.npz", "--methods", "msp"]
        # Once, with the option of the command line: the calibrators say nothing more.
        said = " ".join(run(*options).stderr.split())
        assert said.startswith("warning: the logits of ")
        assert said.endswith("if they are probabilities, name them with --probabilities.")
        result = run(*options, "--probabilities", "logits", "--json")
        assert result.stderr.startswith("classes: logits (probabilities)\n")
        assert "warning" not in result.stderr
        np.testing.assert_allclose(
            [row["ece"] for row in json.loads(result.stdout)["table"]],
            dc.evaluate_split({"msp": dc.MaxSoftmax()}, DATA)["ece"], rtol=1e-9,
        )  # fmt: skip

    def test_without_domains_batch_and_md_ts_are_left_out(self, tmp_path):
        domains = DATA.domains.astype(str)
        np.savez(tmp_path / "s.npz", logits=DATA.logits, labels=DATA.labels, Domain=domains)
        result = run("evaluate", tmp_path / "s.npz")
        left_out = "all rows count as one domain, and md-ts and batch are left out"
        assert f"has no domains: {left_out}" in result.stderr
        assert "an array 'domains' or a column 'domain' (ignored: 'Domain')" in result.stderr
        assert result.stdout.startswith("Fitted on a random half of the rows;")
        assert "in the only domain" in result.stdout
        assert "nan" not in result.stdout
        found = document("evaluate", tmp_path / "s.npz")
        assert found["protocol"]["methods"] == ["msp", "ts"]
        assert found["table"][0]["domain"] == "all"

    def test_missing_arrays_are_named(self, tmp_path):
        arrays = {"logits": DATA.logits, "y": DATA.labels}
        np.savez(tmp_path / "s.npz", **arrays)
        for arguments in (["evaluate"], ["fit", "-o", tmp_path / "m.safetensors"]):
            error = run(arguments[0], tmp_path / "s.npz", *arguments[1:], code=1).stderr
            assert f"has no labels, which {arguments[0]} needs" in error
            assert "add an array 'labels' or a column 'label' (ignored: 'y')" in error
        np.savez(tmp_path / "t.npz", logits=DATA.logits, labels=DATA.labels)
        error = run("evaluate", tmp_path / "t.npz", "--leave-one-domain-out", code=1).stderr
        assert "has no domains" in error
        error = run("evaluate", tmp_path / "t.npz", "--methods", "ts,domain-ts", code=1).stderr
        assert "which domain-ts needs" in error

    def test_domains_without_rows_to_score_are_named(self, tmp_path):
        few = DATA.select(np.r_[0:60, 60, 120:180])
        dc.write(few, tmp_path / "s.npz")
        result = run("evaluate", tmp_path / "s.npz", "--methods", "msp,ts")
        assert "no row is left to score in 'domain-1'" in result.stderr

    def test_of_warnings_that_differ_in_a_name_the_first_is_shown(self, scores):
        options = ["--leave-one-domain-out", "--methods", "domain-ts"]
        lines = run("evaluate", scores, *options).stderr.splitlines()
        assert len(lines) == 2
        assert "'domain-0' not seen in the fit" in lines[0]
        assert "more like this" in lines[1]

    def test_domains_that_the_model_has_not_seen_are_ood(self, scores, model, tmp_path):
        other = np.where(DATA.domains == "domain-3", "moon", DATA.domains)
        rows = dc.CalibrationData(
            DATA.logits, labels=DATA.labels, features=DATA.features, domains=other
        )
        dc.write(rows, tmp_path / "moon.npz")
        found = document("evaluate", tmp_path / "moon.npz", "--model", model)
        assert [row["domain"] for row in found["table"] if row["kind"] == "OOD"] == ["moon"]

    def test_an_infinite_nll_is_null_in_json(self, tmp_path):
        data = dc.CalibrationData(np.tile([[0.0, 9.0]], (40, 1)), labels=[1] * 39 + [0])
        dc.write(data, tmp_path / "s.npz")
        found = document("evaluate", tmp_path / "s.npz", "--methods", "histogram", "--seed", "1")
        assert found["table"][0]["nll"] is None or found["table"][0]["nll"] > 0


@pytest.mark.parametrize("verb", ["apply", "convert"])
def test_a_missing_package_is_reported_before_the_data_are_read(
    scores, model, tmp_path, verb, monkeypatch
):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    output = tmp_path / "p.parquet"
    arguments = ["apply", model, scores, "-o"] if verb == "apply" else ["convert", scores]
    scores.write_bytes(b"never read")
    error = run(*arguments, output, code=1).stderr
    assert "pip install 'domaincal[parquet]'" in error


@pytest.mark.parametrize("verb", [
    "demo", "inspect", "convert", "fit", "apply", "evaluate", "report", "export", "train",
    "extract", "corrupt", "reproduce",
])  # fmt: skip
def test_every_verb_has_help_with_examples(verb):
    out = run(verb, "--help").output
    assert f"Examples:\n    domaincal {verb}" in out
    assert "--json" in out
    assert verb in run("--help").output


@pytest.mark.parametrize("verb", ["inspect", "evaluate", "fit", "apply", "convert"])
def test_the_memory_of_reading_is_limited(scores, model, verb):
    output = {
        "fit": ["-o", scores.parent / "m.safetensors"], "apply": ["-o", scores.parent / "t.npz"],
        "convert": [scores.parent / "t.npz"],
    }.get(verb, [])  # fmt: skip
    order = [verb, *([model] if verb == "apply" else []), scores, *output]
    error = run(*order, "--max-memory", "10 kB", code=1).stderr
    assert "scores.npz has" in error
    assert "--max-memory" in error
    assert "is not a size" in run(*order, "--max-memory", "much", code=2).stderr
    run(*order, "--max-memory", "100 MB")
