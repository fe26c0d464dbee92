"""Bad files of arrays: each gives one error that names the file, and writes nothing."""

import io
import json
import os
import warnings
import zipfile

import numpy as np
import pandas as pd
import pytest

import domaincal as dc

DATA, _ = dc.make_multi_domain(3, 20, 3, 2, random_state=0)
Z, Y = DATA.logits, DATA.labels
DOMAINS = DATA.domains.astype(str)
FULL = {"logits": Z, "labels": Y, "features": DATA.features, "domains": DOMAINS}


def _npz(**arrays):
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


def _zip(members, compression=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a name that occurs twice
        with zipfile.ZipFile(out, "w", compression) as archive:
            for name, content in members:
                archive.writestr(name, content)
    return out.getvalue()


def _npy(array):
    out = io.BytesIO()
    np.save(out, array, allow_pickle=True)
    return out.getvalue()


def _npy_of_shape(shape, descr="<f8", content=b"\0" * 80):
    """Content of a .npy file with this shape in its header."""
    out = io.BytesIO()
    header = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(out, header)
    return out.getvalue() + content


_BOMB = _zip([("logits.npy", _npy(np.zeros((20_000_000, 2))))], zipfile.ZIP_DEFLATED)
_GOOD = _npz(**FULL)

NPZ = {
    "empty": (b"", "cannot be read"),
    "truncated": (_GOOD[:-500], "cannot be read"),
    "damaged": (_GOOD[:300] + b"\xff" + _GOOD[301:], "not a readable .npy array .Bad CRC"),
    "another format": (b"label,domain\n1,2\n", "cannot be read"),
    "no logits": (_npz(scores=Z, labels=Y), r"it has no logits \(found: 'labels', 'scores'\)"),
    "objects": (_npz(logits=Z, domains=np.array([{"a": 1}] * 60, object)), "holds Python objects"),
    "records": (_npz(logits=np.zeros(3, [("a", "f8")])), "records"),
    "a bomb": (_BOMB, r"311.2 kB, but reading it takes at least 320.0 MB .* allow more with max"),
    "a lie": (_zip([("logits.npy", _npy_of_shape((10**12, 2)))]), "truncated or damaged"),
    "a negative shape": (_zip([("logits.npy", _npy_of_shape((-1, 2)))]), "truncated or damaged"),
    "short": (_zip([("logits.npy", _npy(Z)[:-8])]), "truncated or damaged"),
    "long": (_zip([("logits.npy", _npy(Z) + b"more")]), "truncated or damaged"),
    "no array": (_zip([("logits.npy", b"hello")]), "not a readable .npy array"),
    "a path": (_zip([("../logits.npy", _npy(Z))]), r"'\.\./logits.npy', which is not the name"),
    "an absolute path": (_zip([("/tmp/x.npy", _npy(Z))]), "which is not the name of an array"),
    "twice": (_zip([("logits.npy", _npy(Z))] * 2), "two entries of the same name"),
    "lengths": (_npz(logits=Z, labels=Y[:-1]), "labels has 59 rows"),
    "features' length": (_npz(**{**FULL, "features": np.ones((2, 2))}), "features has 2 rows"),
    "three dimensions": (_npz(logits=Z[None]), "must have two dimensions"),
    "no dimensions": (_npz(probabilities=np.array(0.5)), "must have shape"),
    "a single text": (_npz(logits=Z, domains=np.array("a")), "must be a 1-D array"),
    "no rows": (_npz(logits=Z[:0]), "logits is empty"),
    "NaN": (_npz(logits=np.where(np.arange(3) == 1, np.nan, Z)), r"NaN \(row 0, column 1\)"),
    "infinite features": (_npz(**{**FULL, "features": DATA.features * np.inf}), "features contain"),
    "class names": (_npz(logits=Z, class_names=np.array(["a", "b"])), "2 names, but .* 3 classes"),
    "numbers as names": (_npz(logits=Z, class_names=np.arange(3)), "array of strings"),
    "texts as labels": (_npz(logits=Z, labels=np.array(["cat"] * 60)), "'cat' in row 0, which"),
    "unknown names": (
        _npz(logits=Z, class_names=list("abc"), labels=np.array(["d"] * 60)),
        "'d' in row 0, which is not a class: labels are 0 to 2 or a, b, c",
    ),
    "labels out of range": (_npz(logits=Z, labels=Y + 3), "'3' in row 0, which is not a class"),
    "no probabilities": (_npz(probabilities=Z), "probabilities must be >= 0 and sum to 1"),
    "complex": (_npz(logits=Z.astype(complex)), "Complex data"),
    "dates": (_npz(logits=Z, domains=np.array(["2020-01-01"] * 60, "M8[D]")), "domains must be"),
    "time spans": (_npz(logits=Z, domains=np.arange(60).astype("m8[s]")), "domains must be"),
    "bytes": (_npz(logits=Z, groups=np.array([b"a"] * 60)), "groups must be"),
    "void": (_npz(logits=Z, domains=np.zeros(60, "V3")), "domains must be"),
    "void groups": (_npz(logits=Z, groups=np.zeros(60, "V40")), "groups must be"),
    "half a character": (
        _npz(logits=Z, domains=np.array(["a\ud800"] * 60)), "domains contains .* lone surrogate",
    ),
    "half a class": (
        _npz(logits=Z, class_names=np.array(["a", "b", "\udfff"])), "class_names .* lone surrogate",
    ),
    "codes without names": (
        _npz(logits=Z, domains=np.arange(60), domain_names=np.array(["a"])), "59, but .* 1 names",
    ),
    "LZMA": (_zip([("logits.npy", _npy(Z))], zipfile.ZIP_LZMA), "that numpy does not write"),
    "provenance": (_npz(logits=Z, provenance=np.array("{")), "provenance must be a JSON"),
    "deep JSON": (_npz(logits=Z, provenance=np.array("[" * 100_000)), "cannot be read"),
    "a hidden name": (_zip([(".logits.npy", _npy(Z))]), "which is not the name of an array"),
    "nothing wide": (_zip([("logits.npy", _npy_of_shape((10**14,), "|S0", b""))]), "has no bytes"),
    "many dimensions": (_zip([("logits.npy", _npy_of_shape((1,) * 70))]), "cannot be read|damaged"),
    "long names": (_npz(logits=Z, domains=np.array(["x" * 1001] * 60)), "1001 characters; use"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "message"), NPZ.values(), ids=NPZ)
def test_a_bad_npz_is_refused(tmp_path, content, message):
    path = tmp_path / "scores.npz"
    path.write_bytes(content)
    with pytest.raises(dc.errors.FileFormatError, match=message) as caught:
        dc.read(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


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
            (
                lambda t: {"logits": t.zeros(1).expand(10**9, 4)},
                "reading it takes at least 16.0 GB",
            ),
            (lambda t: {"x": t.eye(2)}, "it has no logits .found: 'x'"),
            (lambda t: {"logits": t.eye(2, dtype=t.complex64)}, "Complex data"),
            (lambda t: t.nn.Linear(2, 2), "holds a torch.nn.modules.linear.Linear; save a dict"),
        ],
    )
    def test_anything_but_a_dictionary_of_dense_tensors_is_refused(self, tmp_path, make, message):
        path = tmp_path / "scores.pt"
        self.torch.save(make(self.torch), path)
        with pytest.raises(dc.errors.FileFormatError, match=message) as caught:
            dc.read(path)
        assert "\n" not in str(caught.value)

    def test_reading_executes_nothing(self, tmp_path):
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


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("scores.txt", r"suffix '\.txt'; rows are read from \.npz"),
        ("scores", "suffix ''"),
    ],
)
def test_an_unknown_suffix_is_refused(tmp_path, name, message):
    (tmp_path / name).write_bytes(_GOOD)
    with pytest.raises(dc.errors.InputError, match=message):
        dc.read(tmp_path / name)
    if "." in name:
        with pytest.raises(
            dc.errors.InputError, match=r"suffix '\.txt'; rows are written to \.npz"
        ):
            dc.write(DATA, tmp_path / name)


