"""Messages of the command line speak of files, options and verbs, not of Python."""

import numpy as np
import pytest
from click.testing import CliRunner

import domaincal as dc
from domaincal.cli import main
from support import small_domains

DATA = small_domains(n_rows=40)


def said(*arguments, code=0):
    """What a command prints to stderr, on one line."""
    result = CliRunner().invoke(main, [str(a) for a in arguments])
    assert result.exit_code == code, (result.output, result.exception)
    return " ".join(result.stderr.split())


@pytest.fixture
def folder(tmp_path, monkeypatch):
    dc.write(DATA, tmp_path / "scores.npz")
    dc.TemperatureScaling().fit(DATA).save(tmp_path / "ts.safetensors")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "arguments",
    [
        ("inspect", "nothere.csv"),
        ("apply", "ts.safetensors", "nothere.csv", "-o", "p.csv"),
        ("apply", "nothere.csv.safetensors", "scores.npz", "-o", "p.csv"),
        ("evaluate", "scores.npz", "--baseline", "nothere.csv"),
    ],
)
def test_a_missing_file_is_named_in_one_style(folder, arguments):
    name = next(one for one in arguments if one.startswith("nothere"))
    assert said(*arguments, code=1) == f"Error: there is no file {name}."


@pytest.mark.parametrize("model", ["scores.npz", "."])
def test_another_file_than_a_model_names_the_verb(folder, model):
    message = said("apply", model, "scores.npz", "-o", "p.csv", code=1)
    assert message.endswith("give a file that domaincal fit has written.")


def test_a_head_is_advised_in_words_of_the_command_line(folder):
    x = np.asarray(DATA.features)
    standard = (x - x.mean(axis=0)) / x.std(axis=0)
    rows = dc.CalibrationData(
        DATA.logits, labels=DATA.labels, features=standard, domains=DATA.domains
    )
    dc.write(rows, "standard.npz")
    message = said("fit", "standard.npz", "-o", "m.safetensors", "--method", "md-ts")
    assert "try md-ts:fit_intercept=true (standardised features need it)" in message
    assert "md-ts:target=log or another head." in message
    assert message.endswith("use ts.")


def test_standard_output_is_refused_for_predictions(folder):
    message = said("apply", "ts.safetensors", "scores.npz", "-o", "-", code=1)
    assert message == "Error: predictions cannot be written to standard output; give a file."


def test_an_address_is_refused_for_a_model_before_the_fit(folder):
    message = said("fit", "scores.npz", "-o", "memory://b/model.safetensors", code=1)
    assert message == (
        "Error: memory://b/model.safetensors is an address, to which only .zarr is written."
    )
