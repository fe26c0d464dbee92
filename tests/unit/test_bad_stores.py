"""Bad stores: each gives one error that names the store, and appends change all or nothing."""

import hashlib
import json
import os
import shutil
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import domaincal as dc
from domaincal.io.store_snapshot import StoreSnapshot
from sealed_stores import change_meta, change_shard, seal

DATA, _ = dc.make_multi_domain(3, 20, 3, 2, random_state=0)
Z, Y = DATA.logits, DATA.labels
FULL = {"logits": Z, "labels": Y, "features": DATA.features, "domains": DATA.domains}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    path = tmp_path_factory.mktemp("made") / "scores"
    for name, part in DATA.by_domain():
        dc.Store(path).append(part)
        assert name in dc.read(path).domains
    return path


@pytest.fixture
def store(made, tmp_path):
    return Path(shutil.copytree(made, tmp_path / "scores"))


def _refused(path, message, **options):
    with pytest.raises(dc.errors.FileFormatError, match=message) as caught:
        dc.read(path, **options)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def _version_2(folder):
    """A store that domaincal 0.1 wrote."""
    store = folder / "earlier"
    shutil.copytree(Path(__file__).parents[1] / "archives" / "v2" / "scores", store)
    return store


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
    _refused(store, "part-00000/shard.json is missing")
    (store / "meta.json").unlink()
    _refused(store, "meta.json is missing")


