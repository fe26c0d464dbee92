"""Zeros of rounded probabilities, and --floor from fit to apply and evaluate."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import domaincal as dc
from crafted_models import read_model, write_model
from domaincal.cli import main
from domaincal.errors import RoundedProbabilitiesWarning


def _run(*arguments, status=0):
    done = CliRunner().invoke(main, [str(a) for a in arguments])
    assert done.exit_code == status, done.output
    return done


@pytest.fixture
def rounded(tmp_path):
    """File with probabilities of two decimals, many of which are 0."""
    data, _ = dc.make_multi_domain(4, 60, 3, random_state=0)
    p = dc.MaxSoftmax().fit(data).predict_proba(3.0 * data.logits).astype(float).round(2)
    frame = pd.DataFrame(p, columns=["p_a", "p_b", "p_c"])
    frame["y"], frame["site"] = np.array(["a", "b", "c"])[data.labels], data.domains
    assert (p == 0).any()
    frame.to_csv(tmp_path / "rounded.csv", index=False)
    return tmp_path


COLUMNS = ("--probabilities", "p_*", "--label", "y", "--domain", "site")


def test_zeros_are_reported_with_a_floor(rounded):
    done = _run("fit", rounded / "rounded.csv", "-o", rounded / "m.safetensors", *COLUMNS,
                "--method", "ts")  # fmt: skip
    assert "probabilities are 0, and the smallest other one is 0.01" in done.stderr
    assert "pass --floor, such as 0.005" in " ".join(done.stderr.split())
    assert "floor=" not in done.stderr


def test_the_floor_of_a_fit_is_that_of_its_predictions(rounded):
    file, model, out = (rounded / name for name in ("rounded.csv", "m.safetensors", "out.csv"))
    done = _run("fit", file, "-o", model, *COLUMNS, "--method", "ts", "--floor", 0.005)
    assert "probabilities are 0" not in done.stderr
    frame = pd.read_csv(file)
    data = dc.CalibrationData.from_frame(
        frame, probabilities="p_*", label="y", domain="site", floor=0.005
    )
    assert data.logits.min() == np.log(0.005)
    expected = dc.TemperatureScaling().fit(data)
    assert dc.load(model).temperature_ == pytest.approx(expected.temperature_, rel=1e-9)
    done = _run("apply", model, file, "-o", out, *COLUMNS)
    assert "probabilities are 0" not in done.stderr
    np.testing.assert_allclose(
        pd.read_csv(out).filter(like="prob_"), expected.predict_proba(data), rtol=1e-9
    )
    scored = json.loads(_run("evaluate", file, "--model", model, *COLUMNS, "--json").stdout)
    table = dc.score_table(expected, data)
    assert scored["table"][0]["nll"] == pytest.approx(table["nll"][0], rel=1e-9)


@pytest.mark.parametrize("floor", [0.005, None])
def test_another_floor_than_that_of_the_fit_is_refused(rounded, floor):
    file, model, out = (rounded / name for name in ("rounded.csv", "m.safetensors", "out.csv"))
    given = () if floor is None else ("--floor", floor)
    stored = 1e-12 if floor is None else floor
    fitted = _run("fit", file, "-o", model, *COLUMNS, "--method", "ts", *given)
    for done in (fitted, _run("inspect", model)):
        assert re.search(rf"floor +{stored} of probabilities", done.stdout)
    assert json.loads(_run("inspect", model, "--json").stdout)["floor"] == stored
    for verb in (("apply", model, file, "-o", out), ("evaluate", file, "--model", model)):
        done = _run(*verb, *COLUMNS, "--floor", 0.02, status=2)
        said = " ".join(done.stderr.split())
        assert f"was fitted with --floor {stored}; leave out --floor" in said
        _run(*verb, *COLUMNS, "--floor", stored)


def test_a_model_of_logits_stores_no_floor_and_takes_any(rounded):
    data, _ = dc.make_multi_domain(4, 60, 3, random_state=0)
    dc.write(data, rounded / "logits.npz")
    model = rounded / "m.safetensors"
    done = _run("fit", rounded / "logits.npz", "-o", model, "--method", "ts", "--json")
    found = json.loads(done.stdout)
    assert found["calibrator"]["floor"] is found["data"]["floor"] is None
    assert "floor" not in _run("inspect", model).stdout
    done = _run("evaluate", rounded / "rounded.csv", *COLUMNS, "--model", model, "--floor", 0.02,
                "--json")  # fmt: skip
    assert json.loads(done.stdout)["data"]["floor"] == 0.02


def test_models_with_different_floors_are_evaluated_one_by_one(rounded):
    file = rounded / "rounded.csv"
    models = []
    for floor in (0.005, 0.001):
        path = rounded / f"m{floor}.safetensors"
        _run("fit", file, "-o", path, *COLUMNS, "--method", "ts", "--floor", floor)
        models += ["--model", path]
    for given in ((), ("--floor", 0.005)):
        done = _run("evaluate", file, *models, *COLUMNS, *given, status=2)
        assert "evaluate them one by one" in " ".join(done.stderr.split())


def test_a_baseline_with_another_floor_is_refused(rounded):
    file, earlier = rounded / "rounded.csv", rounded / "earlier.json"
    evaluate = ("evaluate", file, *COLUMNS, "--methods", "ts")
    earlier.write_text(_run(*evaluate, "--floor", 0.005, "--json").stdout)
    _run(*evaluate, "--floor", 0.005, "--baseline", earlier)
    done = _run(*evaluate, "--baseline", earlier, status=1)
    said = " ".join(done.stderr.split())
    assert "was made with --floor 0.005, this evaluation with --floor 1e-12" in said


def test_a_damaged_floor_is_refused(rounded):
    file, model = rounded / "rounded.csv", rounded / "m.safetensors"
    _run("fit", file, "-o", model, *COLUMNS, "--method", "ts", "--floor", 0.005)
    header, tensors = read_model(model)
    header["sections"]["data"]["probability_floor"] = 7.0
    write_model(model, header, tensors)
    done = _run("apply", model, file, "-o", rounded / "out.csv", *COLUMNS, status=1)
    assert "holds the floor 7.0" in done.stderr


def test_inspect_lists_zeros_as_a_finding(rounded):
    done = _run("inspect", rounded / "rounded.csv", *COLUMNS)
    said = " ".join(done.stdout.split())
    assert "finding: " in said
    assert "pass --floor, such as 0.005, for fit and prediction." in said
    assert "No problems found" not in said
    assert "warning" not in done.stderr
    (finding,) = json.loads(
        _run("inspect", rounded / "rounded.csv", *COLUMNS, "--json").stdout
    )["findings"]  # fmt: skip
    assert "probabilities are 0" in finding
    assert "No problems found" in _run("inspect", rounded / "rounded.csv", *COLUMNS, "--floor",
                                       0.005).stdout  # fmt: skip


@pytest.mark.parametrize("floor", [0, 1.5, -0.1])
def test_a_floor_that_is_no_probability_is_wrong_usage(rounded, floor):
    done = _run("inspect", rounded / "rounded.csv", *COLUMNS, "--floor", floor, status=2)
    assert "--floor" in done.stderr


@pytest.mark.parametrize(
    ("p", "suggested"),
    [([[0.0, 1.0], [0.3, 0.7]], "0.05"), ([[0.0, 1.0]], "0.05"), ([[0.0, 0.02, 0.98]], "0.01")],
)
def test_the_suggested_floor_is_half_of_the_resolution(p, suggested):
    rows = np.tile(p, (20, 1))
    with pytest.warns(RoundedProbabilitiesWarning, match=f"such as {suggested}, for fit"):
        dc.logits_from_probabilities(rows)
    dc.logits_from_probabilities(rows, floor=0.01)  # no warning
    dc.logits_from_probabilities(rows[:10])  # too few rows to tell


def test_exact_zeros_beside_tiny_probabilities_are_underflow():
    logits = dc.logits_from_probabilities([[0.0, 1.0], [1e-9, 1.0 - 1e-9]])  # no warning
    assert logits.min() == np.log(1e-12)
