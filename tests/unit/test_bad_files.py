"""Files that cannot be used: each gives one clear error, and the earlier good file stays."""

import io
import json
import shutil
import tracemalloc
import warnings
import zipfile

import numpy as np
import pandas as pd
import pytest

import domaincal as dc

DATA, _ = dc.make_multi_domain(3, 20, 3, 2, random_state=0)
Z, Y = DATA.logits, DATA.labels
FULL = {"logits": Z, "labels": Y, "features": DATA.features, "domains": DATA.domains}


def _frame(**changes):
    columns = {f"logit_{k}": Z[:, k] for k in range(3)} | {"label": Y, "domain": DATA.domains}
    return pd.DataFrame({k: v for k, v in {**columns, **changes}.items() if v is not None})


def _npz(**arrays):
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


def _zip(members, compression=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a name that is there twice
        with zipfile.ZipFile(out, "w", compression) as archive:
            for name, content in members:
                archive.writestr(name, content)
    return out.getvalue()


def _npy(array):
    out = io.BytesIO()
    np.save(out, array, allow_pickle=True)
    return out.getvalue()


def _npy_of_shape(shape, descr="<f8", content=b"\0" * 80):
    """An array whose header claims a shape."""
    out = io.BytesIO()
    header = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(out, header)
    return out.getvalue() + content


_BOMB = _zip([("logits.npy", _npy(np.zeros((20_000_000, 2))))], zipfile.ZIP_DEFLATED)
_GOOD = _npz(**FULL)

NPZ = {
    "empty": (b"", "cannot be read"),
    "truncated": (_GOOD[:-500], "cannot be read"),
    "damaged": (_GOOD[:300] + b"\xff" + _GOOD[301:], "no readable .npy array .Bad CRC"),
    "another format": (b"label,domain\n1,2\n", "cannot be read"),
    "no logits": (_npz(scores=Z, labels=Y), r"no logits in it \(found: 'labels', 'scores'\)"),
    "objects": (_npz(logits=Z, domains=np.array([{"a": 1}] * 60, object)), "holds Python objects"),
    "records": (_npz(logits=np.zeros(3, [("a", "f8")])), "records"),
    "a bomb": (_BOMB, "looks made to fill the memory"),
    "a lie": (_zip([("logits.npy", _npy_of_shape((10**12, 2)))]), "truncated or damaged"),
    "a negative shape": (_zip([("logits.npy", _npy_of_shape((-1, 2)))]), "truncated or damaged"),
    "short": (_zip([("logits.npy", _npy(Z)[:-8])]), "truncated or damaged"),
    "long": (_zip([("logits.npy", _npy(Z) + b"more")]), "truncated or damaged"),
    "no array": (_zip([("logits.npy", b"hello")]), "no readable .npy array"),
    "a path": (_zip([("../logits.npy", _npy(Z))]), r"'\.\./logits.npy', which is no name"),
    "an absolute path": (_zip([("/tmp/x.npy", _npy(Z))]), "which is no name of an array"),
    "twice": (_zip([("logits.npy", _npy(Z))] * 2), "holds a name twice"),
    "lengths": (_npz(logits=Z, labels=Y[:-1]), "labels has 59 rows"),
    "features' length": (_npz(**{**FULL, "features": np.ones((2, 2))}), "features has 2 rows"),
    "one dimension": (_npz(logits=Z[:, 0]), "must have two dimensions"),
    "no rows": (_npz(logits=Z[:0]), "logits is empty"),
    "NaN": (_npz(logits=np.where(np.arange(3) == 1, np.nan, Z)), r"NaN \(row 0, column 1\)"),
    "infinite features": (_npz(**{**FULL, "features": DATA.features * np.inf}), "features contain"),
    "class names": (_npz(logits=Z, class_names=np.array(["a", "b"])), "2 names, but .* 3 classes"),
    "numbers as names": (_npz(logits=Z, class_names=np.arange(3)), "array of strings"),
    "texts as labels": (_npz(logits=Z, labels=np.array(["cat"] * 60)), "integer class indices"),
    "unknown names": (
        _npz(logits=Z, class_names=list("abc"), labels=np.array(["d"] * 60)),
        "'d' .row 0., which is none of the classes a, b, c",
    ),
    "labels out of range": (_npz(logits=Z, labels=Y + 3), "outside the classes 0..2"),
    "no probabilities": (_npz(probabilities=Z), "probabilities must be >= 0 and sum to 1"),
    "complex": (_npz(logits=Z.astype(complex)), "Complex data"),
    "dates": (_npz(logits=Z, domains=np.array(["2020-01-01"] * 60, "M8[D]")), "domains must be"),
    "provenance": (_npz(logits=Z, provenance=np.array("{")), "provenance is no JSON"),
    "deep JSON": (_npz(logits=Z, provenance=np.array("[" * 100_000)), "cannot be read"),
    "a hidden name": (_zip([(".logits.npy", _npy(Z))]), "which is no name of an array"),
    "nothing wide": (_zip([("logits.npy", _npy_of_shape((10**14,), "|S0", b""))]), "no content"),
    "many dimensions": (_zip([("logits.npy", _npy_of_shape((1,) * 70))]), "cannot be read|damaged"),
    "long names": (_npz(logits=Z, domains=np.array(["x" * 1001] * 60)), "too long"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "message"), NPZ.values(), ids=NPZ)
def test_npz(tmp_path, content, message):
    path = tmp_path / "scores.npz"
    path.write_bytes(content)
    with pytest.raises(dc.errors.FileFormatError, match=message) as caught:
        dc.read(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


CSV = {
    "empty": ("", "no logits in it .found: nothing"),
    "header only": ("logit_0,logit_1\n", "logits is empty"),
    "a gap": (_frame(logit_1=None).to_csv(index=False), "'logit_1' is missing"),
    "twice": ("logit_0,logit_0,logit_1\n1,2,3\n", "'logit_0' is there 2 times"),
    "padded twice": ("logit_0,logit_00,logit_1\n1,2,3\n", "'logit_1' is missing, or there twice"),
    "a word": ("logit_0,logit_1\n1,2\n3,many\n", "'logit_1' contains 'many' in row 1"),
    "an empty cell": ("logit_0,logit_1\n1,2\n3,\n", r"NaN \(row 1, column 1\)"),
    "NA": ("logit_0,logit_1\n1,2\nNA,3\n", r"NaN \(row 1, column 0\)"),
    "a short row": ("logit_0,logit_1,domain\n1,2,a\n3\n", "'domain' is empty in row 1"),
    "a long row": ("logit_0,logit_1\n1,2\n3,4,5\n", "cannot be read|more cells"),
    "all rows long": ("logit_0,logit_1\n1,2,3\n3,4,5\n", "more cells than its header"),
    "no label": ("logit_0,logit_1,label\n1,2,0\n3,4,\n", "'label' is empty in row 1"),
    "a fraction": ("logit_0,logit_1,label\n1,2,0\n3,4,0.5\n", "must be integer class indices"),
    "other words": ("logit_a,logit_b,label\n1,2,a\n3,4,c\n", "'c' .row 1., which is none of"),
    "not text": (b"logit_0,logit_1\n\xff\xfe,1\n", "cannot be read"),
    "semicolons": ("logit_0;logit_1\n1;2\n", "is separated by ';'; save it with commas"),
    "tabs": ("logit_0\tlogit_1\n1\t2\n", r"is separated by '\\t'"),
    "numbers and a name": ("logit_0,logit_1,logit_max\n1,2,2\n", "'logit_max' is not; name all"),
    "names and numbers": (
        "logit_1,logit_bg,label\n1,2,1\n3,4,0\n", "names of classes .'1'. and others .'0' in row 1"
    ),
    "a long name": (f"logit_0,logit_1,domain\n1,2,{'x' * 5000}\n", "too long"),
    "no scores": ("label,domain\n1,a\n", "no logits in it .found: 'label', 'domain'"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "message"), CSV.values(), ids=CSV)
def test_csv(tmp_path, content, message):
    path = tmp_path / "scores.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(dc.errors.FileFormatError, match=message) as caught:
        dc.read(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_csv_of_a_spreadsheet(tmp_path):
    """A mark in front, windows' line ends, columns in any order, a domain named NA."""
    path = tmp_path / "scores.csv"
    text = "note,logit_1,domain, logit_0,label\r\nhi,2,NA,1,1.0\r\n,4,null,3,0\r\n"
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    data = dc.read(path)
    assert data.logits.tolist() == [[1, 2], [3, 4]]
    assert data.domains.tolist() == ["NA", "null"]
    assert data.labels.tolist() == [1, 0]
    assert dc.inspect(path).ignored == ("note",)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["1", "2"], [1, 2]),
        (["-3", "0"], [-3, 0]),
        (["007", "8"], ["007", "8"]),
        (["1.0", "2"], ["1.0", "2"]),
        (["1", "b"], ["1", "b"]),
        (["True", "False"], ["True", "False"]),
        ([str(10**18), "1"], [str(10**18), "1"]),
        ([str(10**17), "1"], [10**17, 1]),
        ([str(10**30), "1"], [str(10**30), "1"]),
    ],
)
def test_domains_of_a_csv_are_integers_or_what_is_written(tmp_path, cells, expected):
    path = tmp_path / "scores.csv"
    path.write_text("logit_0,logit_1,domain\n" + "".join(f"1,2,{cell}\n" for cell in cells))
    assert dc.read(path).domains.tolist() == expected