NESTED = json.loads("[" * 500 + "]" * 500)
HUGE = 10**4000
BAD_META = [
    (lambda m: m.update(format="zarr"), "not the meta.json of a domaincal store"),
    (lambda m: m.update(version=4), "version 4 of the format.*up to version 3; upgrade"),
    (lambda m: m.update(version="1"), "version 1"),
    (lambda m: m.update(version=0), "version 0"),
    (lambda m: m.update(version=HUGE), "version 1000"),
    (lambda m: m["columns"].update(logits=3.0), "logits has 3.0 columns"),
    (lambda m: m["columns"].update(logits=HUGE), "logits has 1000.* columns"),
    (lambda m: m["columns"].update(domains=2), "domains must be indices of names"),
    (lambda m: m["columns"].update({"../x": 2}), "cannot be read"),
    (lambda m: m.update(columns=3), "cannot be read"),
    (lambda m: m.update(columns=NESTED), "cannot be read"),
    (lambda m: m.update(dtypes=list(m["dtypes"])), "cannot be read"),
    (lambda m: m["dtypes"].update(logits="O"), "logits has the dtype O"),
    (lambda m: m["dtypes"].update(logits="f4,f4"), "logits has the dtype f4,f4"),
    (lambda m: m["dtypes"].update(logits=NESTED), "logits has the dtype"),
    (lambda m: m["dtypes"].update(logits="nonsense"), "cannot be read"),
    (lambda m: m["dtypes"].update(domains="<f8"), "domains must be indices of names"),
    (lambda m: m.update(class_names="abc"), "must be a list"),
    (lambda m: m.update(class_names=[1, 2, 3]), "must be a list"),
    (lambda m: m.update(class_names=["a", NESTED, "c"]), "must be a list"),
    (lambda m: m.update(class_names=["a", "a", "c"]), "a name is listed twice"),
    (lambda m: m.update(class_names=["a", "b", "c" * 1001]), "1001 characters"),
    (lambda m: m.update(class_names=["a", "b", "\ud800"]), "lone surrogate"),
    (lambda m: m.update(feature_names={}), "must be a list"),
    (lambda m: m.update(provenance=["a"]), "provenance must be an object"),
    (lambda m: m.update(provenance=NESTED), "provenance must be an object"),
    (lambda m: m.update(surprise=1), "cannot be read"),
]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        *BAD_META,
        (lambda m: m.update(n_rows=-1), "n_rows, n_parts and first_part"),
        (lambda m: m.update(n_rows=HUGE), "n_rows, n_parts and first_part"),
        (lambda m: m.update(n_rows=10**12), "do not have the checksum"),
        (lambda m: m.update(n_rows=[60]), "n_rows, n_parts and first_part"),
        (lambda m: m.update(n_parts=2), "do not have the checksum"),
        (lambda m: m.update(n_rows=1 << 40, n_parts=10**9), "part-00003/shard.json is missing"),
        (lambda m: m.update(n_parts=True), "n_rows, n_parts and first_part"),
        (lambda m: m.update(first_part=1), "part-00003/shard.json is missing"),
        (lambda m: m.update(first_part=10**9), "n_rows, n_parts and first_part"),
        (lambda m: m.update(first_part=-1), "n_rows, n_parts and first_part"),
        (lambda m: m.update(first_part="/etc"), "n_rows, n_parts and first_part"),
        (lambda m: m.update(digest="a"), "is not a sha256"),
        (lambda m: m.update(digest=None), "is not a sha256"),
        (lambda m: m.update(earlier=["x"]), "is not a sha256"),
        (lambda m: m.update(earlier="0" * 64), "earlier.json is missing"),
        (lambda m: m.update(name_types={}), "name_types must have"),
        (lambda m: m.update(name_types={"domains": "float"}), "strings or integers"),
        (lambda m: m.update(name_types={"domains": "int"}), "must be a list of int"),
        (lambda m: m.pop("columns"), "cannot be read"),
    ],
)
def test_a_bad_meta_json_is_refused(store, change, message):
    change_meta(store, change)
    _refused(store, message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        *BAD_META,
        (lambda m: m["shards"].append(m["shards"][0]), "listed twice"),
        (lambda m: m["shards"][0].update(files=["logits"]), "has other arrays than the store"),
        (lambda m: m.update(domain_names="abc"), "must be a list"),
        (lambda m: m.update(domain_names={"a": 1, "b": 2, "c": 3}), "must be a list"),
        (lambda m: m.update(domain_names=None), "must be a list"),
        (lambda m: m.update(domain_names=[]), "must be a list"),
        (lambda m: m.update(domain_names=["a", 1, "b"]), "must be a list"),
        (lambda m: m.update(domain_names=["domain-0"]), "codes of domains that have no name"),
        (lambda m: m.update(domain_names=["a", "a", "b"]), "a name is listed twice"),
        (lambda m: m.update(group_names=[1 << 64]), "more than 64 bits"),
        (lambda m: m["shards"][0].update(name="part-00000/../x"), "not the name of a shard"),
        (lambda m: m["shards"][0].update(name="../../etc"), "not the name of a shard"),
        (lambda m: m["shards"][0].update(name="/etc"), "not the name of a shard"),
        (lambda m: m["shards"][0].update(name=5), "not the name of a shard"),
        (lambda m: m["shards"][0].update(n_rows=-1), "has -1 rows"),
        (lambda m: m["shards"][0].update(n_rows=HUGE), "has 1000.* rows"),
        (lambda m: m["shards"][0].update(n_rows=10**12), r"holds \(40, 3\)"),
        (lambda m: m["shards"][0]["files"].pop("labels"), "has other arrays than the store"),
        (lambda m: m.pop("shards"), "cannot be read"),
        (lambda m: m.update(shards=[]), "cannot be read"),
    ],
)
def test_a_bad_meta_json_of_version_2_is_refused(tmp_path, change, message):
    store = _version_2(tmp_path)
    change_meta(store, change)
    _refused(store, message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.update(n_rows=-1), "part-00000 has -1 rows"),
        (lambda s: s.update(n_rows=HUGE), "part-00000 has 1000.* rows"),
        (lambda s: s.update(n_rows=NESTED), "part-00000 has .* rows"),
        (lambda s: s.update(n_rows=19), "do not have the checksum"),
        (lambda s: s["files"].pop("labels"), "has other arrays than the store"),
        (lambda s: s.update(files=["logits"]), "has other arrays than the store"),
        (lambda s: s.update(names=None), "has other names than the store"),
        (lambda s: s["names"].update(groups=[1]), "has other names than the store"),
        (lambda s: s["names"].update(domains=None), "must be a list of str"),
        (lambda s: s["names"].update(domains=[]), "must be a list of str"),
        (lambda s: s["names"].update(domains=[1]), "must be a list of str"),
        (lambda s: s["names"].update(domains=["x" * 1001]), "1001 characters"),
        (lambda s: s["names"].update(domains=["x\0"]), "zero character"),
        (lambda s: s["names"].update(domains=["x", "x"]), "a name is listed twice"),
        (lambda s: s.update(name="part-00001"), "cannot be read"),
        (lambda s: s.pop("files"), "cannot be read"),
    ],
)
def test_a_bad_shard_json_is_refused(store, change, message):
    change_shard(store, change)
    _refused(store, message)


