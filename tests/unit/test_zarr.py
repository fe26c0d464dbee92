"""``.zarr``: what is written and read, by other programs too, and what is refused."""

import json
import pickle
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

import domaincal as dc
from domaincal._row_arrays import ComputedRows
from domaincal.data import blocked_rows
from domaincal.io import formats, zarr_group
from domaincal.io.memory_rows import rows_in_memory
from domaincal.io.zarr import write_zarr

zarr = pytest.importorskip("zarr")
pytest.importorskip("fsspec")

DATA, _ = dc.make_multi_domain(4, 25, n_classes=3, n_features=2, random_state=0)
ARRAYS = ("logits", "labels", "features", "domains", "groups")


@pytest.fixture(params=["local", "file", "memory"])
def address(request, tmp_path):
    """A path or address of each kind."""
    if request.param == "local":
        return tmp_path / "scores.zarr"
    if request.param == "file":
        return f"file:{tmp_path / 'scores.zarr'}"
    return f"memory://{tmp_path.name}/scores.zarr"


@pytest.fixture
def small_chunks(monkeypatch):
    """Chunks and blocks of 16 rows."""
    monkeypatch.setattr(blocked_rows, "BLOCK_BYTES", 16 * (3 + 2) * 4)


def _same(found, data):
    for name in ARRAYS:
        expected, values = getattr(data, name), getattr(found, name)
        assert (expected is None) == (values is None)
        if expected is not None:
            np.testing.assert_array_equal(values, expected)
            assert values.dtype == expected.dtype
    assert (found.class_names, found.feature_names) == (data.class_names, data.feature_names)
    assert found.provenance == data.provenance


def _opened(path, size=7, choice=None):
    """The blocks of open_rows, joined."""
    with dc.io.open_rows(path, choice) as opened:
        blocks = list(opened.rows.blocks(size))
        joined = {
            name: np.concatenate([getattr(block, name) for block in blocks])
            for name in ARRAYS
            if getattr(opened.rows, name) is not None
        }
        rows = opened.rows
        return dc.CalibrationData(
            **joined, class_names=rows.class_names, feature_names=rows.feature_names,
            provenance=rows.provenance,
        )  # fmt: skip


def _refused(path, array, message):
    """``read`` and ``open_rows`` with a pass over the rows have the same error of an array."""
    for use in (dc.read, _opened):
        with pytest.raises(dc.errors.FileFormatError, match=message) as caught:
            use(path)
        assert "scores.zarr" in str(caught.value)
        assert array in str(caught.value)
        assert "\n" not in str(caught.value)


def test_rows_are_read_as_they_were_written(address, small_chunks):
    data = dc.CalibrationData(
        DATA.logits.astype("f2"), labels=DATA.labels.astype("u1"), features=DATA.features,
        domains=DATA.domains, groups=np.arange(100) % 7, class_names=("b", "a", "c"),
        feature_names=("x", "y"), provenance={"model": "m"},
    )  # fmt: skip
    dc.write(DATA, address)
    dc.write(data, address)  # an earlier one is replaced
    _same(dc.read(address), data)
    _same(_opened(address), data)
    assert dc.inspect(address).format == ".zarr"


def test_files_are_chunks_of_rows_without_compression(tmp_path, small_chunks):
    dc.write(DATA, tmp_path / "scores.zarr")
    logits = zarr.open_group(tmp_path / "scores.zarr", mode="r")["logits"]
    assert logits.chunks == (16, 3)
    chunk = (tmp_path / "scores.zarr" / "logits" / "c" / "0" / "0").read_bytes()
    assert chunk[:-4] == DATA.logits[:16].tobytes()  # then a checksum


def test_threads_and_pickles_read_the_same_rows(tmp_path, small_chunks):
    dc.write(DATA, tmp_path / "scores.zarr")
    with dc.io.open_rows(tmp_path / "scores.zarr") as opened, ThreadPoolExecutor(3) as threads:
        rows = pickle.loads(pickle.dumps(opened.rows))
        starts = [*range(0, 95, 5)] * 3
        parts = threads.map(lambda start: (start, rows.read(start, start + 5)), starts)
        for start, part in parts:
            np.testing.assert_array_equal(part.logits, DATA.logits[start : start + 5])
            np.testing.assert_array_equal(part.domains, DATA.domains[start : start + 5])