def test_a_class_may_have_a_number_for_a_name(tmp_path):
    data = dc.CalibrationData(np.eye(3), labels=[1, 1, 1], class_names=("ant", "2", "bee"))
    dc.write(data, tmp_path / "scores.csv")
    assert dc.read(tmp_path / "scores.csv").labels.tolist() == [1, 1, 1]
    for names in (("7", "8", "9"), ("1", "0", "2"), ("0", "1", "other")):
        numbered = dc.CalibrationData(np.eye(3), class_names=names)
        with pytest.raises(dc.errors.InputError, match=r"class_names are numbers"):
            dc.write(numbered, tmp_path / "numbers.csv")
        assert not (tmp_path / "numbers.csv").exists()
        dc.write(numbered, tmp_path / "numbers.npz")
        assert dc.read(tmp_path / "numbers.npz").class_names == names


def test_labels_that_nobody_knows_yet(tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text("logit_0,logit_1,label\n1,2,\n3,4,\n")
    assert dc.read(path).labels is None


@pytest.mark.parametrize("name", ["", "a\rb", "a\r\nb"])
def test_names_that_a_csv_would_not_give_back_are_refused(tmp_path, name):
    data = dc.CalibrationData(np.eye(2), domains=[name, "x"])
    with pytest.raises(dc.errors.InputError, match=r"'domain' holds .* which a .csv file cannot"):
        dc.write(data, tmp_path / "scores.csv")
    assert not list(tmp_path.iterdir())
    dc.write(data, tmp_path / "scores.npz")
    assert set(dc.read(tmp_path / "scores.npz").domains) == {name, "x"}


class TestParquet:
    @pytest.fixture(autouse=True)
    def _pyarrow(self):
        self.pa = pytest.importorskip("pyarrow")
        self.parquet = pytest.importorskip("pyarrow.parquet")

    def _refused(self, tmp_path, table, message):
        path = tmp_path / "scores.parquet"
        if not isinstance(table, bytes):
            self.parquet.write_table(table, path)
        else:
            path.write_bytes(table)
        with pytest.raises(dc.errors.FileFormatError, match=message) as caught:
            dc.read(path)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)

    def test_bytes(self, tmp_path):
        self._refused(tmp_path, b"", "cannot be read")
        self._refused(tmp_path, b"PAR1 hello PAR1", "cannot be read")
        dc.write(DATA, tmp_path / "good.parquet")
        self._refused(tmp_path, (tmp_path / "good.parquet").read_bytes()[:-100], "cannot be read")

    def test_columns(self, tmp_path):
        table = self.pa.Table.from_pandas
        self._refused(tmp_path, table(_frame(logit_0=None)), "'logit_0' is missing")
        self._refused(tmp_path, table(_frame(logit_0=["x"] * 60)), "'logit_0' must hold numbers")
        nulls = pd.Series([1.5] * 59 + [None])
        self._refused(tmp_path, self.pa.table({"logit_0": nulls, "logit_1": [1.0] * 60}), "row 59")
        names = [None, *DATA.domains[1:]]
        self._refused(tmp_path, table(_frame(domain=names)), "'domain' has no value in row 0")
        self._refused(tmp_path, table(_frame(label=["cat"] * 60)), "integer class indices")
        twice = self.pa.table([[1.0], [2.0], [3.0]], names=["logit_0", "logit_1", "logit_1"])
        self._refused(tmp_path, twice, "'logit_1' is there 2 times")
        lists = self.pa.table({"logit_0": [[1.0]], "logit_1": [[2.0]]})
        self._refused(tmp_path, lists, "must hold numbers")

    def test_labels_that_nobody_knows_yet(self, tmp_path):
        frame = _frame(label=pd.Series([None] * 60, dtype=object))
        self.parquet.write_table(self.pa.Table.from_pandas(frame), tmp_path / "scores.parquet")
        data = dc.read(tmp_path / "scores.parquet")
        assert data.labels is None
        np.testing.assert_array_equal(data.domains, DATA.domains)

    def test_a_bomb(self, tmp_path):
        zeros = self.pa.array(np.zeros(40_000_000, "i1")).dictionary_encode()
        table = self.pa.table({"logit_0": zeros, "logit_1": zeros})
        self._refused(tmp_path, table, "looks made to fill the memory")

    def test_a_long_name_that_is_there_often_is_read_once(self, tmp_path):
        """4,000 rows of one name of a million characters are 4 GB, in a file of a few."""
        names = np.array(["x" * 1_000_000] * 4000, object)
        table = self.pa.table({"logit_0": np.zeros(4000), "logit_1": np.ones(4000)})
        names = self.pa.array(names[:1]).dictionary_encode().take([0] * 4000)
        tracemalloc.start()
        self._refused(tmp_path, table.append_column("domain", names), "too long")
        assert (tmp_path / "scores.parquet").stat().st_size < 3_000_000
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 100_000_000

    def test_a_damaged_description(self, tmp_path):
        table = self.pa.Table.from_pandas(_frame()).replace_schema_metadata({b"domaincal": b"{"})
        self._refused(tmp_path, table, "damaged description")

    def test_a_changed_page_is_found_on_demand(self, tmp_path):
        path = tmp_path / "scores.parquet"
        dc.write(DATA, path)
        content = path.read_bytes()
        place = content.index(np.ascontiguousarray(Z[:, 0]).tobytes())
        path.write_bytes(content[:place] + b"\0\0\0\0" + content[place + 4 :])
        dc.read(path)
        with pytest.raises(dc.errors.FileFormatError, match="cannot be read"):
            dc.read(path, verify=True)


