"""Bad stores: each gives one error that names the store, and appends change all or nothing."""

import json
import shutil

import numpy as np
import pytest

import domaincal as dc

DATA, _ = dc.make_multi_domain(3, 20, 3, 2, random_state=0)
Z, Y = DATA.logits, DATA.labels
FULL = {"logits": Z, "labels": Y, "features": DATA.features, "domains": DATA.domains}


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "scores"
    for name, part in DATA.by_domain():
        dc.Store(path).append(part)
        assert name in dc.read(path).domains
    return path


def _refused(path, message, **options):
    with pytest.raises(dc.errors.FileFormatError, match=message) as caught:
        dc.read(path, **options)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def _change_meta(store, change):
    meta = json.loads((store / "meta.json").read_text())
    change(meta)
    (store / "meta.json").write_text(json.dumps(meta))


def test_verify_finds_a_wrong_checksum(store):
    path = store / "part-00001" / "features.npy"
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    dc.read(store)
    _refused(store, r"part-00001/features.npy has changed since", verify=True)
    with pytest.raises(dc.errors.FileFormatError, match="checksum"):
        dc.inspect(store, verify=True)


def test_a_shard_of_another_shape_dtype_or_order_is_refused(store):
    np.save(store / "part-00001" / "logits.npy", Z[:20, :2])
    _refused(store, r"part-00001/logits.npy holds \(20, 2\).* says \(20, 3\)")
    np.save(store / "part-00001" / "logits.npy", Z[:19])
    _refused(store, r"holds \(19, 3\)")
    np.save(store / "part-00001" / "logits.npy", Z[:20].astype("f8"))
    _refused(store, "holds .* of float64")
    np.save(store / "part-00001" / "logits.npy", np.asfortranarray(Z[:20]))
    _refused(store, "in Fortran order")


def test_missing_files_are_named(store):
    (store / "part-00001" / "labels.npy").unlink()
    _refused(store, "labels.npy is missing")
    shutil.rmtree(store / "part-00000")
    _refused(store, "part-00000/logits.npy is missing")
    (store / "meta.json").unlink()
    _refused(store, "meta.json is missing")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.update(format="zarr"), "not the meta.json of a domaincal store"),
        (lambda m: m.update(version=3), "version 3 of the format.*up to version 2; upgrade"),
        (lambda m: m.update(version="1"), "version 1"),
        (lambda m: m.update(version=0), "version 0"),
        (lambda m: m["shards"].append(m["shards"][0]), "listed twice"),
        (lambda m: m["shards"][0].update(files=["logits"]), "has other arrays than the store"),
        (lambda m: m["columns"].update(logits=3.0), "logits has 3.0 columns"),
        (lambda m: m.update(domain_names="abc"), "must be a list"),
        (lambda m: m.update(domain_names={"a": 1, "b": 2, "c": 3}), "must be a list"),
        (lambda m: m.update(class_names="abc"), "must be a list"),
        (lambda m: m["shards"][0].update(name="part-00000/../x"), "not the name of a shard"),
        (lambda m: m["shards"][0].update(name="../../etc"), "not the name of a shard"),
        (lambda m: m["shards"][0].update(name="/etc"), "not the name of a shard"),
        (lambda m: m["shards"][0].update(n_rows=-1), "has -1 rows"),
        (lambda m: m["shards"][0].update(n_rows=10**12), r"holds \(20, 3\)"),
        (lambda m: m["shards"][0]["files"].pop("labels"), "has other arrays than the store"),
        (lambda m: m["columns"].update({"../x": 2}), "cannot be read"),
        (lambda m: m["dtypes"].update(logits="O"), "logits has the dtype O"),
        (lambda m: m["dtypes"].update(logits="nonsense"), "cannot be read"),
        (lambda m: m.update(domain_names=["domain-0"]), "codes of domains that have no name"),
        (lambda m: m.update(domain_names=["a", "a", "b"]), "a name is listed twice"),
        (lambda m: m.update(surprise=1), "cannot be read"),
        (lambda m: m.pop("shards"), "cannot be read"),
        (lambda m: m.update(columns=3), "cannot be read"),
    ],
)
def test_a_bad_meta_json_is_refused(store, change, message):
    _change_meta(store, change)
    _refused(store, message)


