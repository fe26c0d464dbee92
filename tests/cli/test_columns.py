"""The column options of every verb, and the columns that apply keeps."""

import csv
import gzip
import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import domaincal as dc
from domaincal.cli import main
from support import small_domains

NAMES = np.array(["ant", "bee", "cat", "dog", "emu"])
DATA = small_domains(n_rows=40)
P = np.exp(DATA.logits) / np.exp(DATA.logits).sum(axis=1, keepdims=True)
NOTES = ["", 'a "quoted" one', "comma, semicolon; tab\t", "two\r\nlines", "of an\rold Mac", "NA"]
FRAME = pd.DataFrame({
    "case": [f"{k:05d}" for k in range(len(DATA))], "y_true": NAMES[DATA.labels],
    "note": np.resize(NOTES, len(DATA)), "site": DATA.domains,
    **{f"p_{name}": P[:, k] for k, name in enumerate(NAMES)},
    **{f"x_{k}": [f"{value:.3f}" for value in DATA.features[:, k]] for k in range(4)},
    "confidence": "high",
})  # fmt: skip
SCORES = ("--probabilities", "p_*", "--features", "x_*", "--domain", "site")
COLUMNS = (*SCORES, "--label", "y_true", "--id", "case")
CHOICE = {"probabilities": "p_*", "features": "x_*", "domain": "site", "label": "y_true"}
PREDICTIONS = ["predicted", "confidence", "temperature", *(f"prob_{name}" for name in NAMES)]
KEPT = ["case", "y_true", "note", "site", "x_0", "x_1", "x_2", "x_3"]


def run(*arguments, code=0, stdin=None):
    result = CliRunner().invoke(main, [str(a) for a in arguments], input=stdin)
    assert result.exit_code == code, (result.output, result.exception)
    return result


def write(frame, path, separator=","):
    """A csv with texts in quotes, without which a lone \\r ends the line."""
    frame.to_csv(path, index=False, sep=separator, quoting=csv.QUOTE_NONNUMERIC)


def texts(path):
    """Cells of a csv as they are in the file."""
    return pd.read_csv(path, dtype=str, keep_default_na=False)


@pytest.fixture
def cases(tmp_path):
    write(FRAME, tmp_path / "cases.csv")
    return tmp_path / "cases.csv"