class TestPt:
    @pytest.fixture(autouse=True)
    def _torch(self):
        self.torch = pytest.importorskip("torch")

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda t: t.zeros(3, 2), "holds a Tensor; save a dictionary"),
            (lambda t: {"logits": [[1.0, 2.0]]}, "logits must be a dense tensor, got list"),
            (lambda t: {"logits": t.eye(3).to_sparse()}, "must be a dense tensor"),
            (lambda t: {"logits": t.eye(2), "domains": ["a", "b"]}, "domains must be a dense"),
            (lambda t: {"logits": t.zeros(1).expand(10**9, 4)}, "made to fill the memory"),
            (lambda t: {"x": t.eye(2)}, "no logits in it .found: 'x'"),
            (lambda t: {"logits": t.eye(2, dtype=t.complex64)}, "Complex data"),
            (lambda t: t.nn.Linear(2, 2), "cannot be read"),
        ],
    )
    def test_only_tensors(self, tmp_path, make, message):
        path = tmp_path / "scores.pt"
        self.torch.save(make(self.torch), path)
        with pytest.raises(dc.errors.FileFormatError, match=message) as caught:
            dc.read(path)
        assert "\n" not in str(caught.value)

    def test_nothing_is_executed(self, tmp_path):
        witness = tmp_path / "witness"

        class Evil:
            def __reduce__(self):
                return (witness.write_text, ("executed",))

        for path in (tmp_path / "scores.pt", tmp_path / "scores.npz"):
            if path.suffix == ".pt":
                self.torch.save({"logits": Evil()}, path)
            else:
                np.savez(path, logits=np.array([Evil()], object))
            with pytest.raises(dc.errors.FileFormatError):
                dc.read(path)
        assert not witness.exists()