def test_missing_files_and_folders_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file .*scores\.npz"):
        dc.read(tmp_path / "scores.npz")
    with pytest.raises(FileNotFoundError):
        dc.load(tmp_path / "model.safetensors")
    with pytest.raises(dc.errors.InputError, match="no folder"):
        dc.write(DATA, tmp_path / "nowhere" / "scores.npz")
    with pytest.raises(dc.errors.InputError, match="data must be CalibrationData, got dict"):
        dc.write({}, tmp_path / "scores.npz")


@pytest.mark.parametrize("name", ["scores.npz", "scores.csv", "scores"])
def test_a_failed_conversion_leaves_the_output_as_it_was(tmp_path, name):
    dc.write(DATA, tmp_path / name)
    (tmp_path / "bad.npz").write_bytes(_GOOD[:-500])
    with pytest.raises(dc.errors.FileFormatError):
        dc.convert(tmp_path / "bad.npz", tmp_path / name)
    np.testing.assert_array_equal(dc.read(tmp_path / name).labels, Y)


@pytest.mark.parametrize("shape", [(-2, -3), (2**62, 0), (1,) * 70])
def test_an_impossible_shape_in_a_folder_of_npy_is_refused(tmp_path, shape):
    (tmp_path / "logits.npy").write_bytes(_npy_of_shape(shape))
    with pytest.raises(dc.errors.FileFormatError):
        dc.read(tmp_path)


