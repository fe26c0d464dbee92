"""Faults while files are read or written in blocks: one clear error, and nothing half-written."""

import importlib.util
import subprocess
import sys
import tempfile
import threading

import numpy as np
import pytest

import domaincal as dc
from domaincal.data import blocked_rows
from domaincal.io import csv_chunks, opened_rows
from domaincal.io.columns import frame_of

pytest.importorskip("resource")
EXTRAS = {".parquet": "pyarrow", ".zarr": "zarr"}
SUFFIXES = [
    suffix
    for suffix in ("", ".csv", ".csv.gz", ".parquet", ".zarr")
    if importlib.util.find_spec(EXTRAS.get(suffix, "numpy"))
]
DATA, _ = dc.make_multi_domain(4, 250, n_classes=10, n_features=4, random_state=0)


def _names(folder):
    """Files and folders; a store that is written to gets a file to lock."""
    return sorted(str(p) for p in folder.rglob("*") if p.name != ".lock")


# The process may not write files of more than some bytes, as on a full disk.
_FULL = """
import resource, signal, sys, tempfile
import domaincal as dc
from domaincal.io import opened_rows
opened_rows.STREAMED_FROM = 0
tempfile.tempdir = "copies"
limit, *names = sys.argv[1:]
def says(use, *arguments):
    try:
        use(*arguments)
        print("done")
    except (OSError, dc.DomaincalError) as error:
        print(f"{type(error).__name__}|{error.filename}|{error.strerror}")
for name in names:  # imports what is needed
    dc.read(name)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
"""
_CONVERT = "for name in names: says(dc.convert, 'source', name)"
_OPEN = """
def open_and_read(name):
    with dc.io.open_rows(name) as opened:
        print(len(opened.rows))
for name in names: says(open_and_read, name)
"""


def _on_a_full_disk(folder, code, names, limit):
    (folder / "copies").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", _FULL + code, str(limit), *names],
        cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    assert not list((folder / "copies").iterdir())
    return done.stdout.splitlines()


def test_a_full_disk_leaves_the_earlier_outputs(tmp_path):
    dc.write(DATA, tmp_path / "source")
    names = [f"scores{suffix}" for suffix in SUFFIXES]
    for name in names:
        dc.write(DATA[:50], tmp_path / name)
    before = _names(tmp_path)
    printed = _on_a_full_disk(tmp_path, _CONVERT, names, 20_000)
    assert printed == [f"OSError|{name}|File too large" for name in names]
    assert _names(tmp_path) == sorted([*before, str(tmp_path / "copies")])
    for name in names:
        assert len(dc.read(tmp_path / name, verify=True)) == 50


def test_a_full_disk_for_the_temporary_copy_names_the_folder_and_the_cure(tmp_path):
    names = [f"scores{suffix}" for suffix in SUFFIXES if suffix not in ("", ".zarr")]
    for name in names:
        dc.write(DATA, tmp_path / name)
    printed = _on_a_full_disk(tmp_path, _OPEN, names, 20_000)
    assert len(printed) == len(names)
    for name, line in zip(names, printed, strict=True):
        kind, folder, reason = line.split("|")
        assert (kind, folder) == ("OSError", "copies")
        assert reason.startswith(f"File too large, while a temporary copy of {name} was written;")
        assert "set TMPDIR" in reason


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_two_writers_of_one_output_leave_the_rows_of_one(tmp_path, suffix):
    """Each writes at its own temporary name."""
    parts = [DATA[:600], DATA[400:]]
    for k, part in enumerate(parts):
        dc.write(part, tmp_path / f"source-{k}")
    path, errors = tmp_path / f"scores{suffix}", []

    def convert(k):
        try:
            for _ in range(3):
                dc.write(dc.Store(tmp_path / f"source-{k}"), path)
        except Exception as error:
            errors.append(error)

    writers = [threading.Thread(target=convert, args=(k,)) for k in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert not errors
    found = dc.read(path, verify=True)
    assert any(np.allclose(found.logits, part.logits, rtol=1e-6) for part in parts)
    assert {p.name for p in tmp_path.iterdir()} == {"source-0", "source-1", path.name}


def _truncate(path):
    path.write_bytes(path.read_bytes()[:-40])


FAULTS = {"missing": lambda path: path.unlink(), "truncated": _truncate}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize(
    ("name", "inner"),
    [("scores", "part-00000/features.npy")]
    + ([("scores.zarr", "features/c/2/0")] if ".zarr" in SUFFIXES else []),
)
def test_a_part_that_goes_wrong_while_rows_are_read_is_one_error(
    tmp_path, monkeypatch, name, inner, fault
):
    monkeypatch.setattr(blocked_rows, "BLOCK_BYTES", 100 * 14 * 4)
    dc.write(DATA, tmp_path / name)
    with dc.io.open_rows(tmp_path / name) as opened:
        if fault is _truncate:  # a file that is removed stays readable for who has opened it
            next(opened.rows.blocks())
        fault(tmp_path / name / inner)
        if name == "scores.zarr":
            message = "the array 'features'"
        else:
            message = r"features\.npy was (changed|removed)"
        with pytest.raises(dc.errors.FileFormatError, match=message):
            list(opened.rows.blocks(30))


@pytest.mark.parametrize("suffix", [s for s in SUFFIXES if s not in ("", ".zarr")])
def test_a_truncated_table_is_one_error_that_leaves_no_copy(tmp_path, monkeypatch, suffix):
    monkeypatch.setattr(csv_chunks, "_CELLS_AT_A_TIME", 1600)
    (tmp_path / "copies").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "copies"))
    path = tmp_path / f"scores{suffix}"
    dc.write_table(frame_of(DATA)[[f"logit_{k}" for k in range(10)]], path)
    content = path.read_bytes()
    path.write_bytes(content[: content.rindex(b",")] if suffix == ".csv" else content[:-40])
    with pytest.raises(dc.errors.FileFormatError, match="scores"), dc.io.open_rows(path):
        pass
    assert not list((tmp_path / "copies").iterdir())
    assert opened_rows.STREAMED_FROM == 1 << 28