def test_fits_of_blocks_are_those_of_memory(address, small_chunks):
    dc.write(DATA, address)
    expected = dc.DomainTemperatureScaling().fit(DATA)
    with dc.io.open_rows(address) as opened:
        found = dc.DomainTemperatureScaling().fit(opened.rows)
        np.testing.assert_allclose(
            found.predict_confidence(opened.rows), expected.predict_confidence(DATA), rtol=1e-10
        )


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("names", ["texts", "numbers"])
def test_groups_of_other_programs_are_read(tmp_path, version, names):
    """Compressed, with domains by name, chunks of any size, and chunks of zeros left out."""
    path = tmp_path / "scores.zarr"
    group = zarr.open_group(path, mode="w", zarr_format=version)
    domains = np.arange(100) // 30
    arrays = {
        "logits": DATA.logits, "labels": np.zeros(100, "i4"), "domains": domains, "notes": domains,
    }  # fmt: skip
    for name, values in arrays.items():
        chunks = (10, 2) if values.ndim == 2 else (9,)
        group.create_array(name, data=values, chunks=chunks, compressors="auto")
    if names == "texts":
        names = np.array(["a", "b", "c", "site d"])[domains]
        with pytest.warns() if version == 3 else nullcontext():
            group.create_array("domains", data=names, chunks=(8,), overwrite=True)
    found = dc.read(path)
    _same(found, dc.CalibrationData(DATA.logits, labels=arrays["labels"], domains=found.domains))
    assert found.domain_names.tolist() == sorted(set(np.asarray(group["domains"][:]).tolist()))
    _same(_opened(path), found)
    assert dc.inspect(path).ignored == ("notes",)
    choice = dc.io.ColumnChoice(group="notes", logits="logits")
    assert _opened(path, choice=choice).groups.tolist() == domains.tolist()


def test_arrays_with_other_names_are_chosen(tmp_path):
    p = np.full((20, 2), 0.5)
    with zarr.config.set({"async.concurrency": 2}):
        zarr.save_group(tmp_path / "scores.zarr", p=p, y=np.arange(20) % 2)
    expected = dc.read(tmp_path / "scores.zarr", probabilities="p", label="y")
    choice = dc.io.ColumnChoice(probabilities="p", label="y")
    _same(_opened(tmp_path / "scores.zarr", choice=choice), expected)
    for use in (dc.read, _opened):
        with pytest.raises(dc.errors.FileFormatError, match=r"no logits \(found: "):
            use(tmp_path / "scores.zarr")


# Damage


def _chunks(path, array):
    return sorted(p for p in (path / array / "c").rglob("*") if p.is_file())