def test_codes_without_a_name_are_refused(store):
    np.save(store / "part-00001" / "domains.npy", np.full(20, 1))
    _refused(store, "part-00001 has codes of domains that have no name")
    np.save(store / "part-00001" / "domains.npy", np.full(20, -1))
    _refused(store, "part-00001 has codes of domains that have no name")


@pytest.mark.parametrize("file", ["meta.json", "part-00001/shard.json"])
def test_a_json_file_that_is_not_json_is_refused(store, file):
    for content in (b"", b"{", b"[]", b"\xff", b"[" * 100_000, b'{"a":' * 2000, b"9" * 5000, b"1"):
        (store / file).write_bytes(content)
        if file != "meta.json":
            seal(store)
        _refused(store, "cannot be read|not the meta.json of a domaincal store")


@pytest.mark.parametrize("depth", [50, 300, 600, 900, 1100])
def test_deeply_nested_provenance_gives_rows_or_one_error(store, depth):
    change_meta(store, lambda meta: meta.update(provenance={"a": "here"}))
    nested = "[" * depth + "]" * depth
    meta = json.loads((store / "meta.json").read_text())
    head = {key: meta.pop(key) for key in ("format", "version", "sha256")}
    content = json.dumps(meta).replace('"here"', nested)
    head["sha256"] = hashlib.sha256(content.encode()).hexdigest()
    (store / "meta.json").write_text(json.dumps(head)[:-1] + ", " + content[1:])
    for use in (dc.read, dc.Store.verify, dc.Store.__len__, lambda s: s.append(DATA)):
        refused = depth > 1000 or (depth > 50 and None)
        try:
            use(store if use is dc.read else dc.Store(store))
        except dc.errors.FileFormatError:
            assert refused is not False
        else:
            assert refused is not True


def test_changed_json_files_are_found_without_verify(store):
    shard = store / "part-00001" / "shard.json"
    content = shard.read_text()
    shard.write_text(content.replace("domain-1", "domain-7"))
    _refused(store, "has changed since it was written")
    shard.write_text(content)
    assert len(dc.read(store, verify=True)) == 60
    meta = json.loads((store / "meta.json").read_text())
    meta["provenance"] = {"site": "another"}
    (store / "meta.json").write_text(json.dumps(meta))
    _refused(store, "meta.json has changed since it was written")


def test_a_shard_whose_meta_json_cannot_be_written_is_removed(store, monkeypatch):
    before = len(dc.Store(store))

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("domaincal.io.store.replacing", full)
    with pytest.raises(OSError, match=r"No space.*/scores'"):
        dc.Store(store).append(DATA)
    monkeypatch.undo()
    assert len(dc.Store(store)) == before
    assert len(list(store.glob("part-*"))) == 3


def test_an_interrupt_after_the_commit_keeps_the_rows(store, monkeypatch):
    """Ctrl-C can come after meta.json counts the shard, while its folder is synced."""
    replace = os.replace

    def interrupted(old, new):
        replace(old, new)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        dc.Store(store).append(DATA)
    monkeypatch.undo()
    assert len(dc.read(store, verify=True)) == 120


def _parts(store):
    return sorted(p.name for p in store.glob("part-*"))


def test_leftover_shards_are_never_read(store):
    for left in ("part-00003", "part-00007"):  # of killed writers
        shutil.copytree(store / "part-00000", store / left)
    assert len(dc.read(store)) == 60
    dc.Store(store).append(DATA)
    assert len(dc.read(store, verify=True)) == 120
    (store / "part-of-my-notes.txt").touch()
    dc.Store(store).write(DATA)
    assert len(dc.read(store, verify=True)) == 60
    # Numbers of shards that were read are not used again; files of others stay.
    assert _parts(store) == ["part-00004", "part-of-my-notes.txt"]