def test_metadata_of_safetensors_that_are_null_are_none(tmp_path):
    entry = {"dtype": "F64", "shape": [2, 2], "data_offsets": [0, 32]}
    header = json.dumps({"__metadata__": None, "logits": entry}).encode()
    content = len(header).to_bytes(8, "little") + header + np.eye(2).tobytes()
    (tmp_path / "s.safetensors").write_bytes(content)
    np.testing.assert_array_equal(dc.read(tmp_path / "s.safetensors").logits, np.eye(2))


_METADATA = {
    "a number": ({"__metadata__": {"class_names": 1}}, "cannot be read"),
    "a list": ({"__metadata__": []}, "cannot be read"),
    "half a character": (
        {"__metadata__": {"class_names": '["\\ud800", "b"]'}}, "class_names .* lone surrogate",
    ),
    "more than the file": (
        {"more": {"dtype": "F64", "shape": [2**30], "data_offsets": [32, 32 + 2**33]}},
        "cannot be read",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("entries", "message"), _METADATA.values(), ids=_METADATA)
def test_a_wrong_header_of_safetensors_is_refused(tmp_path, entries, message):
    entry = {"dtype": "F64", "shape": [2, 2], "data_offsets": [0, 32]}
    header = json.dumps({"logits": entry, **entries}).encode()
    content = len(header).to_bytes(8, "little") + header + np.eye(2).tobytes()
    (tmp_path / "s.safetensors").write_bytes(content)
    with pytest.raises(dc.errors.FileFormatError, match=message):
        dc.read(tmp_path / "s.safetensors")


@pytest.mark.parametrize("shape", [[0, 2**62], [1] * 70])
def test_an_impossible_shape_in_safetensors_is_refused(tmp_path, shape):
    size = 0 if 0 in shape else 8
    entry = {"logits": {"dtype": "F64", "shape": shape, "data_offsets": [0, size]}}
    header = json.dumps(entry).encode()
    content = len(header).to_bytes(8, "little") + header + b"\0" * size
    (tmp_path / "s.safetensors").write_bytes(content)
    with pytest.raises(dc.errors.FileFormatError):
        dc.read(tmp_path / "s.safetensors")


def test_bad_names_in_safetensors_are_refused(tmp_path):
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


def test_a_pipe_is_refused(tmp_path):
    os.mkfifo(tmp_path / "scores.npz")
    with pytest.raises(dc.errors.InputError, match="is not a regular file"):
        dc.read(tmp_path / "scores.npz")


def test_long_doubles_become_float64(tmp_path):
    np.savez(tmp_path / "s.npz", logits=np.eye(3, dtype=np.longdouble))
    assert dc.read(tmp_path / "s.npz").logits.dtype == np.float64


def test_big_endian_and_fortran_order_are_read(tmp_path):
    np.savez(tmp_path / "scores.npz", logits=np.asfortranarray(Z.astype(">f4")), labels=Y)
    data = dc.read(tmp_path / "scores.npz")
    assert data.logits.dtype == np.dtype("f4")
    assert data.logits.dtype.isnative
    np.testing.assert_array_equal(data.logits, Z)
    dc.TemperatureScaling().fit(data)


@pytest.mark.parametrize("compressed", [False, True])
def test_an_npz_of_numpy_is_read_and_other_arrays_are_ignored(tmp_path, compressed):
    save = np.savez_compressed if compressed else np.savez
    save(tmp_path / "scores.npz", **FULL, epoch=3)
    assert dc.read(tmp_path / "scores.npz").domains.tolist() == DATA.domains.tolist()
    assert dc.inspect(tmp_path / "scores.npz").ignored == ("epoch",)


def test_logits_are_never_guessed_to_be_probabilities(tmp_path):
    p = np.exp(Z) / np.exp(Z).sum(axis=1, keepdims=True)
    np.savez(tmp_path / "p.npz", probabilities=p, labels=Y)
    np.savez(tmp_path / "z.npz", logits=p, labels=Y)
    expected = dc.logits_from_probabilities(p)
    np.testing.assert_array_equal(dc.read(tmp_path / "p.npz").logits, expected)
    np.testing.assert_array_equal(
        dc.read(tmp_path / "z.npz", probabilities="logits").logits, expected
    )
    np.testing.assert_array_equal(dc.read(tmp_path / "z.npz").logits, p)
    assert any("sum to 1" in text for text in dc.inspect(tmp_path / "z.npz").findings)
    assert not any("sum to 1" in text for text in dc.inspect(tmp_path / "p.npz").findings)


@pytest.mark.parametrize("name", ["scores.npz", "scores.csv", "scores", "scores.parquet"])
def test_files_keep_the_names_of_features(tmp_path, name):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    names = ("width", "height")
    frame = pd.DataFrame(DATA.features, columns=names)
    dc.write(dc.CalibrationData(Z, features=frame), tmp_path / name)
    data = dc.read(tmp_path / name)
    assert data.feature_names == names
    np.testing.assert_array_equal(data.features.astype("f4"), DATA.features)
    assert dc.inspect(tmp_path / name).feature_names == names


def test_no_entry_of_an_npz_is_lost_in_silence(tmp_path):
    """The list of a zip file has no checksum: a damaged name or length hides an array."""
    content = _npz(**FULL, class_names=np.array(["a", "b", "c"]))
    path = tmp_path / "scores.npz"
    names = [entry.filename for entry in zipfile.ZipFile(io.BytesIO(content)).infolist()]
    listed = content.index(b"PK\1\2")
    for name in names[1:]:
        renamed = content[:listed] + content[listed:].replace(name.encode(), b"x" * len(name))
        path.write_bytes(renamed)
        with pytest.raises(dc.errors.FileFormatError, match=r"scores.npz"):
            dc.read(path)
    for number in range(len(names) - 1):
        parts = content[listed:].split(b"PK\1\2")[1:]
        start = listed + sum(len(part) + 4 for part in parts[:number])
        swallowed = (len(parts[number + 1].split(b"PK\5\6")[0]) + 4).to_bytes(2, "little")
        path.write_bytes(content[: start + 32] + swallowed + content[start + 34 :])
        with pytest.raises(dc.errors.FileFormatError, match=r"scores.npz"):
            dc.read(path)