class TestStore:
    @pytest.fixture
    def store(self, tmp_path):
        path = tmp_path / "scores"
        for name, part in DATA.by_domain():
            dc.Store(path).append(part)
            assert name in dc.read(path).domains
        return path

    def _refused(self, path, message, **options):
        with pytest.raises(dc.errors.FileFormatError, match=message) as caught:
            dc.read(path, **options)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)

    def _change(self, store, change):
        meta = json.loads((store / "meta.json").read_text())
        change(meta)
        (store / "meta.json").write_text(json.dumps(meta))

    def test_a_wrong_checksum_is_found_on_demand(self, store):
        path = store / "part-00001" / "features.npy"
        content = path.read_bytes()
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        dc.read(store)
        self._refused(store, r"part-00001/features.npy has the checksum", verify=True)
        with pytest.raises(dc.errors.FileFormatError, match="checksum"):
            dc.inspect(store, verify=True)

    def test_shards_that_disagree(self, store):
        np.save(store / "part-00001" / "logits.npy", Z[:20, :2])
        self._refused(store, r"part-00001/logits.npy holds \(20, 2\).* says \(20, 3\)")
        np.save(store / "part-00001" / "logits.npy", Z[:19])
        self._refused(store, r"holds \(19, 3\)")
        np.save(store / "part-00001" / "logits.npy", Z[:20].astype("f8"))
        self._refused(store, "holds .* of float64")
        np.save(store / "part-00001" / "logits.npy", np.asfortranarray(Z[:20]))
        self._refused(store, "disagree")

    def test_missing_parts(self, store):
        (store / "part-00001" / "labels.npy").unlink()
        self._refused(store, "labels.npy is missing")
        shutil.rmtree(store / "part-00000")
        self._refused(store, "part-00000/logits.npy is missing")
        (store / "meta.json").unlink()
        self._refused(store, "meta.json is missing")

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda m: m.update(format="zarr"), "not of a domaincal store"),
            (lambda m: m.update(version=2), "version 2, this domaincal reads up to 1; upgrade"),
            (lambda m: m.update(version="1"), "version 1"),
            (lambda m: m.update(version=0), "version 0"),
            (lambda m: m["shards"].append(m["shards"][0]), "named twice"),
            (lambda m: m["shards"][0].update(files=["logits"]), "are not those of the store"),
            (lambda m: m["columns"].update(logits=3.0), "3.0 columns of logits"),
            (lambda m: m.update(domain_names="abc"), "no list"),
            (lambda m: m.update(domain_names={"a": 1, "b": 2, "c": 3}), "no list"),
            (lambda m: m.update(class_names="abc"), "no list"),
            (lambda m: m["shards"][0].update(name="part-00000/../x"), "no name of a shard"),
            (lambda m: m["shards"][0].update(name="../../etc"), "no name of a shard"),
            (lambda m: m["shards"][0].update(name="/etc"), "no name of a shard"),
            (lambda m: m["shards"][0].update(n_rows=-1), "has -1 rows"),
            (lambda m: m["shards"][0].update(n_rows=10**12), r"holds \(20, 3\)"),
            (lambda m: m["shards"][0]["files"].pop("labels"), "are not those of the store"),
            (lambda m: m["columns"].update({"../x": 2}), "cannot be read"),
            (lambda m: m["dtypes"].update(logits="O"), "logits of type O"),
            (lambda m: m["dtypes"].update(logits="nonsense"), "cannot be read"),
            (lambda m: m.update(domain_names=["domain-0"]), "codes of domains without a name"),
            (lambda m: m.update(domain_names=["a", "a", "b"]), "there twice"),
            (lambda m: m.update(surprise=1), "cannot be read"),
            (lambda m: m.pop("shards"), "cannot be read"),
            (lambda m: m.update(columns=3), "cannot be read"),
        ],
    )
    def test_meta(self, store, change, message):
        self._change(store, change)
        self._refused(store, message)

    def test_no_json(self, store):
        for content in (b"", b"{", b"[]", b"\xff", b"[" * 100_000):
            (store / "meta.json").write_bytes(content)
            self._refused(store, "cannot be read|not of a domaincal store")

    def test_a_changed_meta_json_is_found_on_demand(self, store):
        self._change(store, lambda m: m["domain_names"].reverse())
        assert dc.read(store).domains.tolist() != DATA.domains.tolist()
        self._refused(store, "meta.json has another checksum", verify=True)

    def test_a_shard_whose_meta_json_cannot_be_written_is_removed(self, store, monkeypatch):
        before = len(dc.Store(store))

        def full(path):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("domaincal.io.store.atomic_file", full)
        with pytest.raises(OSError, match="No space"):
            dc.Store(store).append(DATA)
        monkeypatch.undo()
        assert len(dc.Store(store)) == before
        assert len(list(store.glob("part-*"))) == 3

    def test_leftover_shards_are_never_read_and_their_numbers_not_reused(self, store):
        shutil.copytree(store / "part-00000", store / "part-00007")  # of a killed writer
        assert len(dc.read(store)) == 60
        dc.Store(store).append(DATA)
        names = sorted(p.name for p in store.glob("part-*"))
        assert names == ["part-00000", "part-00001", "part-00002", "part-00008"]

    def test_provenance_is_what_all_rows_agree_on(self, tmp_path):
        store = dc.Store(tmp_path / "s")
        for site in "ab":
            rows = dc.CalibrationData(Z, provenance={"model": "m", "site": site})
            store.append(rows)
        assert store.read().provenance == {"model": "m"}

    @pytest.mark.parametrize("verb", ["append", "write"])
    def test_only_rows_are_stored(self, tmp_path, verb):
        with pytest.raises(dc.errors.InputError, match="data must be CalibrationData, got dict"):
            getattr(dc.Store(tmp_path / "s"), verb)({})
        assert not list(tmp_path.iterdir())

    def test_a_store_that_is_not_there(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="there is no store"):
            dc.Store(tmp_path / "s").read()
        with pytest.raises(FileNotFoundError):
            dc.read(tmp_path / "s")

    def test_what_is_wrong_with_the_rows_is_said_with_the_name(self, tmp_path):
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
            (dc.CalibrationData(**{**FULL, "domains": np.ones(60, int)}), "kind of domains"),
            (dc.CalibrationData(**FULL, class_names=list("abc")), "class names"),
            (dc.CalibrationData(**{**FULL, "logits": Z[:, :2], "labels": Y % 2}), "arrays"),
        ],
    )
    def test_rows_that_do_not_fit_are_not_appended(self, store, rows, message):
        before = dc.read(store)
        with pytest.raises(dc.errors.InputError, match=f"disagree in their.*{message}"):
            dc.Store(store).append(rows)
        np.testing.assert_array_equal(dc.read(store, verify=True).logits, before.logits)

    def test_narrower_numbers_are_widened(self, store):
        rows = {**FULL, "features": DATA.features.astype("f2"), "labels": Y.astype("i1")}
        dc.Store(store).append(dc.CalibrationData(**rows))
        data = dc.read(store, verify=True)
        assert data.features.dtype == np.float32
        np.testing.assert_array_equal(data.features[60:], rows["features"])

    def test_a_folder_that_is_no_store_is_never_written(self, tmp_path):
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "thesis.txt").write_text("dear")
        with pytest.raises(dc.errors.InputError, match="is a folder, but no store; choose another"):
            dc.write(DATA, tmp_path / "mine")
        with pytest.raises(dc.errors.FileFormatError, match="no complete store"):
            dc.Store(tmp_path / "mine").append(DATA)
        assert [p.name for p in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("scores.txt", r"suffix '\.txt', which is none of \.npz"),
        ("scores", "suffix ''"),
    ],
)
def test_wrong_suffix(tmp_path, name, message):
    (tmp_path / name).write_bytes(_GOOD)
    with pytest.raises(dc.errors.InputError, match=message):
        dc.read(tmp_path / name)
    if "." in name:
        with pytest.raises(
            dc.errors.InputError, match=r"suffix '\.txt'; rows are written to \.npz"
        ):
            dc.write(DATA, tmp_path / name)


