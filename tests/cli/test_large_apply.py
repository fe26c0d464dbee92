"""``apply`` writes the predictions of large files in blocks, as those of small ones."""

import importlib
import importlib.util
import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import domaincal as dc
from domaincal.cli import main
from domaincal.data import blocked_rows
from domaincal.io import csv_chunks, opened_rows, parquet_table
from domaincal.io.columns import frame_of

HAS_PYARROW = importlib.util.find_spec("pyarrow") is not None
HAS_ZARR = importlib.util.find_spec("zarr") is not None
PARQUET = pytest.param(
    ".parquet", marks=pytest.mark.skipif(not HAS_PYARROW, reason="pyarrow is not installed")
)
ZARR = pytest.param(".zarr", marks=pytest.mark.skipif(not HAS_ZARR, reason="zarr is not installed"))

MADE, _ = dc.make_multi_domain(6, 40, n_classes=3, n_features=2, random_state=0)
DATA = dc.CalibrationData(
    MADE.logits, labels=MADE.labels, features=MADE.features, domains=MADE.domains,
    class_names=("b", "a", "c"),
)  # fmt: skip


@pytest.fixture
def in_blocks(monkeypatch):
    """All files count as large; blocks have few rows."""
    monkeypatch.setattr(opened_rows, "STREAMED_FROM", 0)
    monkeypatch.setattr(blocked_rows, "BLOCK_BYTES", 2000)
    monkeypatch.setattr(csv_chunks, "_CELLS_AT_A_TIME", 100)
    monkeypatch.setattr(parquet_table, "_ROWS_AT_A_TIME", 30)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    dc.TemperatureScaling().fit(DATA).save(folder / "ts.safetensors")
    dc.DomainTemperatureScaling().fit(DATA).save(folder / "domain-ts.safetensors")
    dc.FeatureTemperatureScaling().fit(DATA).save(folder / "features.safetensors")
    dc.BatchTemperatureScaling().fit(DATA).save(folder / "batch.safetensors")
    return folder


def _write(path):
    """Rows, in a table with ids that look like numbers, empty notes and a column of our own."""
    if path.suffix in ("", ".zarr"):
        dc.write(DATA, path)
        return
    frame = frame_of(DATA)
    frame.insert(0, "case", [f"{k:03}" for k in range(len(frame))])
    frame["note"] = [None] * 200 + ["a\nb", 'a "quote"', "", "x,y"] * 10
    frame["confidence"] = np.arange(len(frame))
    if path.suffix == ".parquet":
        frame.to_parquet(path, row_group_size=70)
    else:
        frame.to_csv(path, index=False)


def _applied(model, source, output, *options):
    done = CliRunner().invoke(main, ["apply", str(model), str(source), "-o", str(output), *options])
    assert done.exit_code == 0, done.output
    return done


def _table(path):
    if path.suffix == ".parquet":
        return pd.read_parquet(path)
    return pd.read_csv(path, dtype={"case": str}, keep_default_na=False)


def _same_tables(found, expected):
    assert found.columns.tolist() == expected.columns.tolist()
    assert len(found) == len(expected)
    for name in expected:
        if expected[name].dtype.kind == "f":
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-9)
        else:
            assert found[name].tolist() == expected[name].tolist(), name
        assert found[name].dtype == expected[name].dtype


@pytest.mark.parametrize("model", ["ts", "domain-ts", "features", "batch"])
@pytest.mark.parametrize("source", [".csv", "", ZARR])
def test_methods_predict_blocks_as_all_rows(tmp_path, models, request, model, source):
    _write(tmp_path / f"new{source}")
    outputs = [tmp_path / f"{name}.csv" for name in ("memory", "blocks")]
    model = models / f"{model}.safetensors"
    expected = _applied(model, tmp_path / f"new{source}", outputs[0])
    request.getfixturevalue("in_blocks")
    found = _applied(model, tmp_path / f"new{source}", outputs[1])
    _same_tables(*map(_table, reversed(outputs)))
    assert found.stdout.split(";")[0] == expected.stdout.split(";")[0]


@pytest.mark.parametrize("source", [".csv", ".csv.gz", PARQUET])
@pytest.mark.parametrize("output", [".csv", ".csv.gz", PARQUET])
@pytest.mark.parametrize("options", [[], ["--keep", "none"], ["--keep", "none", "--id", "case"]])
def test_tables_repeat_the_same_columns(tmp_path, models, request, source, output, options):
    _write(tmp_path / f"new{source}")
    outputs = [tmp_path / f"{name}{output}" for name in ("memory", "blocks")]
    model = models / "batch.safetensors"
    expected = _applied(model, tmp_path / f"new{source}", outputs[0], *options)
    request.getfixturevalue("in_blocks")
    found = _applied(model, tmp_path / f"new{source}", outputs[1], *options)
    _same_tables(*map(_table, reversed(outputs)))
    assert found.stderr == expected.stderr
    if "csv" in output or options:  # else features are texts, as columns of a csv are kept
        assert dc.read(outputs[1]).class_names == DATA.class_names


def test_the_document_is_the_same(tmp_path, models, request):
    _write(tmp_path / "new.csv")
    arguments = (models / "ts.safetensors", tmp_path / "new.csv", tmp_path / "out.csv", "--json")
    expected = json.loads(_applied(*arguments).stdout)
    request.getfixturevalue("in_blocks")
    found = json.loads(_applied(*arguments, "--force").stdout)
    assert found.pop("mean_confidence") == pytest.approx(expected.pop("mean_confidence"))
    assert found == expected


def test_a_fault_in_the_middle_writes_nothing(tmp_path, models, in_blocks):
    _write(tmp_path / "new.csv")
    with open(tmp_path / "new.csv", "a") as file:
        file.write("999,many,1,2,b,domain-0,1,2,x,1\n")
    arguments = [str(models / "ts.safetensors"), str(tmp_path / "new.csv")]
    done = CliRunner().invoke(main, ["apply", *arguments, "-o", str(tmp_path / "out.csv")])
    assert done.exit_code == 1
    assert "in row 240" in " ".join(done.stderr.split())
    assert [p.name for p in tmp_path.iterdir()] == ["new.csv"]


def test_a_table_that_changes_before_its_columns_are_repeated_is_refused(
    tmp_path, models, in_blocks, monkeypatch
):
    prediction_table = importlib.import_module("domaincal.evaluation.prediction_table")
    _write(tmp_path / "new.csv")
    block_predictor = prediction_table.block_predictor

    def change(*arguments):
        with open(tmp_path / "new.csv", "a") as file:
            file.write("999\n")
        return block_predictor(*arguments)

    monkeypatch.setattr(prediction_table, "block_predictor", change)
    arguments = [str(models / "ts.safetensors"), str(tmp_path / "new.csv")]
    done = CliRunner().invoke(main, ["apply", *arguments, "-o", str(tmp_path / "out.csv")])
    assert done.exit_code == 1
    assert "was changed while it was read" in " ".join(done.stderr.split())
    assert [p.name for p in tmp_path.iterdir()] == ["new.csv"]