DAMAGE = {
    "a missing chunk": lambda chunk: chunk.unlink(),
    "an empty chunk": lambda chunk: chunk.write_bytes(b""),
    "a truncated chunk": lambda chunk: chunk.write_bytes(chunk.read_bytes()[:-9]),
    "a longer chunk": lambda chunk: chunk.write_bytes(chunk.read_bytes() + b"12345678"),
    "a changed bit": lambda chunk: chunk.write_bytes(
        bytes([chunk.read_bytes()[0] ^ 1]) + chunk.read_bytes()[1:]
    ),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
@pytest.mark.parametrize("array", ["logits", "labels", "features", "domains"])
def test_a_damaged_chunk_is_one_error_that_names_the_array(tmp_path, small_chunks, array, damage):
    dc.write(DATA, tmp_path / "scores.zarr")
    damage(_chunks(tmp_path / "scores.zarr", array)[2])
    _refused(tmp_path / "scores.zarr", f"'{array}'", "the array")


def test_a_missing_chunk_of_scores_of_another_program_is_an_error(tmp_path):
    path = tmp_path / "scores.zarr"
    group = zarr.open_group(path, mode="w")
    group.create_array("logits", data=DATA.logits, chunks=(30, 3))
    _chunks(path, "logits")[1].unlink()
    _refused(path, "'logits'", "lacks 1 of its 4 chunks")


def _change(path, **entries):
    content = json.loads((path / "zarr.json").read_text())
    (path / "zarr.json").write_text(json.dumps(content | entries))


def _attributes(path, **entries):
    content = json.loads((path / "zarr.json").read_text())
    content["attributes"]["domaincal"] |= entries
    (path / "zarr.json").write_text(json.dumps(content))


METADATA = {
    "a missing array": (lambda p: shutil.rmtree(p / "logits"), "'logits'"),
    "another length": (lambda p: _change(p / "features", shape=[99, 2]), "'features'.*99 rows"),
    "another dtype": (lambda p: _change(p / "labels", data_type="float64"), "'labels'.*float64"),
    "one dimension": (
        lambda p: _change(
            p / "logits", shape=[100],
            chunk_grid={"name": "regular", "configuration": {"chunk_shape": [16]}},
        ), "'logits'",
    ),
    "no names": (lambda p: _attributes(p, domain_names=None), "'domains'|domain_names"),
    "fewer names": (lambda p: _attributes(p, domain_names=["a"]), "'domains'|domain_names"),
    "a name twice": (lambda p: _attributes(p, domain_names=["a", "a", "b", "c"]), "domain_names"),
    "names of two types": (lambda p: _attributes(p, domain_names=["a", 1, 2, 3]), "domain_names"),
    "class names": (lambda p: _attributes(p, class_names=["a"]), "class_names"),
    "provenance": (lambda p: _attributes(p, provenance=3), "provenance"),
    "a later version": (lambda p: _attributes(p, version=2), "version 2.*upgrade"),
    "another format": (lambda p: _attributes(p, format="x"), "not ours"),
    "a writer that was killed": (lambda p: _attributes(p, complete=False), "not written to its"),
    "no JSON": (lambda p: (p / "zarr.json").write_text("{"), "cannot be read"),
    "no metadata": (lambda p: (p / "zarr.json").unlink(), "no group of Zarr"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "message"), METADATA.values(), ids=METADATA)
def test_wrong_metadata_are_one_error(tmp_path, small_chunks, change, message):
    dc.write(DATA, tmp_path / "scores.zarr")
    change(tmp_path / "scores.zarr")
    _refused(tmp_path / "scores.zarr", "", message)


@pytest.mark.parametrize("codec", ["pickle", "base64"])
def test_other_codecs_are_refused_before_a_chunk_is_read(tmp_path, codec):
    """Some could run code, such as pickle, which zarr refuses too."""
    path = tmp_path / "scores.zarr"
    zarr.save_group(path, zarr_format=2, logits=DATA.logits)
    metadata = json.loads((path / "logits" / ".zarray").read_text())
    metadata["compressor"] = {"id": codec}
    (path / "logits" / ".zarray").write_text(json.dumps(metadata))
    for chunk in (path / "logits").glob("[0-9]*"):
        chunk.unlink()
        chunk.mkdir()  # reading it would be another error
    _refused(path, "", codec)


def test_chunks_that_take_more_memory_than_allowed_are_refused(tmp_path):
    path = tmp_path / "scores.zarr"
    group = zarr.open_group(path, mode="w")
    group.create_array("logits", shape=(1 << 26, 4), chunks=(1 << 26, 4), dtype="f8")
    for use in (dc.read, _opened):
        with pytest.raises(dc.errors.FileFormatError, match=r"max_memory|lacks 1"):
            use(path)


def test_two_writers_of_an_address_are_an_error(tmp_path, small_chunks):
    def rows(value, then=lambda: None):
        def read(start, stop):
            if start:
                then()
            return np.full((stop - start, 3), value, np.float32)

        return blocked_rows.BlockedRows(ComputedRows((60, 3), np.float32, read))

    place = Path(f"memory://{tmp_path.name}/two.zarr")
    interruptions = iter([lambda: write_zarr(rows(2.0), place)])
    interrupted = rows(1.0, lambda: next(interruptions, lambda: None)())
    with pytest.raises(dc.errors.InputError, match=r"two\.zarr was written by another process"):
        write_zarr(interrupted, place)
    with pytest.raises(dc.errors.FileFormatError, match="was not written to its end"):
        dc.read(place)
    write_zarr(rows(3.0), place)
    assert (dc.read(place).logits == 3.0).all()


def test_addresses_that_cannot_be_read_or_written_say_so(tmp_path):
    with pytest.raises(dc.errors.FileFormatError, match=r"memory://nothing/here\.zarr is no group"):
        dc.read("memory://nothing/here.zarr")
    for use in (dc.read, lambda name: dc.write(DATA, name)):
        with pytest.raises(dc.errors.InputError, match=r"s3://bucket/scores.npz is an address"):
            use("s3://bucket/scores.npz")
    (tmp_path / "mine.zarr").mkdir()
    with pytest.raises(dc.errors.InputError, match=r"mine.zarr exists, but is no .zarr"):
        dc.write(DATA, tmp_path / "mine.zarr")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        dc.read(tmp_path / "missing.zarr")


def test_an_error_leaves_the_earlier_group_and_nothing_else(tmp_path, small_chunks):
    path = tmp_path / "scores.zarr"
    dc.write(DATA, path)
    rows = rows_in_memory(DATA)
    read = rows.logits.read

    def fail(start, stop):
        if start >= 48:
            raise KeyboardInterrupt
        return read(start, stop)

    rows.logits.read = fail
    with pytest.raises(KeyboardInterrupt):
        formats.write_zarr(rows, path)
    _same(dc.read(path), DATA)
    assert [p.name for p in tmp_path.iterdir()] == ["scores.zarr"]


def test_where_folders_cannot_be_exchanged_they_are_renamed(tmp_path, monkeypatch):
    from domaincal import _files

    monkeypatch.setattr(_files, "_exchanged", lambda *_: False)
    for data in (DATA, DATA[:50]):
        dc.write(data, tmp_path / "scores.zarr")
        assert len(dc.read(tmp_path / "scores.zarr")) == len(data)
    assert [p.name for p in tmp_path.iterdir()] == ["scores.zarr"]
    assert zarr_group.VERSION == 1


def test_protocols_without_their_package_are_named_with_the_cure(tmp_path, monkeypatch):
    import fsspec

    def missing(protocol):
        raise ImportError("Install s3fs to access S3")

    unknown = r"unknown://b/x\.zarr has the protocol 'unknown', which fsspec .* give a path"
    for use in (dc.read, lambda address: dc.write(DATA, address)):
        with pytest.raises(dc.errors.MissingDependencyError, match="^" + unknown):
            use("unknown://b/x.zarr")
    monkeypatch.setattr(fsspec, "get_filesystem_class", missing)
    with pytest.raises(dc.errors.MissingDependencyError, match="needs a package: Install s3fs"):
        dc.read("s3://b/x.zarr")


def test_a_file_address_is_shown_as_its_path(tmp_path):
    dc.write(DATA, tmp_path / "scores.zarr")
    assert dc.inspect(f"file://{tmp_path}/scores.zarr").path == str(tmp_path / "scores.zarr")


def _write_foreign(data, path):
    group = zarr.open_group(path, mode="a")
    group.create_array("logits", data=data.logits, chunks=(16, 2), overwrite=True)


@pytest.mark.parametrize("write", [dc.write, _write_foreign])
def test_a_group_that_is_written_again_while_it_is_read_is_an_error(
    address, small_chunks, write, tmp_path
):
    """Its rows are never mixed with those that were read before."""
    if write is _write_foreign:
        address = tmp_path / "foreign.zarr"
    other, _ = dc.make_multi_domain(4, 25, n_classes=3, n_features=2, random_state=1)
    write(DATA, address)
    with dc.io.open_rows(address) as opened:
        blocks = opened.rows.blocks(16)
        np.testing.assert_array_equal(next(blocks).logits, DATA.logits[:16])
        write(other, address)
        with pytest.raises(dc.errors.FileFormatError, match="was changed or replaced while it was"):
            list(blocks)


def test_a_group_at_an_address_that_is_removed_while_it_is_read_is_an_error(small_chunks, tmp_path):
    import fsspec

    address = f"memory://{tmp_path.name}/scores.zarr"
    dc.write(DATA, address)
    with dc.io.open_rows(address) as opened:
        next(opened.rows.blocks(16))
        fsspec.filesystem("memory").rm(f"/{tmp_path.name}", recursive=True)
        with pytest.raises(dc.errors.FileFormatError, match=r"scores\.zarr"):
            list(opened.rows.blocks(16))