def test_what_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file .*scores\.npz"):
        dc.read(tmp_path / "scores.npz")
    with pytest.raises(FileNotFoundError):
        dc.load(tmp_path / "model.safetensors")
    with pytest.raises(dc.errors.InputError, match="no folder"):
        dc.write(DATA, tmp_path / "nowhere" / "scores.npz")
    with pytest.raises(dc.errors.InputError, match="data must be CalibrationData, got dict"):
        dc.write({}, tmp_path / "scores.npz")


@pytest.mark.parametrize("name", ["scores.npz", "scores.csv", "scores"])
def test_after_a_failed_conversion_the_good_file_is_untouched(tmp_path, name):
    dc.write(DATA, tmp_path / name)
    (tmp_path / "bad.npz").write_bytes(_GOOD[:-500])
    with pytest.raises(dc.errors.FileFormatError):
        dc.convert(tmp_path / "bad.npz", tmp_path / name)
    np.testing.assert_array_equal(dc.read(tmp_path / name).labels, Y)


def test_columns_of_many_classes_are_in_the_order_of_their_numbers(tmp_path):
    z = np.arange(24.0).reshape(2, 12)
    frame = pd.DataFrame(z, columns=[f"logit_{k}" for k in range(12)])
    frame[sorted(frame)].assign(prob_0=1.0, prob_1=0.0).to_csv(tmp_path / "s.csv", index=False)
    np.testing.assert_array_equal(dc.read(tmp_path / "s.csv").logits, z)
    assert dc.inspect(tmp_path / "s.csv").ignored == ("prob_0", "prob_1")