@pytest.fixture
def model(tmp_path):
    data = dc.CalibrationData.from_frame(
        FRAME.astype({f"x_{k}": float for k in range(4)}), **CHOICE
    )
    dc.MultiDomainTemperatureScaling().fit(data).save(tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors"


@pytest.mark.parametrize("verb", ["inspect", "convert", "fit", "apply", "evaluate"])
def test_every_verb_reads_the_same_rows_and_names_their_columns(cases, model, tmp_path, verb):
    expected = dc.read(cases, **CHOICE).fingerprint()
    arguments = {
        "inspect": [cases], "convert": [cases, tmp_path / "rows.npz"],
        "fit": [cases, "-o", tmp_path / "m.safetensors", "--method", "ts"],
        "apply": [model, cases, "-o", tmp_path / "p.csv"], "evaluate": [cases, "--methods", "msp"],
    }[verb]  # fmt: skip
    result = run(verb, *arguments, *COLUMNS, "--json")
    found = json.loads(result.stdout)
    described = found if verb == "inspect" else found["data"]
    assert described["fingerprint"] == expected
    assert described["columns"] == {
        "probabilities": [f"p_{name}" for name in NAMES], "features": ["x_0", "x_1", "x_2", "x_3"],
        "labels": ["y_true"], "domains": ["site"], "ids": ["case"],
    }  # fmt: skip
    lines = result.stderr.splitlines()
    assert lines[:5] == [
        "classes: p_ant, p_bee, p_cat, p_dog, p_emu (probabilities)",
        "features: x_0, x_1, x_2, x_3", "label: y_true", "domain: site", "id: case",
    ]  # fmt: skip


def test_default_columns_are_not_listed(tmp_path):
    dc.write(DATA, tmp_path / "scores.csv")
    assert run("inspect", tmp_path / "scores.csv").stderr == ""
    arguments = ("evaluate", tmp_path / "scores.csv", "--methods", "msp", "--json")
    assert json.loads(run(*arguments).stdout)["data"]["columns"] is None


@pytest.mark.parametrize("form", ["cases.csv", "cases.csv.gz", "tabs.csv", "semicolons.csv", "-"])
def test_apply_keeps_the_texts_of_all_columns(cases, model, tmp_path, form):
    separator = {"tabs.csv": "\t", "semicolons.csv": ";"}.get(form, ",")
    stdin = None
    if form == "-":
        stdin = cases.read_bytes()
    else:
        write(FRAME, tmp_path / form, separator)
    source = form if form == "-" else tmp_path / form
    result = run("apply", model, source, "-o", tmp_path / "p.csv", *COLUMNS, stdin=stdin)
    assert "renamed, as predictions have these names: confidence to input_conf" in result.stderr
    table = texts(tmp_path / "p.csv")
    assert table.columns.tolist() == [*KEPT, "input_confidence", *PREDICTIONS]
    pd.testing.assert_frame_equal(table[KEPT], FRAME[KEPT].astype("str"), check_dtype=False)
    assert (table["input_confidence"] == "high").all()
    expected = dc.load(model).predict_proba(dc.read(cases, **CHOICE))
    np.testing.assert_array_equal(table[PREDICTIONS[3:]].astype(float), expected)


def test_packed_predictions_are_the_same_table(cases, model, tmp_path):
    for name in ("p.csv", "p.csv.gz"):
        run("apply", model, cases, "-o", tmp_path / name, *COLUMNS)
    pd.testing.assert_frame_equal(texts(tmp_path / "p.csv"), texts(tmp_path / "p.csv.gz"))


def test_apply_keeps_the_types_of_a_parquet_file(model, tmp_path):
    pytest.importorskip("pyarrow")
    extra = {
        "when": pd.Timestamp("2020-01-01"), "visits": pd.array([None, 2] * 120, dtype="Int64"),
        "note": np.resize([None, "a"], len(DATA)), "embedding": [[1.0, 2.0]] * len(DATA),
    }  # fmt: skip
    frame = FRAME.astype({f"x_{k}": float for k in range(4)}).assign(**extra)
    frame.to_parquet(tmp_path / "cases.parquet", index=False)
    result = run("apply", model, tmp_path / "cases.parquet", "-o", tmp_path / "p.parquet", *COLUMNS)
    assert "not kept, as they hold lists or bytes: 'embedding'" in result.stderr
    found = pd.read_parquet(tmp_path / "p.parquet")
    again = pd.read_parquet(tmp_path / "cases.parquet")
    names = [*KEPT, "when", "visits"]
    pd.testing.assert_frame_equal(found[names], again[names], check_dtype=False)
    assert found.columns.tolist()[-8:] == PREDICTIONS
    run("apply", model, tmp_path / "cases.parquet", "-o", tmp_path / "p.csv", *COLUMNS)
    assert texts(tmp_path / "p.csv")["visits"].tolist()[:2] == ["", "2"]


def test_predictions_are_read_again_as_the_new_probabilities(model, tmp_path):
    """Also if the data had columns of these names, which a reader would prefer or mix in."""
    old = {f"prob_{name}": 0.2 for name in NAMES} | {"logit_a": 1.0, "logit_b": 2.0, "prob_x": "?"}
    write(FRAME.assign(**old, predicted="?"), tmp_path / "cases.csv")
    run("apply", model, tmp_path / "cases.csv", "-o", tmp_path / "p.csv", *COLUMNS)
    expected = dc.load(model).predict_proba(dc.read(tmp_path / "cases.csv", **CHOICE))
    found = dc.read(tmp_path / "p.csv")
    np.testing.assert_allclose(np.exp(found.logits), expected, rtol=1e-12)
    options = ("--label", "y_true", "--domain", "site", "--methods", "msp", "--json")
    table = json.loads(run("evaluate", tmp_path / "p.csv", *options).stdout)
    assert table["data"]["columns"]["probabilities"] == PREDICTIONS[3:]
    # Applied again, the predictions are the scores; columns of the first time stay.
    run("apply", model, tmp_path / "p.csv", "-o", tmp_path / "q.csv", "--features", "x_*")
    again = texts(tmp_path / "q.csv")
    assert again.columns.tolist()[-8:] == PREDICTIONS
    assert {"input_predicted", "input_input_predicted", "input_logit_a"} <= set(again)


def test_default_scores_are_replaced_and_not_kept(tmp_path):
    dc.write(DATA, tmp_path / "scores.csv")
    dc.TemperatureScaling().fit(DATA).save(tmp_path / "ts.safetensors")
    run("apply", tmp_path / "ts.safetensors", tmp_path / "scores.csv", "-o", tmp_path / "p.csv")
    names = texts(tmp_path / "p.csv").columns.tolist()
    assert [name for name in names if name.startswith("logit_")] == []
    assert names[:2] == ["label", "domain"]
    assert len(dc.read(tmp_path / "p.csv").domain_names) == 6


def test_keep_none_leaves_the_ids(cases, model, tmp_path):
    names = ["label", "domain", *PREDICTIONS]
    for options, first in (((), []), (("--id", "case"), ["case"])):
        output = tmp_path / f"p{len(options)}.csv"
        more = (*SCORES, "--label", "y_true", "--keep", "none", *options)
        run("apply", model, cases, "-o", output, *more)
        assert texts(output).columns.tolist() == [*first, *names]
    assert texts(output)["case"].tolist() == FRAME["case"].tolist()
    run("apply", model, cases, "-o", tmp_path / "p.npz", *COLUMNS)
    with np.load(tmp_path / "p.npz") as arrays:
        ids = arrays["case_names"][arrays["case"]]
        assert ids.tolist() == FRAME["case"].tolist()
        assert "note" not in arrays
    error = run("apply", model, cases, "-o", tmp_path / "q.npz", "--keep", "all", code=2).stderr
    assert "use .csv, .csv.gz or .parquet for both" in error


def test_ids_of_an_array_file_are_kept(tmp_path):
    arrays = {"logits": DATA.logits, "case": FRAME["case"].to_numpy(str)}
    np.savez(tmp_path / "s.npz", **arrays)
    dc.TemperatureScaling().fit(DATA).save(tmp_path / "ts.safetensors")
    options = ("-o", tmp_path / "p.csv", "--id", "case")
    run("apply", tmp_path / "ts.safetensors", tmp_path / "s.npz", *options)
    table = texts(tmp_path / "p.csv")
    assert table.columns.tolist()[:2] == ["case", "predicted"]
    assert table["case"].tolist() == FRAME["case"].tolist()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(b"logit_0,logit_1\n1,2\n"), "gzip; unpack it, as in zcat FILE"),
        (b"PAR1\0\0", "is a parquet file; give the name of the file in place of -"),
        ("logit_0,logit_1\n1,2\n".encode("utf-16"), "is text in UTF-16; save it in UTF-8"),
        (b"prob_a,prob_b,prob_all\n.5,.5,1\n",
         "name them with --logits; the columns are 'prob_a', 'prob_b', 'prob_all'"),
    ],
    ids=["gzip", "parquet", "UTF-16", "a total"],
)  # fmt: skip
def test_wrong_standard_input_is_named(content, message):
    error = " ".join(run("inspect", "-", code=1, stdin=content).stderr.split())
    assert message in error


