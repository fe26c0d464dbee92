"""Verbs give the same numbers for large files, whose rows they read in blocks."""

import json
import math

import numpy as np
import pytest
from click.testing import CliRunner

import domaincal as dc
from domaincal.cli import main
from domaincal.io import opened_rows

DATA, _ = dc.make_multi_domain(n_domains=10, n_rows=120, n_classes=4, random_state=0)
DATA = DATA.select(np.random.default_rng(0).permutation(len(DATA)))
FORMATS = ("store", "csv", "parquet")


def run(*arguments, code=0):
    result = CliRunner().invoke(main, [str(a) for a in arguments])
    assert result.exit_code == code, (result.output, result.exception)
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("large")
    for name in FORMATS:
        dc.write(DATA, folder / ("scores" if name == "store" else f"scores.{name}"))
    return folder


@pytest.fixture(params=FORMATS)
def path(request, folder):
    if request.param == "parquet":
        pytest.importorskip("pyarrow")
    return folder / ("scores" if request.param == "store" else f"scores.{request.param}")


@pytest.fixture
def both(monkeypatch):
    """Runs a command with the rows in memory, then in blocks; returns both documents."""

    def documents(*arguments, code=0):
        found = []
        for size in (1 << 40, 0):
            monkeypatch.setattr(opened_rows, "STREAMED_FROM", size)
            force = [] if arguments[0] in ("inspect", "evaluate", "estimate") else ["--force"]
            found.append(json.loads(run(*arguments, "--json", *force, code=code).stdout))
        return found

    return documents


def assert_same(found, expected, tolerance=1e-8, where=""):
    """Equal texts and structure, and numbers within a tolerance."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), where
        for key, value in expected.items():
            assert_same(found[key], value, tolerance, f"{where}.{key}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), where
        for k, value in enumerate(expected):
            assert_same(found[k], value, tolerance, f"{where}[{k}]")
    elif isinstance(expected, float):
        assert math.isclose(found, expected, rel_tol=tolerance, abs_tol=tolerance), where
    else:
        assert found == expected, where


@pytest.mark.parametrize("method", ["ts", "batch", "histogram"])
def test_fit(method, folder, both, tmp_path):
    options = ["-o", tmp_path / "m.safetensors", "--method", method]
    memory, blocks = both("fit", folder / "scores", *options)
    assert_same(blocks, memory)


def test_fit_chooses_the_same_method(both, tmp_path):
    dc.write(dc.split_domains(DATA, "domain-[4-9]")[0], tmp_path / "few")
    memory, blocks = both("fit", tmp_path / "few", "-o", tmp_path / "m.safetensors")
    assert_same(blocks, memory)


def test_fit_to_every_format(path, both, tmp_path):
    memory, blocks = both("fit", path, "-o", tmp_path / "m.safetensors", "--method", "md-ts")
    assert_same(blocks, memory)


@pytest.mark.parametrize(
    "options",
    [
        ["--methods", "msp,ts,md-ts,batch", "--ood", "domain-[12]"],
        ["--methods", "ts,md-ts", "--leave-one-domain-out", "--folds", "3"],
        ["--methods", "ts", "--fail-above", "0.1%"],
    ],
    ids=["halves", "folds", "gate"],
)
def test_evaluate(options, folder, both):
    path = folder / "scores"
    memory, blocks = both("evaluate", path, *options, code=3 if "--fail-above" in options else 0)
    assert_same(blocks, memory)


def test_evaluate_model_and_estimate(path, both, tmp_path):
    model = tmp_path / "model.safetensors"
    run("fit", path, "-o", model, "--method", "batch")
    memory, blocks = both("evaluate", path, "--model", model)
    assert_same(blocks, memory)
    memory, blocks = both("estimate", model, path)
    assert_same(blocks, memory)


def test_groups_stay_whole(tmp_path, both):
    groups = np.arange(len(DATA)) // 7
    data = dc.CalibrationData(DATA.logits, DATA.labels, domains=DATA.domains, groups=groups)
    dc.write(data, tmp_path / "grouped")
    memory, blocks = both("evaluate", tmp_path / "grouped", "--methods", "msp,ts")
    assert memory["protocol"]["split"] == "group"
    assert_same(blocks, memory)


def test_inspect(path, both, tmp_path):
    memory, blocks = both("inspect", path)
    if path.suffix == ".csv":  # labels of a temporary copy are codes
        memory.pop("arrays"), blocks.pop("arrays")
    assert_same(blocks, memory)


def test_inspect_rows_that_are_not_finite(tmp_path, both):
    logits = DATA.logits.copy()
    logits[5, 2] = np.nan
    logits[7] *= 1000
    dc.Store(tmp_path / "bad").write(dc.CalibrationData(logits, DATA.labels, domains=DATA.domains))
    memory, blocks = both("inspect", tmp_path / "bad")
    assert any("1 rows hold NaN" in text for text in blocks["findings"])
    assert any("(row 7: " in text for text in blocks["findings"])
    assert_same(blocks, memory)