def test_columns_that_were_sorted_keep_their_classes(tmp_path):
    pa = pytest.importorskip("pyarrow.parquet")
    data = dc.CalibrationData(Z, labels=Y, class_names=("cat", "ant", "bee"))
    dc.write(data, tmp_path / "a.parquet")
    table = pa.read_table(tmp_path / "a.parquet")
    pa.write_table(table.select(sorted(table.column_names)), tmp_path / "b.parquet")
    again = dc.read(tmp_path / "b.parquet")
    np.testing.assert_array_equal(again.logits, Z)
    np.testing.assert_array_equal(again.labels, Y)
    pa.write_table(table.drop_columns(["logit_ant"]), tmp_path / "c.parquet")
    with pytest.raises(dc.errors.FileFormatError, match="'logit_ant' is missing"):
        dc.read(tmp_path / "c.parquet")


@pytest.mark.parametrize("shape", [(-2, -3), (2**62, 0), (1,) * 70])
def test_an_impossible_shape_in_a_folder(tmp_path, shape):
    (tmp_path / "logits.npy").write_bytes(_npy_of_shape(shape))
    with pytest.raises(dc.errors.FileFormatError):
        dc.read(tmp_path)


@pytest.mark.parametrize("shape", [[0, 2**62], [1] * 70])
def test_an_impossible_shape_in_safetensors(tmp_path, shape):
    size = 0 if 0 in shape else 8
    entry = {"logits": {"dtype": "F64", "shape": shape, "data_offsets": [0, size]}}
    header = json.dumps(entry).encode()
    content = len(header).to_bytes(8, "little") + header + b"\0" * size
    (tmp_path / "s.safetensors").write_bytes(content)
    with pytest.raises(dc.errors.FileFormatError):
        dc.read(tmp_path / "s.safetensors")