def test_binary_scores_are_fitted_applied_and_evaluated(tmp_path):
    hits = DATA.labels == 1
    frame = pd.DataFrame({"id": range(len(DATA)), "Label": np.where(hits, "yes", "no"),
                          "Domain": DATA.domains, "prob": P[:, 1]})  # fmt: skip
    frame.to_csv(tmp_path / "b.csv", index=False)
    model, classes = tmp_path / "b.safetensors", ("--classes", "no,yes")
    run("fit", tmp_path / "b.csv", "-o", model, "--method", "ts", *classes)
    run("apply", model, tmp_path / "b.csv", "-o", tmp_path / "p.csv", *classes)
    table = texts(tmp_path / "p.csv")
    assert table.columns.tolist()[:3] == ["id", "Label", "Domain"]
    assert table.columns.tolist()[-2:] == ["prob_no", "prob_yes"]
    data = dc.CalibrationData(
        dc.logits_from_probabilities(np.column_stack([1 - P[:, 1], P[:, 1]])), labels=hits * 1
    )
    expected = dc.TemperatureScaling().fit(data).predict_proba(data)
    np.testing.assert_allclose(table["prob_yes"].astype(float), expected[:, 1], rtol=1e-9)
    run("evaluate", tmp_path / "p.csv", "--methods", "msp")
    error = run("fit", tmp_path / "b.csv", "-o", tmp_path / "c.safetensors", code=1).stderr
    assert "with --classes, such as no,yes: the second" in " ".join(error.split())


