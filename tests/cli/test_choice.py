"""``fit`` without a method, batches, and every method through all verbs."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import domaincal as dc
from domaincal.calibrators.files.registry import METHODS
from domaincal.cli import main
from domaincal.cli.method_options import METHODS_HELP
from support import small_domains

DATA = small_domains(n_rows=60)
#: Rows without some of the arrays.
NO_FEATURES = dc.CalibrationData(DATA.logits, labels=DATA.labels, domains=DATA.domains)
NO_DOMAINS = dc.CalibrationData(DATA.logits, labels=DATA.labels, features=DATA.features)
NEITHER = dc.CalibrationData(DATA.logits, labels=DATA.labels)
#: The choice is between TemperatureScaling and one candidate: quicker than with features.
FAST = NO_FEATURES


def run(*arguments, code=0):
    result = CliRunner().invoke(main, [str(a) for a in arguments])
    assert result.exit_code == code, (result.output, result.exception)
    return result


def document(*arguments, code=0):
    """The JSON of a verb: one document, nothing else on stdout."""
    return json.loads(run(*arguments, "--json", code=code).stdout)


def written(data, path):
    dc.write(data, path)
    return path


@pytest.fixture
def model(tmp_path):
    """Path of a model to be fitted."""
    return tmp_path / "model.safetensors"


class TestChoice:
    def test_by_default_the_method_is_chosen_row_by_row(self, tmp_path, model):
        result = run("fit", written(DATA, tmp_path / "s.npz"), "-o", model)
        assert result.stderr == ""
        chosen = dc.AutoCalibration().fit(DATA)
        lines = chosen.best_.provenance_.lines()
        assert lines[0] == "left-out domains (6, row by row):"
        # TS, three candidates and the verdict.
        assert len(lines) == 6
        assert lines[-1].startswith(type(chosen.best_).__name__)
        # The command line says ts in place of TemperatureScaling.
        names = {cls.__name__: name for name, cls in METHODS.items()}
        said = [names.get(word, word) for word in " ".join(lines).split()]
        assert " ".join(said) in " ".join(result.stdout.split())
        chosen_name = names[type(chosen.best_).__name__]
        assert result.stdout.startswith(f"{chosen_name}: {chosen.best_!r}\n")
        assert repr(dc.load(model)) == repr(chosen.best_)

    @pytest.mark.parametrize(
        ("batch", "size", "said"),
        [("20", 20, "batches of 20 rows"), ("domain", "domain", "whole domains")],
    )
    def test_batches_are_those_of_the_option(self, tmp_path, model, batch, size, said):
        scores = written(FAST, tmp_path / "s.npz")
        out = run("fit", scores, "-o", model, "--batch", batch).stdout
        assert f"left-out domains (6, {said}):" in out
        chosen = dc.AutoCalibration(batch_size=size).fit(FAST)
        fitted = dc.load(model)
        assert fitted.provenance_.batch_size == size
        pd.testing.assert_frame_equal(fitted.provenance_.table, chosen.selection_)
        np.testing.assert_array_equal(fitted.predict_proba(FAST), chosen.predict_proba(FAST))

    def test_inspect_tells_the_same_as_fit(self, tmp_path, model):
        out = run("fit", written(FAST, tmp_path / "s.npz"), "-o", model, "--batch", "20").stdout
        told = run("inspect", model).stdout
        assert "left-out domains" in told
        assert out == f"{told}written to {model} ({out.rsplit('(', 1)[1]}"

    def test_json_has_the_table_of_the_choice(self, tmp_path, model):
        scores = written(FAST, tmp_path / "s.npz")
        found = document("fit", scores, "-o", model, "--batch", "20")["calibrator"]
        table = dc.AutoCalibration(batch_size=20).fit(FAST).selection_
        assert found["selection"]["batch_size"] == 20
        pd.testing.assert_frame_equal(pd.DataFrame(found["selection"]["candidates"]), table)
        assert found == {
            key: value
            for key, value in document("inspect", model).items()
            if key not in ("document", "version", "path")
        }
        run("fit", scores, "-o", model, "--method", "ts", "--force")
        assert document("inspect", model)["selection"] is None

    def test_a_choice_for_single_rows_names_the_option_for_batches(self, tmp_path, model):
        scores = written(DATA, tmp_path / "s.npz")
        for more, expected in (([], True), (["--batch", "20"], False), (["--method", "ts"], False)):
            out = run("fit", scores, "-o", model, "--force", *more).stdout
            assert ("if rows come from one domain at a time, pass --batch N" in out) == expected

    @pytest.mark.parametrize("n_domains", [0, 2])
    def test_with_too_few_domains_it_is_temperature_scaling(self, tmp_path, model, n_domains):
        data = NO_DOMAINS if n_domains == 0 else DATA.select(slice(0, 120))
        result = run("fit", written(data, tmp_path / "s.npz"), "-o", model)
        few = "2 domains with at least 10 rows: fewer than 3, so nothing can be known"
        assert (few if n_domains else "s.npz has no domains: one temperature") in result.stderr
        assert ("add an array 'domains' or a column 'domain'" in result.stderr) != bool(n_domains)
        assert result.stderr.count("\n") == 1
        assert "nothing is known about new domains" in result.stdout
        fitted = dc.load(model)
        assert repr(fitted) == "TemperatureScaling()"
        assert fitted.temperature_ == dc.TemperatureScaling().fit(data).temperature_
        assert document("inspect", model)["selection"]["candidates"] == []

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            *[
                (
                    ["--batch", value],
                    f"--batch must be a number of rows (1 or more) or 'domain', got {value!r}",
                )
                for value in ("0", "-1", "x", "2.5", "", " 3", "٣", "row", "9" * 5000)
            ],
            (["--batch", "20", "--method", "ts"], "leave out --method and --head, or --batch"),
            (["--batch", "1", "--head", "ols"], "leave out --method and --head, or --batch"),
        ],
    )
    def test_wrong_batches_are_wrong_usage(self, tmp_path, model, options, message):
        """Before the data are read, which do not exist here."""
        result = run("fit", tmp_path / "none.npz", "-o", model, *options, code=2)
        assert message in " ".join(result.stderr.split())
        assert list(tmp_path.iterdir()) == []


class TestBatches:
    @pytest.fixture
    def batch_model(self, model):
        dc.BatchTemperatureScaling().fit(FAST).save(model)
        return model

    def test_the_domains_of_a_new_file_are_batches(self, tmp_path, batch_model):
        result = run("apply", batch_model, written(FAST, tmp_path / "new.npz"), "-o",
                     tmp_path / "p.csv")  # fmt: skip
        assert result.stderr == ""
        table = pd.read_csv(tmp_path / "p.csv")
        assert (table.groupby("domain")["temperature"].nunique() == 1).all()
        assert table["temperature"].nunique() == 6
        expected = dc.load(batch_model).predict_temperature(FAST)
        np.testing.assert_allclose(table["temperature"], expected, rtol=1e-12)

    def test_without_domains_all_rows_are_one_batch_and_it_says_so(self, tmp_path, batch_model):
        new = written(NEITHER, tmp_path / "new.npz")
        for more in ([], ["--json"]):
            result = run("apply", batch_model, new, "-o", tmp_path / "p.csv", "--force", *more)
            assert result.stderr == (
                f"warning: {new} has no domains: all rows count as one batch from one place; to "
                "name domains, add an array 'domains' or a column 'domain', or name it with "
                "--domain.\n"
            )
        assert pd.read_csv(tmp_path / "p.csv")["temperature"].nunique() == 1

    @pytest.mark.parametrize("method", ["ts", "batch:batch=row"])
    def test_methods_for_single_rows_say_nothing_of_batches(self, tmp_path, model, method):
        scores = written(FAST, tmp_path / "s.npz")
        run("fit", scores, "-o", model, "--method", method)
        result = run("apply", model, written(NEITHER, tmp_path / "n.npz"), "-o", tmp_path / "p.csv")
        assert result.stderr == ""
        result = run("evaluate", scores, "--methods", f"msp,{method}", "--json")
        assert json.loads(result.stdout)["protocol"]["batch_methods"] == []
        assert "batch for" not in run("evaluate", scores, "--methods", f"msp,{method}").stdout

    def test_evaluate_scores_each_domain_as_one_batch(self, tmp_path, batch_model):
        scores = written(FAST, tmp_path / "s.npz")
        options = ["--methods", "ts,batch", "--ood", "domain-[24]"]
        found = document("evaluate", scores, *options)
        assert found["protocol"]["batch_methods"] == ["batch"]
        methods = {"ts": dc.TemperatureScaling(), "batch": dc.BatchTemperatureScaling()}
        expected = dc.evaluate_split(methods, FAST, ood="domain-[24]")
        pd.testing.assert_frame_equal(pd.DataFrame(found["table"]), expected)
        said = "All scored rows of a domain are one batch for batch."
        assert said in run("evaluate", scores, *options).stdout
        out = run("evaluate", scores, "--model", batch_model).stdout
        assert "All scored rows of a domain are one batch for model." in out
        out = run("evaluate", written(NEITHER, tmp_path / "n.npz"), "--model", batch_model).stdout
        assert "All scored rows are one batch for model." in out

    def test_evaluate_says_for_which_batches_a_model_was_chosen(self, tmp_path, model):
        scores, single = written(FAST, tmp_path / "s.npz"), tmp_path / "single.safetensors"
        # Chosen for batches, but its predictions do not depend on them.
        dc.AutoCalibration([dc.MaxSoftmax()], batch_size=20).fit(FAST).save(single)
        for batch, said in (("20", True), ("1", False), ("domain", False)):
            run("fit", scores, "-o", model, "--batch", batch, "--force")
            out = run("evaluate", scores, "--model", single, "--model", model).stdout
            sentence = "model was chosen for batches of 20 rows; domaincal report --model scores"
            assert (sentence in " ".join(out.split())) == said
            assert "single was chosen" not in out

    @pytest.mark.parametrize(
        ("data", "methods"),
        [
            (DATA, ["msp", "ts", "md-ts", "batch"]),
            (NO_FEATURES, ["msp", "ts", "md-ts:features=logits", "batch"]),
            (DATA.select(slice(0, 120)), ["msp", "ts", "md-ts"]),
            (NO_DOMAINS, ["msp", "ts"]),
        ],
    )
    def test_default_methods_of_evaluate_depend_on_the_data(self, tmp_path, data, methods):
        found = document("evaluate", written(data, tmp_path / "s.npz"))
        assert found["protocol"]["methods"] == methods
        # The gate and the comparisons are those of the last method.
        assert {one["method"] for one in found["comparisons"]} == {methods[-1]}


@pytest.mark.parametrize("method", METHODS)
def test_every_method_goes_through_all_verbs(tmp_path, model, method):
    scores = written(DATA, tmp_path / "s.npz")
    out = run("fit", scores, "-o", model, "--method", method).stdout
    fitted = dc.load(model)
    assert repr(fitted) in out
    assert fitted.data_fingerprint_ == DATA.fingerprint()
    found = document("inspect", model)
    if method == "auto":  # its file holds the winner
        assert found["selection"]["batch_size"] == 1
    else:
        assert found["class"] == METHODS[method].__name__
        assert found["selection"] is None
    assert found["summary"] == fitted.summary()
    told = run("inspect", model).stdout
    assert all(text in told for text in fitted.summary().values())
    run("apply", model, scores, "-o", tmp_path / "p.npz")
    np.testing.assert_allclose(
        np.exp(dc.read(tmp_path / "p.npz").logits), fitted.predict_proba(DATA), rtol=1e-6,
        atol=1e-11,  # a file of probabilities is read as log p with the floor 1e-12
    )  # fmt: skip
    methods = "ts,msp" if method == "ts" else f"ts,{method}"
    table = document("evaluate", scores, "--methods", methods)["table"]
    assert {row["method"] for row in table} == set(methods.split(","))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.filterwarnings("ignore::domaincal.errors.SmallDomainWarning")  # auto without domains
def test_missing_arrays_of_a_fit_are_named_as_in_files(tmp_path, model, method):
    """Whatever the library needs: the message speaks of the file, not of Python arguments."""
    for data, array in ((NO_FEATURES, "features"), (NO_DOMAINS, "domains")):
        scores = written(data, tmp_path / f"{array}.npz")
        try:
            METHODS[method]().fit(data)
        except dc.errors.InputError:
            for arguments in (
                ["fit", scores, "-o", model, "--method", method, "--force"],
                ["evaluate", scores, "--methods", f"ts,{method}"],
            ):
                error = run(*arguments, code=1).stderr
                assert f"{array}.npz has no {array}, which {method} needs; add an array" in error
                assert re.search(r"or (use|choose) ", error)
        else:
            run("fit", scores, "-o", model, "--method", method, "--force")


def test_the_help_names_every_method_and_parameter():
    listed = re.match(r"A method is (.*?), with parameters", METHODS_HELP).group(1)
    assert sorted(re.split(r", | or ", listed)) == sorted(METHODS)
    words = set(re.findall(r"[\w-]+", METHODS_HELP))
    for cls in METHODS.values():
        # Candidates of AutoCalibration are objects, which the command line cannot name.
        assert set(cls().get_params(deep=False)) - {"candidates"} <= words


@pytest.mark.parametrize(
    ("method", "names"),
    [
        ("batch", {"temperature", "domain_temperatures", "batch_errors"}),
        ("mixture", {"domain_temperatures", "posterior_search"}),
        ("shift-weighted", {"domain_temperatures", "posterior_search", "em_steps"}),
        ("feature-ts", {"temperature", "penalty", "penalty_search", "clip"}),
        ("transcal", {"temperature", "accuracy", "limits", "n_rows"}),
        ("cpcs", {"temperature", "limits", "n_rows"}),
        ("dac", {"temperature", "n_neighbors", "n_rows"}),
        ("vector", {"temperature"}),
    ],
)
def test_json_holds_the_learned_numbers_of_new_methods(tmp_path, model, method, names):
    scores = written(DATA, tmp_path / "s.npz")
    learned = document("fit", scores, "-o", model, "--method", method)["calibrator"]["learned"]
    assert names <= set(learned)
    assert learned["temperature"] == dc.load(model).temperature_
    for name, value in learned.items():
        if name in ("batch_errors", "penalty_search", "posterior_search"):
            expected = getattr(dc.load(model), f"{name}_")
            finite = expected.astype(float).replace(np.inf, np.nan)
            assert [list(row) for row in value] == [list(expected.columns)] * len(expected)
            np.testing.assert_array_equal(pd.DataFrame(value).astype(float), finite)