def test_codes_without_a_name(tmp_path):
    from safetensors.numpy import save_file

    arrays = {"logits": np.eye(3), "domains": np.array([0, 1, 2])}
    for names, message in (
        (["a", "b"], "domains contains 2, but there are 2 names"),
        ("ab", "must be a JSON list of strings"),
    ):
        save_file(arrays, tmp_path / "s.safetensors", {"domain_names": json.dumps(names)})
        with pytest.raises(dc.errors.FileFormatError, match=message):
            dc.read(tmp_path / "s.safetensors")
    save_file(arrays, tmp_path / "s.safetensors", {"class_names": "[" * 100_000})
    with pytest.raises(dc.errors.FileFormatError):
        dc.read(tmp_path / "s.safetensors")


def test_a_pipe_is_no_file(tmp_path):
    import os

    os.mkfifo(tmp_path / "scores.npz")
    with pytest.raises(dc.errors.InputError, match="is no plain file"):
        dc.read(tmp_path / "scores.npz")


def test_the_widest_floats_become_double(tmp_path):
    np.savez(tmp_path / "s.npz", logits=np.eye(3, dtype=np.longdouble))
    assert dc.read(tmp_path / "s.npz").logits.dtype == np.float64


def test_big_endian_and_fortran_order_are_read(tmp_path):
    np.savez(tmp_path / "scores.npz", logits=np.asfortranarray(Z.astype(">f4")), labels=Y)
    data = dc.read(tmp_path / "scores.npz")
    assert data.logits.dtype == np.dtype("f4")
    assert data.logits.dtype.isnative
    np.testing.assert_array_equal(data.logits, Z)
    dc.TemperatureScaling().fit(data.logits, data.labels)


