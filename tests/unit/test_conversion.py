"""Files to files in blocks: the same content as through memory, and nothing half-written."""

import gzip
import importlib.util
import json
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import domaincal as dc
from domaincal.cli import main
from domaincal.data import blocked_rows
from domaincal.data.calibration_data import CalibrationData
from domaincal.io import csv_chunks, opened_rows
from domaincal.io.stored_rows import StoredRows

HAS_PYARROW = importlib.util.find_spec("pyarrow") is not None
HAS_ZARR = importlib.util.find_spec("zarr") is not None
needs = {
    ".parquet": pytest.mark.skipif(not HAS_PYARROW, reason="pyarrow is not installed"),
    ".zarr": pytest.mark.skipif(not HAS_ZARR, reason="zarr is not installed"),
}
ALL = ["", ".csv", ".csv.gz", *(pytest.param(s, marks=mark) for s, mark in needs.items())]

MADE, _ = dc.make_multi_domain(4, 25, n_classes=3, n_features=2, random_state=0)
DATA = CalibrationData(
    MADE.logits, labels=MADE.labels, features=MADE.features, domains=MADE.domains,
    groups=np.arange(100) // 3, class_names=("b", "a", "c"), feature_names=("x", "y"),
    provenance={"model": "m"},
)  # fmt: skip


@pytest.fixture
def in_blocks(monkeypatch, tmp_path_factory):
    """All files count as large; blocks and chunks have few rows. No copy is left behind."""
    folder = tmp_path_factory.mktemp("copies")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(opened_rows, "STREAMED_FROM", 0)
    monkeypatch.setattr(blocked_rows, "BLOCK_BYTES", 600)
    monkeypatch.setattr(csv_chunks, "_CELLS_AT_A_TIME", 100)
    yield
    assert not list(folder.iterdir())


def _same(found, expected):
    for name in ("logits", "labels", "features", "domains", "groups"):
        a, b = getattr(found, name), getattr(expected, name)
        assert (a is None) == (b is None), name
        if a is not None:
            np.testing.assert_array_equal(a, b)
            assert a.dtype == b.dtype
    for name in ("class_names", "feature_names", "provenance"):
        assert getattr(found, name) == getattr(expected, name)


@pytest.mark.parametrize("source", ALL)
@pytest.mark.parametrize("output", [*ALL, ".npz"])
def test_blocks_are_written_as_all_rows_are(tmp_path, source, output, request):
    source = tmp_path / f"scores{source}"
    dc.write(DATA, source)
    outputs = [tmp_path / f"{name}{output}" for name in ("memory", "blocks")]
    assert isinstance(dc.convert(source, outputs[0]), CalibrationData)
    request.getfixturevalue("in_blocks")
    written = dc.convert(source, outputs[1])
    assert (written is None) == (output != ".npz")
    _same(dc.read(outputs[1], verify=True), dc.read(outputs[0]))
    if "csv" in output:
        unpack = gzip.decompress if output.endswith(".gz") else bytes
        contents = [unpack(path.read_bytes()) for path in outputs]
        assert contents[1] == contents[0]
    if output == "":
        assert len(list(outputs[1].glob("part-*"))) == 1


@pytest.mark.parametrize("output", ALL)
def test_rows_of_blocks_and_stores_can_be_written(tmp_path, in_blocks, output):
    dc.write(DATA, tmp_path / "store")
    dc.write(dc.Store(tmp_path / "store"), tmp_path / f"a{output}")
    rows = dc.Store(tmp_path / "store").rows().where(DATA.domains != "domain-1")
    dc.write(rows, tmp_path / f"b{output}")
    for name, data in (("a", DATA), ("b", DATA[DATA.domains != "domain-1"])):
        found = dc.read(tmp_path / f"{name}{output}")
        np.testing.assert_allclose(found.logits, data.logits, rtol=1e-6)
        np.testing.assert_array_equal(found.domains, data.domains)
        assert found.labels.tolist() == data.labels.tolist()


def test_blocks_are_appended_as_one_shard_in_the_dtypes_of_the_store(tmp_path, in_blocks):
    half = dc.CalibrationData(DATA.logits.astype("f2"), labels=DATA.labels, domains=DATA.domains)
    dc.write(half, tmp_path / "half")
    single = dc.CalibrationData(DATA.logits, labels=DATA.labels, domains=DATA.domains)
    store = dc.Store(tmp_path / "all")
    store.append(single)
    dc.convert(tmp_path / "half", store.path, set_domain="another", append=True)
    found = store.read(verify=True)
    assert found.logits.dtype == np.float32
    np.testing.assert_array_equal(found.logits[100:], half.logits)
    assert set(found.domains[100:]) == {"another"}
    assert len(list(store.path.glob("part-*"))) == 2
    with pytest.raises(dc.errors.InputError, match="differ in their"):
        dc.convert(tmp_path / "all", tmp_path / "half", append=True)
    assert len(dc.Store(tmp_path / "half")) == 100


