"""Rows of any file in blocks: what ``open_rows`` gives is what ``read`` gives."""

import importlib.util
import json
import os
import pickle
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

import domaincal as dc
import domaincal.io
from domaincal.io import csv_chunks, parquet_table
from domaincal.io.columns import frame_of
from domaincal.io.formats import read_rows

HAS_PYARROW = importlib.util.find_spec("pyarrow") is not None
needs_pyarrow = pytest.mark.skipif(not HAS_PYARROW, reason="pyarrow is not installed")
ARRAYS = ("logits", "labels", "features", "domains", "groups")
PARQUET = pytest.param("scores.parquet", marks=needs_pyarrow)
TABLES = ["scores.csv", "scores.csv.gz", PARQUET]

DATA, _ = dc.make_multi_domain(4, 25, n_classes=3, n_features=2, random_state=0)


@pytest.fixture(autouse=True)
def _temporary_folder(tmp_path_factory, monkeypatch):
    """No copy is left in the folder of temporary files."""
    folder = tmp_path_factory.mktemp("copies")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield
    assert not list(folder.iterdir())


@pytest.fixture(params=[1, 7, 1 << 20])
def chunk_rows(request, monkeypatch):
    """Rows of a chunk, for tables of at most 8 columns."""
    monkeypatch.setattr(csv_chunks, "_CELLS_AT_A_TIME", 8 * request.param)
    monkeypatch.setattr(parquet_table, "_ROWS_AT_A_TIME", request.param)
    return request.param


def assert_blocks_are(rows, data, size):
    """The blocks have the values, dtypes and names of data in memory."""
    blocks = list(rows.blocks(size))
    assert len(rows) == len(data) == sum(map(len, blocks))
    for name in ARRAYS:
        expected = getattr(data, name)
        assert (getattr(rows, name) is None) == (expected is None), name
        if expected is not None:
            found = np.concatenate([getattr(block, name) for block in blocks])
            assert found.dtype == expected.dtype, name
            np.testing.assert_array_equal(found, expected, err_msg=name)
    assert (rows.class_names, rows.feature_names) == (data.class_names, data.feature_names)
    assert rows.provenance == data.provenance
    if data.domains is not None:
        assert rows.domain_names.tolist() == data.domain_names.tolist()


def test_columns_are_named_as_in_read(tmp_path):
    frame = pd.DataFrame({"p_a": [0.2, 0.7], "p_b": [0.8, 0.3], "y": ["a", "b"], "site": [1, 2]})
    frame.to_csv(tmp_path / "own.csv", index=False)
    columns = {"probabilities": "p_*", "label": "y", "domain": "site"}
    expected = dc.read(tmp_path / "own.csv", **columns)
    with dc.io.open_rows(tmp_path / "own.csv", **columns) as opened:
        assert_blocks_are(opened.rows, expected, 7)
    with pytest.raises(TypeError, match="colour"), dc.io.open_rows(tmp_path / "own.csv", colour=1):
        pass


def refused(path, choice=None, *, error=dc.errors.FileFormatError, **options):
    """The error of open_rows."""
    with pytest.raises(error) as caught, dc.io.open_rows(path, choice, **options):
        pass
    return str(caught.value)


def assert_opened_as_read(path, choice=None, size=7):
    raw, data = read_rows(path, choice)
    with dc.io.open_rows(path, choice) as opened:
        assert opened.format == raw.format
        assert dict(opened.sources) == dict(raw.sources)
        assert set(opened.ignored) == set(raw.ignored)
        assert_blocks_are(opened.rows, data, size)


_cells = st.sampled_from(["0", "1", "2", "-1", "007", "2.0", "NA", "a", "b", "ä;", '"', "x,y"])