def test_a_meta_json_that_is_not_json_is_refused(store):
    for content in (b"", b"{", b"[]", b"\xff", b"[" * 100_000):
        (store / "meta.json").write_bytes(content)
        _refused(store, "cannot be read|not the meta.json of a domaincal store")


def test_verify_finds_a_changed_meta_json(store):
    _change_meta(store, lambda m: m["domain_names"].reverse())
    assert dc.read(store).domains.tolist() != DATA.domains.tolist()
    _refused(store, "meta.json has changed since it was written", verify=True)


def test_a_shard_whose_meta_json_cannot_be_written_is_removed(store, monkeypatch):
    before = len(dc.Store(store))

    def full(path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("domaincal.io.store.atomic_file", full)
    with pytest.raises(OSError, match="No space"):
        dc.Store(store).append(DATA)
    monkeypatch.undo()
    assert len(dc.Store(store)) == before
    assert len(list(store.glob("part-*"))) == 3


def test_leftover_shards_are_never_read_and_their_numbers_not_reused(store):
    shutil.copytree(store / "part-00000", store / "part-00007")  # of a killed writer
    assert len(dc.read(store)) == 60
    dc.Store(store).append(DATA)
    names = sorted(p.name for p in store.glob("part-*"))
    assert names == ["part-00000", "part-00001", "part-00002", "part-00008"]


def test_provenance_keeps_the_entries_that_all_appended_rows_share(tmp_path):
    store = dc.Store(tmp_path / "s")
    for site in "ab":
        rows = dc.CalibrationData(Z, provenance={"model": "m", "site": site})
        store.append(rows)
    assert store.read().provenance == {"model": "m"}


@pytest.mark.parametrize("verb", ["append", "write"])
def test_only_calibration_data_are_stored(tmp_path, verb):
    with pytest.raises(dc.errors.InputError, match="data must be CalibrationData, got dict"):
        getattr(dc.Store(tmp_path / "s"), verb)({})
    assert not list(tmp_path.iterdir())


def test_a_missing_store_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no store"):
        dc.Store(tmp_path / "s").read()
    with pytest.raises(FileNotFoundError):
        dc.read(tmp_path / "s")


def test_errors_of_the_rows_name_the_store(tmp_path):
    dc.write(dc.CalibrationData(np.full((2, 2), np.nan)), tmp_path / "s")
    for reader in (dc.read, lambda path: dc.Store(path).read()):
        with pytest.raises(dc.errors.FileFormatError, match=r"/s: logits contains NaN"):
            reader(tmp_path / "s")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (dc.CalibrationData(Z, labels=Y), "arrays: 3 columns of logits, labels and"),
        (dc.CalibrationData(**{**FULL, "logits": Z.astype("f8")}), "types"),
        (dc.CalibrationData(**{**FULL, "features": DATA.features.astype("i8")}), "types"),
        (dc.CalibrationData(**{**FULL, "domains": np.ones(60, int)}), "type of domains"),
        (dc.CalibrationData(**FULL, class_names=list("abc")), "class names"),
        (dc.CalibrationData(**{**FULL, "logits": Z[:, :2], "labels": Y % 2}), "arrays"),
    ],
)
def test_rows_that_do_not_fit_are_not_appended(store, rows, message):
    before = dc.read(store)
    with pytest.raises(dc.errors.InputError, match=f"differ in their.*{message}"):
        dc.Store(store).append(rows)
    np.testing.assert_array_equal(dc.read(store, verify=True).logits, before.logits)


def test_appended_numbers_are_widened_to_the_dtypes_of_the_store(store):
    rows = {**FULL, "features": DATA.features.astype("f2"), "labels": Y.astype("i1")}
    dc.Store(store).append(dc.CalibrationData(**rows))
    data = dc.read(store, verify=True)
    assert data.features.dtype == np.float32
    np.testing.assert_array_equal(data.features[60:], rows["features"])


def test_a_folder_that_is_not_a_store_is_never_written(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("dear")
    with pytest.raises(dc.errors.InputError, match="is a folder, but not a store; choose another"):
        dc.write(DATA, tmp_path / "mine")
    with pytest.raises(dc.errors.FileFormatError, match="neither a complete store"):
        dc.Store(tmp_path / "mine").append(DATA)
    assert [p.name for p in (tmp_path / "mine").iterdir()] == ["thesis.txt"]