ERRORS = {
    "nothing matches": (["--probabilities", "q_*"], "--probabilities is 'q_*', which matches no"),
    "no such column": ([*SCORES, "--label", "y"], "--label is 'y', but there is no such column"),
    "the label too": (["--probabilities", "*_*"], "--probabilities is '*_*', which has more than"),
    "no scores": ([], "or say which they are with --logits or --probabilities."),
    "repeated ids": (["--probabilities", "p_*", "--id", "site"], "leave out --id."),
    "no labels": (SCORES, "or name it with --label."),
    "too little memory": ([*COLUMNS, "--max-memory", "9 kB"], "allow more with --max-memory"),
    "texts as features": ([*COLUMNS, "--features", "note"], "the column 'note' contains 'a \"quo"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_messages_name_options_and_no_python_arguments(cases, tmp_path, case):
    options, message = ERRORS[case]
    for arguments in (["evaluate", cases], ["fit", cases, "-o", tmp_path / "m.safetensors"]):
        error = run(*arguments, *options, code=1).stderr.splitlines()[-1]
        assert message in error
        assert "=..." not in error


def test_both_kinds_of_scores_are_wrong_usage(cases):
    error = run("inspect", cases, "--logits", "x_*", "--probabilities", "p_*", code=2).stderr
    assert "--logits and --probabilities are both given" in error


def test_apply_compares_the_file_with_the_model(cases, model, tmp_path):
    probabilities = ("--probabilities", "p_*", "--domain", "site")
    wrong = {
        probabilities: f"has no features, which {model} needs",
        (*probabilities, "--features", "x_0,x_1"): "has 2 features, but",
        ("--probabilities", "p_ant", "--features", "x_*"): "has scores of 2 classes, but",
        (*SCORES, "--classes", "bee,ant,cat,dog,emu"): "has the classes bee, ant, cat, dog, emu",
    }
    for options, message in wrong.items():
        error = run("apply", model, cases, "-o", tmp_path / "p.csv", *options, code=1).stderr
        assert message in error
        assert "pass " not in error
        assert not (tmp_path / "p.csv").exists()
        options = (*options, "--label", "y_true", "--model", model)
        if "2 classes" not in message:
            assert message in run("evaluate", cases, *options, code=1).stderr


def test_a_column_name_with_a_comma_is_quoted(tmp_path):
    frame = pd.DataFrame({"p, no": [0.5, 0.25], "p, yes": [0.5, 0.75], "a,b": [1, 2]})
    frame.to_csv(tmp_path / "s.csv", index=False)
    options = ("--probabilities", '"p, no","p, yes"', "--features", '"a,b"')
    found = json.loads(run("inspect", tmp_path / "s.csv", *options, "--json").stdout)
    assert found["class_names"] == ["p, no", "p, yes"]
    assert found["columns"]["features"] == ["a,b"]


def test_kept_columns_in_python():
    fitted = dc.TemperatureScaling().fit(DATA)
    keep = FRAME[["case", "confidence"]].set_index(FRAME.index[::-1])
    table = dc.prediction_table(fitted, DATA, keep=keep)
    assert table.columns.tolist()[:3] == ["case", "input_confidence", "predicted"]
    assert table["case"].tolist() == FRAME["case"].tolist()
    with pytest.raises(dc.errors.InputError, match="keep must be a DataFrame with the 240 rows"):
        dc.prediction_table(fitted, DATA, keep=keep[:3])