@pytest.mark.parametrize("name", TABLES)
@given(draws=st.data())
def test_tables_are_opened_as_they_are_read(name, draws):
    """Domains that are integers but for one row, groups, labels by name and by number."""
    n = draws.draw(st.integers(1, 12))
    names = draws.draw(st.sampled_from([None, ("a", "b", "c"), ("ant", "2", "bee")]))

    def column(values):
        return draws.draw(st.one_of(st.none(), st.lists(values, min_size=n, max_size=n)))

    numbers = st.floats(-1e6, 1e6).map(lambda x: round(x, 3))
    data = dc.CalibrationData(
        np.reshape(draws.draw(st.lists(numbers, min_size=3 * n, max_size=3 * n)), (n, 3)),
        labels=column(st.integers(0, 2)), class_names=names,
        domains=column(draws.draw(st.sampled_from([_cells, st.integers(-5, 5)]))),
        groups=column(_cells), provenance={"by": "hand"},
    )  # fmt: skip
    rows_of_chunk, size = draws.draw(st.integers(1, 13)), draws.draw(st.integers(1, 13))
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_chunks, "_CELLS_AT_A_TIME", rows_of_chunk * 6)
        patch.setattr(parquet_table, "_ROWS_AT_A_TIME", rows_of_chunk)
        dc.write(data, f"{folder}/{name}")
        assert_opened_as_read(Path(folder, name), size=size)


@pytest.mark.parametrize("name", ["scores", "scores.npz", *TABLES])
def test_several_passes_threads_and_pickles_give_the_same_rows(tmp_path, chunk_rows, name):
    dc.write(DATA, tmp_path / name)
    with dc.io.open_rows(tmp_path / name) as opened, ThreadPoolExecutor(3) as threads:
        again = pickle.loads(pickle.dumps(opened.rows))
        for _ in range(2):
            assert_blocks_are(again, dc.read(tmp_path / name), 9)
        logits = dc.read(tmp_path / name).logits
        parts = threads.map(lambda k: opened.rows.read(k, k + 5).logits, range(0, 100, 5))
        np.testing.assert_array_equal(np.concatenate(list(parts)), logits)
        rows = np.array([99, 3, 3, 50])
        np.testing.assert_array_equal(opened.rows.logits[rows], logits[rows])


@pytest.mark.parametrize("name", ["scores.csv", PARQUET])
@pytest.mark.parametrize(
    "choice",
    [
        {"logits": ["logit_0", "logit_2"], "label": "binary", "domain": "third"},
        {"logits": "logit_1", "features": ["feature_*", "logit_0"]},
        {"probabilities": "share", "class_names": ["no", "yes"]},
        {"probabilities": "share", "floor": 0.25, "features": ["feature_1"]},
        {"id": "key", "class_names": ["u", "v", "w"]},
    ],
)
def test_columns_of_the_user_are_opened_as_they_are_read(tmp_path, chunk_rows, name, choice):
    rows = np.arange(100)
    frame = frame_of(DATA).assign(
        share=np.linspace(0.01, 0.99, 100), key=rows + 100, third=rows // 3, binary=rows % 2
    )
    if "share" in choice.values() or "logit_1" in choice.values():
        frame["label"] = rows % 2 if "floor" in choice else np.array(["no", "yes"])[rows % 2]
        choice = {"class_names": ["no", "yes"], **choice} if "floor" not in choice else choice
    dc.write_table(frame, tmp_path / name)
    assert_opened_as_read(tmp_path / name, dc.io.ColumnChoice(**choice))


def test_a_row_of_text_makes_all_domains_texts(tmp_path, chunk_rows):
    path = tmp_path / "scores.csv"
    path.write_text("logit_0,logit_1,domain\n" + "1,2,7\n" * 20 + "1,2,x\n")
    with dc.io.open_rows(path) as opened:
        assert opened.rows.domain_names.tolist() == ["7", "x"]
    path.write_text("logit_0,logit_1,domain\n" + "1,2,7\n" * 20 + "1,2,10\n")
    with dc.io.open_rows(path) as opened:
        assert opened.rows.domain_names.tolist() == [7, 10]
    assert_opened_as_read(path)


@pytest.mark.parametrize("name", TABLES)
def test_labels_that_are_empty_in_all_rows_are_none(tmp_path, chunk_rows, name):
    frame = frame_of(DATA)
    frame["label"] = np.full(100, "" if ".csv" in name else None, object)
    dc.write_table(frame, tmp_path / name)
    assert_opened_as_read(tmp_path / name)
    with dc.io.open_rows(tmp_path / name) as opened:
        assert opened.rows.labels is None