def test_a_link_in_place_of_a_shard_is_removed_and_not_followed(store, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("dear")
    (store / "part-00003").symlink_to(tmp_path / "mine")
    (store / "part-00009").symlink_to(tmp_path / "mine")
    dc.Store(store).append(DATA)
    dc.Store(store).write(DATA)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "dear"
    assert _parts(store) == ["part-00004"]


def test_meta_json_does_not_grow_with_the_shards(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: None)
    store = dc.Store(tmp_path / "s")
    sizes = []
    for k in range(20):
        groups = np.arange(60) + 60 * k
        store.append(dc.CalibrationData(**FULL, groups=groups))
        sizes.append((tmp_path / "s" / "meta.json").stat().st_size)
    assert sizes[-1] <= sizes[0] + 4  # the digits of n_rows and n_parts
    data = store.read(verify=True)
    np.testing.assert_array_equal(data.groups, np.arange(60 * 20))
    np.testing.assert_array_equal(data.domains, np.tile(DATA.domains, 20))


def test_an_append_does_not_list_the_folder_nor_read_the_shards(store, monkeypatch):
    shutil.rmtree(store / "part-00001")
    listed = []
    scandir = os.scandir
    monkeypatch.setattr(
        os, "scandir", lambda path=".": (listed.append(Path(path)), scandir(path))[1]
    )
    monkeypatch.setattr(os, "listdir", None)
    dc.Store(store).append(DATA)
    # Beside the store, a process that was killed can have left its lock.
    assert listed == [store.parent]
    assert len(dc.Store(store)) == 120


def test_memory_is_checked_before_it_is_allocated(store, monkeypatch):
    monkeypatch.setattr("domaincal.io.store_snapshot.np.empty", None)
    for reader in (dc.Store(store).read, dc.Store(store).read_raw):
        with pytest.raises(dc.errors.FileFormatError, match=r"more than 3.0 kB; .*max_memory"):
            reader(max_memory=3000)
    (store / "meta.json").write_text("[" + "[]," * 10_000)
    with pytest.raises(dc.errors.FileFormatError, match=r"meta.json has 30.0 kB.*max_memory"):
        dc.Store(store).read(max_memory="100 kB")


ROWS = 30_000
TEXTS = np.array([f"{k}" for k in range(ROWS)], object)


@pytest.mark.parametrize(
    "given",
    [
        {"domains": np.array(["a" * 1000, "b" * 1000], object)[np.arange(ROWS) % 2]},
        {"domains": TEXTS},
        {"domains": np.array(["\U0001f600" + "a" * 300, "b"], object)[[0] + [1] * (ROWS - 1)]},
        {"domains": TEXTS[np.arange(ROWS) // 2], "groups": np.arange(ROWS)},
        {"logits": np.zeros((ROWS, 60), "f4"), "labels": np.zeros(ROWS, "i1")},
        {"logits": np.zeros((ROWS, 60), ">f4"), "features": np.zeros((ROWS, 9), ">f8")},
    ],
    ids=["long names", "many names", "wide characters", "both", "wide logits", "byte order"],
)
def test_the_estimated_memory_is_enough(tmp_path, given):
    """Fixed-width arrays would take 120 MB for the long names, 36 MB for the wide characters."""
    store = dc.Store(tmp_path / "rows")
    data = dc.CalibrationData(**{"logits": np.zeros((ROWS, 2), "f4"), **given})
    for rows in (slice(ROWS // 3), slice(ROWS // 3, ROWS)):
        store.append(data[rows])
    snapshot = StoreSnapshot.of(store.path)
    estimate = snapshot._memory_to_read()
    assert estimate < 20_000_000 + 2 * data.logits.nbytes
    del snapshot
    tracemalloc.start()
    store.read(max_memory=estimate)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.3 * estimate + 200_000
    with pytest.raises(dc.errors.FileFormatError, match="max_memory"):
        store.read(max_memory=estimate - 1)


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


def test_integers_that_a_store_cannot_hold_are_refused(tmp_path):
    rows = dc.CalibrationData(Z[:2], domains=np.array([1, 2**63], np.uint64))
    with pytest.raises(dc.errors.InputError, match="domains contains 9223372036854775808, but"):
        dc.Store(tmp_path / "s").append(rows)
    assert list(tmp_path.iterdir()) == []
    rows = dc.CalibrationData(Z[:2], domains=[-(2**63), 2**63 - 1])
    dc.Store(tmp_path / "s").append(rows)
    assert dc.read(tmp_path / "s").domains.tolist() == [-(2**63), 2**63 - 1]