@pytest.mark.parametrize("output", ALL)
def test_an_error_in_the_middle_leaves_the_earlier_output(tmp_path, in_blocks, output, monkeypatch):
    dc.write(DATA, tmp_path / "source")
    dc.write(DATA[:9], tmp_path / f"scores{output}")
    names = {p.name for p in tmp_path.iterdir()}
    logits = tmp_path / "source" / "part-00000" / "logits.npy"
    read_rows = StoredRows.read

    def cut(self, start, stop):
        if start > 20:
            content = logits.read_bytes()
            logits.write_bytes(content[: len(content) - 30])
        return read_rows(self, start, stop)

    monkeypatch.setattr(StoredRows, "read", cut)
    monkeypatch.setattr("domaincal.io.npy._BLOCK_BYTES", 300)
    with pytest.raises(dc.errors.FileFormatError, match=r"logits\.npy was changed while it was"):
        dc.convert(tmp_path / "source", tmp_path / f"scores{output}")
    monkeypatch.undo()
    assert {p.name for p in tmp_path.iterdir()} == names
    assert len(dc.read(tmp_path / f"scores{output}")) == 9


@pytest.mark.parametrize("in_memory", [True, False])
def test_the_verb_reports_the_same(tmp_path, request, in_memory):
    dc.write(DATA, tmp_path / "scores.csv")
    if not in_memory:
        request.getfixturevalue("in_blocks")
    arguments = [str(tmp_path / "scores.csv"), str(tmp_path / "all"), "--set-domain", "a"]
    done = CliRunner().invoke(main, ["convert", *arguments, "--json"])
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)["data"]
    assert (facts["n_rows"], facts["n_domains"]) == (100, 1)
    assert facts["fingerprint"] == dc.read(tmp_path / "all").fingerprint()
    done = CliRunner().invoke(main, ["convert", *arguments, "--append"])
    assert "100 rows, 200 in total" in done.stdout


@needs[".zarr"]
def test_the_verb_writes_to_addresses(tmp_path, in_blocks):
    dc.write(DATA, tmp_path / "scores")
    address = f"memory://{tmp_path.name}/scores.zarr"
    for _ in range(2):
        done = CliRunner().invoke(main, ["convert", str(tmp_path / "scores"), address])
    assert done.exit_code == 1
    assert f"{address} exists; pass --force" in " ".join(done.stderr.split())
    arguments = ["convert", address, str(tmp_path / "again.csv"), "--json"]
    assert CliRunner().invoke(main, arguments).exit_code == 0
    assert dc.read(tmp_path / "again.csv").labels.tolist() == DATA.labels.tolist()


def test_names_that_no_csv_can_hold_are_refused(tmp_path, in_blocks):
    data = CalibrationData(DATA.logits, domains=np.where(np.arange(100) == 90, "a\rb", "c"))
    dc.write(data, tmp_path / "scores")
    with pytest.raises(dc.errors.InputError, match=r"which a \.csv file cannot hold"):
        dc.convert(tmp_path / "scores", tmp_path / "scores.csv")
    assert [p.name for p in Path(tmp_path).iterdir()] == ["scores"]


@needs[".parquet"]
def test_row_groups_of_a_parquet_file_have_a_size(tmp_path, in_blocks, monkeypatch):
    """Small ones would make the footer long, and large ones the memory of readers."""
    from pyarrow import parquet

    monkeypatch.setattr("domaincal.io.parquet._GROUP_BYTES", 3000)
    dc.write(DATA, tmp_path / "scores")
    for name, source in (("memory", DATA), ("blocks", dc.Store(tmp_path / "scores"))):
        dc.write(source, tmp_path / f"{name}.parquet")
        footer = parquet.ParquetFile(tmp_path / f"{name}.parquet").metadata
        sizes = [footer.row_group(k).num_rows for k in range(footer.num_row_groups)]
        assert 2 <= len(sizes) <= 5
        assert max(sizes) <= 60
        _same(dc.read(tmp_path / f"{name}.parquet", verify=True), DATA)


def test_a_store_is_not_appended_to_itself(tmp_path):
    data, _ = dc.make_multi_domain(n_domains=2, n_rows=20, random_state=0)
    store = dc.Store(tmp_path / "scores")
    store.write(data)
    for source in (store.path, tmp_path / "." / "scores"):
        with pytest.raises(dc.errors.InputError, match="cannot be appended to itself"):
            dc.convert(source, tmp_path / "scores", append=True)
    assert len(store) == 40


def test_ids_that_are_not_written_are_named(tmp_path):
    data, _ = dc.make_multi_domain(n_domains=2, n_rows=20, random_state=0)
    dc.write(data, tmp_path / "scores.csv")
    frame = pd.read_csv(tmp_path / "scores.csv").assign(case=range(40))
    frame.to_csv(tmp_path / "scores.csv", index=False)
    with pytest.warns(dc.errors.DomaincalWarning, match=r"also holds 'case', which"):
        dc.convert(tmp_path / "scores.csv", tmp_path / "out.npz", id="case")