_ROWS = "1,2,a,0,x{}\n"
FAULTS = {
    "a word": ("1,many,a,0,y", None),
    "no number": ("1,,a,0,y", None),
    "an infinite number": ("1,inf,a,0,y", None),
    "no domain": ("1,2,,0,y", None),
    "no label": ("1,2,a,,y", None),
    "a label that is no class": ("1,2,a,7,y", None),
    "a label that is a word": ("1,2,a,cat,y", None),
    "a long row": ("1,2,a,0,y,z", None),
    "an id again": ("1,2,a,0,x13", {"id": "key"}),
    "no id": ("1,2,a,0,", {"id": "key"}),
    "a probability above 1": ("1,2,a,0,y", {"probabilities": "logit_1"}),
    "probabilities with another sum": (".5,.6,a,0,y", {"probabilities": "logit_*"}),
    "no probability": (",2,a,0,y", {"probabilities": "logit_*"}),
}  # fmt: skip


@pytest.mark.parametrize(("row", "choice"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_named_with_the_row_of_the_file(tmp_path, chunk_rows, row, choice):
    path = tmp_path / "scores.csv"
    first = ".5,.5,a,0,x{}\n" if choice and "probabilities" in choice else _ROWS
    rows = [first.format(k) for k in range(40)]
    path.write_text(f"logit_0,logit_1,domain,label,key\n{''.join(rows)}{row}\n{first.format(99)}")
    choice = None if choice is None else dc.io.ColumnChoice(**choice)
    with pytest.raises(dc.errors.FileFormatError) as expected:
        read_rows(path, choice)
    found = refused(path, choice)
    if "long row" not in str(row) and row != "1,2,a,0,y,z":
        assert "40" in str(expected.value)
        assert found == str(expected.value)
    assert str(path) in found


@needs_pyarrow
@pytest.mark.parametrize(
    ("column", "value"),
    [("label", 7), ("label", 0.5), ("domain", 0.5), ("domain", None), ("logit_0", np.nan)],
)
def test_a_fault_of_a_parquet_file_is_named_with_its_row(tmp_path, chunk_rows, column, value):
    frame = frame_of(DATA)
    frame["domain"] = np.arange(100) % 5
    values = frame[column].astype(object if value is None else float).to_numpy(copy=True)
    values[61] = value
    dc.write_table(frame.assign(**{column: values}), tmp_path / "scores.parquet")
    with pytest.raises(dc.errors.FileFormatError, match=r"61|contains 7") as expected:
        dc.read(tmp_path / "scores.parquet")
    assert refused(tmp_path / "scores.parquet") == str(expected.value)


def test_zeros_of_rounded_probabilities_are_one_warning(tmp_path, chunk_rows):
    path = tmp_path / "scores.csv"
    path.write_text("prob_0,prob_1\n" + "0.25,0.75\n" * 30 + "0,1\n" * 5)
    with pytest.warns(dc.errors.RoundedProbabilitiesWarning) as expected:
        dc.read(path)
    with pytest.warns(dc.errors.RoundedProbabilitiesWarning) as found, dc.io.open_rows(path):
        pass
    assert [str(w.message) for w in found] == [str(w.message) for w in expected]
    assert "5 of 70 probabilities" in str(found[0].message)
    assert found[0].filename == __file__


def test_arrays_of_a_store_are_read_as_others(tmp_path):
    p = np.full((50, 2), 0.5)
    data = dc.CalibrationData(p, groups=np.arange(50) % 3, labels=np.arange(50) % 2)
    dc.write(data, tmp_path / "scores")
    for choice in (
        {"probabilities": "logits"},
        {"class_names": ["a", "b"]},
    ):
        assert_opened_as_read(tmp_path / "scores", dc.io.ColumnChoice(**choice))
    assert "no such array" in refused(tmp_path / "scores", dc.io.ColumnChoice(label="y"))


def test_a_changed_checksum_is_found_on_demand(tmp_path):
    dc.write(DATA, tmp_path / "scores")
    path = tmp_path / "scores" / "part-00000" / "logits.npy"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with dc.io.open_rows(tmp_path / "scores"):
        pass
    assert "checksum" in refused(tmp_path / "scores", verify=True)


@pytest.mark.parametrize("content", ["1,2," + '"' + "x" * 10**6, "1,2" + ",3" * 10**6])
def test_a_cell_without_end_is_refused(tmp_path, content):
    """A quote that is never closed makes the rest of a file one cell."""
    path = tmp_path / "scores.csv"
    path.write_text("logit_0,logit_1,note\n" + "1,2,x\n" * 1000 + content)
    message = refused(path, max_memory="1 MB")
    assert re.search(r"more than 1\.0 MB.*very long|cannot be read", message)


def test_a_table_that_changes_while_it_is_opened_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "scores.csv"
    dc.write(DATA, path)
    layout_of = csv_chunks.layout_of

    def change(*arguments):
        path.write_bytes(path.read_bytes() + b"1\n")
        return layout_of(*arguments)

    monkeypatch.setattr(csv_chunks, "layout_of", change)
    assert "was changed while it was read" in refused(path)


def test_a_copy_that_has_no_room_is_refused_in_advance(tmp_path, monkeypatch):
    import shutil

    path = tmp_path / "scores.csv"
    dc.write(DATA, path)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage._replace(free=1000))
    error = dc.errors.InputError
    assert re.search("temporary copy of about .*set TMPDIR", refused(path, error=error))
    assert "there is no folder" in refused(path, error=error, folder=tmp_path / "none")


def test_the_copy_lies_in_the_folder_of_the_user_and_is_removed(tmp_path):
    dc.write(DATA, tmp_path / "scores.csv")
    (tmp_path / "large disk").mkdir()

    def fail():
        with dc.io.open_rows(tmp_path / "scores.csv", folder=tmp_path / "large disk"):
            assert len(list((tmp_path / "large disk").iterdir())) == 1
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not list((tmp_path / "large disk").iterdir())


def test_large_files_are_streamed(tmp_path, monkeypatch):
    from domaincal.io import opened_rows

    for name in ("scores.csv", "scores", "scores.npz"):
        dc.write(DATA, tmp_path / name)
    assert not dc.io.is_streamed(tmp_path / "scores.csv")
    monkeypatch.setattr(opened_rows, "STREAMED_FROM", 1000)
    streamed = {p.name for p in tmp_path.iterdir() if dc.io.is_streamed(p)}
    assert streamed == {"scores.csv", "scores"}
    assert not dc.io.is_streamed(tmp_path / "missing.csv")
    assert not dc.io.is_streamed("-")


# Opens files and reads their blocks; prints the MB that each took at most.
_MEMORY = """
import json, sys
from domaincal.io import open_rows
def peak(kind):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) / 1e3 for line in file if line.startswith(kind))
def take(path):
    with open_rows(path) as opened:
        return sum(len(block) for block in opened.rows.blocks())
take(sys.argv[1])  # what a process keeps for its next files counts to none
before, found = peak("VmRSS"), []
for path in sys.argv[1:]:
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    found.append((take(path), peak("VmHWM") - before))
print(json.dumps(found))
"""


@pytest.mark.skipif(
    not os.access("/proc/self/clear_refs", os.W_OK), reason="needs Linux to measure memory"
)
@pytest.mark.parametrize("suffix", [".csv", pytest.param(".parquet", marks=needs_pyarrow)])
def test_memory_does_not_grow_with_the_number_of_rows(tmp_path, suffix):
    """Once blocks are full: the arrays of the files take 36 and 120 MB."""
    n_classes, sizes = 50, (90_000, 300_000)
    paths = [tmp_path / f"{n}{suffix}" for n in sizes]
    for path, n in zip(paths, sizes, strict=True):
        if suffix == ".csv":
            header = ",".join(f"logit_{k}" for k in range(n_classes))
            path.write_text(f"{header}\n" + ("1," * (n_classes - 1) + "2\n") * n)
        else:
            logits = np.broadcast_to(np.float64(1), (n, n_classes))
            dc.write(dc.CalibrationData(logits), path)
    done = subprocess.run(
        [sys.executable, "-c", _MEMORY, *paths], capture_output=True, text=True, check=True
    )
    (n_small, small), (n_large, large) = json.loads(done.stdout)
    assert (n_small, n_large) == sizes
    # Allocators keep up to 32 MB more, from run to run; all rows of the large file would take 84.
    assert large < 1.1 * small + 32, (small, large)
    assert large < 120