@pytest.mark.parametrize("compressed", [False, True])
def test_npz_of_numpy(tmp_path, compressed):
    """What ``numpy.savez`` writes, with the user's other arrays in it."""
    save = np.savez_compressed if compressed else np.savez
    save(tmp_path / "scores.npz", **FULL, epoch=3)
    assert dc.read(tmp_path / "scores.npz").domains.tolist() == DATA.domains.tolist()
    assert dc.inspect(tmp_path / "scores.npz").ignored == ("epoch",)


def test_probabilities_are_said_not_guessed(tmp_path):
    p = np.exp(Z) / np.exp(Z).sum(axis=1, keepdims=True)
    np.savez(tmp_path / "p.npz", probabilities=p, labels=Y)
    np.savez(tmp_path / "z.npz", logits=p, labels=Y)
    expected = dc.logits_from_probabilities(p)
    np.testing.assert_array_equal(dc.read(tmp_path / "p.npz").logits, expected)
    np.testing.assert_array_equal(dc.read(tmp_path / "z.npz", probabilities=True).logits, expected)
    np.testing.assert_array_equal(dc.read(tmp_path / "z.npz").logits, p)
    assert any("sum to 1" in odd for odd in dc.inspect(tmp_path / "z.npz").odd)
    assert not any("sum to 1" in odd for odd in dc.inspect(tmp_path / "p.npz").odd)
