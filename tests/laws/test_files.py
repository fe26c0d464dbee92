"""Files give back what was written, and any bytes are read or refused with one error."""

import importlib.util
import itertools
import json
import string
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

import domaincal as dc
from domaincal.io import open_rows

HAS_PYARROW = importlib.util.find_spec("pyarrow") is not None
HAS_ZARR = importlib.util.find_spec("zarr") is not None
HAS_TORCH = importlib.util.find_spec("torch") is not None
needs_pyarrow = pytest.mark.skipif(not HAS_PYARROW, reason="pyarrow is not installed")
needs_zarr = pytest.mark.skipif(not HAS_ZARR, reason="zarr is not installed")
needs_torch = pytest.mark.skipif(not HAS_TORCH, reason="torch is not installed")

ARRAYS = ("logits", "labels", "features", "domains", "groups")
#: Formats that preserve all data.
EXACT = [
    "scores.npz", "scores", pytest.param("scores.parquet", marks=needs_pyarrow),
    pytest.param("scores.zarr", marks=needs_zarr),
]  # fmt: skip

# Names may be any text but for the zero character, which ends numpy's strings.
_names = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=6
)
# csv: texts that a spreadsheet does not change.
_plain_signs = string.ascii_letters + "-_ ä,;\n\"'"
_plain_names = st.text(_plain_signs, min_size=1, max_size=6).map("x".__add__)


@st.composite
def data_sets(draw, names=_names, class_names=_names, dtypes=("f2", "f4", "f8")):
    n, n_classes = draw(st.integers(1, 12)), draw(st.integers(2, 4))
    dtype = np.dtype(draw(st.sampled_from(dtypes)))
    numbers = hnp.from_dtype(dtype, allow_nan=False, allow_infinity=False)

    def ids():
        values = draw(
            st.sampled_from([None, st.integers(-5, 2**40), names]).filter(lambda s: s is not None)
        )
        return draw(st.lists(values, min_size=n, max_size=n))

    optional = {
        "labels": lambda: draw(hnp.arrays("i8", n, elements=st.integers(0, n_classes - 1))),
        "features": lambda: draw(hnp.arrays(dtype, (n, draw(st.integers(1, 3))), elements=numbers)),
        "domains": ids,
        "groups": ids,
        "class_names": lambda: draw(
            st.lists(class_names, min_size=n_classes, max_size=n_classes, unique=True)
        ),
        "provenance": lambda: draw(st.dictionaries(st.text(max_size=5), st.integers(), max_size=2)),
    }
    chosen = {name: make() for name, make in optional.items() if draw(st.booleans())}
    return dc.CalibrationData(draw(hnp.arrays(dtype, (n, n_classes), elements=numbers)), **chosen)


def assert_same(a, b, *, exact=True):
    for name in ARRAYS:
        x, y = getattr(a, name), getattr(b, name)
        assert (x is None) == (y is None), name
        if x is not None:
            np.testing.assert_array_equal(x, y, err_msg=name)
            if exact and x.dtype.kind in "fiu":
                assert x.dtype == y.dtype
    assert a.class_names == b.class_names
    if exact:
        assert a.provenance == b.provenance


@pytest.mark.parametrize("name", EXACT[1:])
def test_classes_with_numbers_for_names_keep_their_labels(tmp_path, name):
    """In .npz, where labels are often numbers of such names, they are those names."""
    data = dc.CalibrationData(np.eye(3), labels=[0, 1, 2], class_names=("2", "1", "0"))
    dc.write(data, tmp_path / name)
    assert dc.read(tmp_path / name).labels.tolist() == [0, 1, 2]
    with open_rows(tmp_path / name) as opened:
        assert opened.rows.labels[:].tolist() == [0, 1, 2]


@pytest.mark.parametrize("name", EXACT)
@given(data=data_sets())
def test_written_data_are_read_unchanged(name, data):
    with tempfile.TemporaryDirectory() as folder:
        dc.write(data, f"{folder}/{name}")
        assert_same(dc.read(f"{folder}/{name}", verify=True), data)
        assert [p.name for p in Path(folder).iterdir()] == [name]


# Spaces at the end of a column name are removed.
@given(data=data_sets(names=_plain_names, class_names=_plain_names.map(str.rstrip)))
def test_csv_keeps_values_and_names(data):
    with tempfile.TemporaryDirectory() as folder:
        dc.write(data, f"{folder}/scores.csv")
        found = dc.read(f"{folder}/scores.csv")
        kind = data.logits.dtype
        again = dc.CalibrationData(
            found.logits.astype(kind), labels=found.labels,
            features=None if found.features is None else found.features.astype(kind),
            domains=found.domains, groups=found.groups, class_names=found.class_names,
        )  # fmt: skip
        assert_same(again, data, exact=False)


# Any text, and texts that files have changed or could change.
_odd_names = st.sampled_from(
    ["", "\0", "a\0", "\r", "a\r", "a\r\nb", "\n", " ", " a", "a ", "\t", ",", '"', "'", '"a"', "0",
     "1", "01", "1.0", "-1", "NA", "nan", "None", "\ufeff", "\ud800", "\u2028", "\x85", "\x1c", "é",
     "e\u0301", "logit_a", "#", "a.b", "x" * 1000, "x" * 1001]
)  # fmt: skip
_any_names = st.one_of(_odd_names, st.text(st.characters(), max_size=4))


@pytest.mark.parametrize("name", ["scores.csv", *EXACT[:-1]])
@settings(max_examples=60)
@given(draws=st.data(), n_classes=st.integers(2, 4))
def test_names_and_labels_are_read_as_written_or_are_not_written(name, draws, n_classes):
    n = 4
    labels = draws.draw(st.lists(st.integers(0, n_classes - 1), min_size=n, max_size=n))
    texts = st.one_of(st.none(), st.lists(_any_names, min_size=n, max_size=n))
    names = st.lists(_any_names, min_size=n_classes, max_size=n_classes, unique=True)
    given = {
        "labels": labels, "class_names": draws.draw(names), "feature_names": draws.draw(names),
        "features": np.ones((n, n_classes)), "domains": draws.draw(texts),
        "groups": draws.draw(texts),
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        try:
            data = dc.CalibrationData(np.ones((n, n_classes)), **given)
            dc.write(data, path)
        except dc.errors.InputError:
            assert not path.exists()
            return
        found = dc.read(path)
    assert found.labels.tolist() == labels
    if name == "scores.csv":  # has numbers in place of names 0, 1, ..., and integers of their texts
        default = tuple(map(str, range(n_classes)))
        assert (found.class_names or default) == data.class_names
        assert (found.feature_names or default) == data.feature_names
        for a, b in [(found.domains, data.domains), (found.groups, data.groups)]:
            assert (a is None) == (b is None)
            assert a is None or [str(value) for value in a] == b.tolist()
    else:
        assert_same(found, data)
        assert found.feature_names == data.feature_names


@given(data=data_sets(), cuts=st.lists(st.integers(0, 12), max_size=4))
def test_a_store_of_several_appends_equals_one_that_was_written_at_once(data, cuts):
    edges = sorted({0, len(data), *(c for c in cuts if c < len(data))})
    with tempfile.TemporaryDirectory() as folder:
        store = dc.Store(folder + "/scores")
        assert len(store) == 0
        for start, stop in itertools.pairwise(edges):
            assert len(store) == start
            store.append(data.select(slice(start, stop)))
        assert len(store) == len(data)
        np.testing.assert_array_equal(store.labels(), data.labels)
        np.testing.assert_array_equal(store.domains(), data.domains)
        store.verify()
        assert_same(store.read(), data)
        assert len(list(Path(folder, "scores").glob("part-*"))) == len(edges) - 1
        store.write(data)  # again, as one shard
        assert_same(store.read(), data)
        assert len(list(Path(folder, "scores").glob("part-*"))) == 1


@given(data=data_sets(names=_plain_names))
def test_a_folder_of_arrays_is_read(data):
    with tempfile.TemporaryDirectory() as folder:
        for name in ARRAYS:
            values = getattr(data, name)
            if values is not None:
                is_text = values.dtype.kind == "O"
                np.save(f"{folder}/{name}.npy", values.astype(str) if is_text else values)
        Path(folder, "notes.txt").write_text("by hand")
        found = dc.read(folder)
        assert_same(found, dc.CalibrationData(**{n: getattr(data, n) for n in ARRAYS}), exact=False)
        assert dc.inspect(folder).ignored == ("notes.txt",)


def _one_tensor(name, dtype, shape, content):
    """Bytes of a ``.safetensors`` file with one tensor."""
    entry = {"dtype": dtype, "shape": shape, "data_offsets": [0, len(content)]}
    header = json.dumps({name: entry, "__metadata__": {"class_names": '["a", "b"]'}}).encode()
    return len(header).to_bytes(8, "little") + header + content


def test_bfloat16_is_read_as_float32_without_torch(tmp_path):
    values = np.array([[1.5, -2.0], [0.0, 3e38]], "f4")
    upper_half = (values.view(np.uint32) >> 16).astype("<u2")
    expected = (upper_half.astype(np.uint32) << 16).view(np.float32)
    path = tmp_path / "scores.safetensors"
    path.write_bytes(_one_tensor("logits", "BF16", [2, 2], upper_half.tobytes()))
    data = dc.read(path)
    assert data.logits.dtype == np.float32
    np.testing.assert_array_equal(data.logits, expected)
    assert data.class_names == ("a", "b")


@pytest.mark.parametrize(("dtype", "size"), [("F8_E4M3", 4), ("F8_E5M2", 4), ("C64", 32)])
def test_a_tensor_of_an_unsupported_dtype_is_refused_by_name(tmp_path, dtype, size):
    path = tmp_path / "scores.safetensors"
    path.write_bytes(_one_tensor("notes", dtype, [2, 2], b"\0" * size))
    with pytest.raises(dc.errors.FileFormatError, match=f"'notes' of dtype {dtype}.*as float32"):
        dc.read(path)


@needs_torch
def test_tensors_of_torch_are_read(tmp_path):
    import torch
    from safetensors.torch import save_file

    tensors = {
        "logits": torch.randn(6, 3, dtype=torch.bfloat16), "labels": torch.tensor([0, 1, 2] * 2),
        "features": torch.randn(6, 2, dtype=torch.float16), "domains": torch.tensor([0, 1] * 3),
        "notes": torch.zeros(1),
    }  # fmt: skip
    torch.save(tensors, tmp_path / "scores.pt")
    names = {"domain_names": json.dumps(["day", "night"]), "class_names": json.dumps(list("abc"))}
    save_file(tensors, tmp_path / "scores.safetensors", names)
    for name in ("scores.pt", "scores.safetensors"):
        data = dc.read(tmp_path / name)
        assert data.logits.dtype == np.float32
        np.testing.assert_array_equal(data.logits, tensors["logits"].float().numpy())
        np.testing.assert_array_equal(data.features, tensors["features"].numpy())
        np.testing.assert_array_equal(data.labels, tensors["labels"].numpy())
        assert dc.inspect(tmp_path / name).ignored == ("notes",)
    assert data.domains.tolist() == ["day", "night"] * 3
    assert data.class_names == ("a", "b", "c")
    assert dc.read(tmp_path / "scores.pt").domains.tolist() == [0, 1] * 3


_TORCH_DTYPES = [
    "float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8",
    "uint16",
]  # fmt: skip


@needs_torch
@given(
    dtype=st.sampled_from(_TORCH_DTYPES), n=st.integers(2, 6), n_classes=st.integers(2, 4),
    view=st.sampled_from([
        "whole", "transposed", "sliced", "stepped", "expanded", "parameter", "named",
        "named parameter",
    ]),
    ordered=st.booleans(), protocol=st.sampled_from([2, 3, 4, 5]),
)  # fmt: skip
def test_pt_files_hold_the_tensors_that_torch_saved(dtype, n, n_classes, view, ordered, protocol):
    """The reader follows the pickle by itself, without torch."""
    from collections import OrderedDict

    import torch

    values = torch.arange(4 * n * n_classes).reshape(2 * n, 2 * n_classes).to(getattr(torch, dtype))
    logits = {
        "whole": values, "transposed": values.t(), "sliced": values[1:, 1:], "stepped": values[::2],
        "expanded": values[:1].expand(n, -1),
        "parameter": torch.nn.Parameter(values, requires_grad=False),
        "named": values.clone(), "named parameter": torch.nn.Parameter(values, requires_grad=False),
    }[view]  # fmt: skip
    if view.startswith("named"):
        logits.name_of_mine = "x"  # an attribute changes how torch saves it
    tensors = {"notes": {"a": [1, (2, None)]}, "logits": logits, "features": logits}
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/scores.pt"
        torch.save(OrderedDict(tensors) if ordered else tensors, path, pickle_protocol=protocol)
        data = dc.read(path)
    expected = (logits.float() if dtype == "bfloat16" else logits).numpy()
    assert data.logits.dtype == expected.dtype
    np.testing.assert_array_equal(data.logits, expected)


# Files of every format, as bytes, to be damaged.
_DATA = dc.CalibrationData(
    np.arange(12, dtype="f4").reshape(4, 3), labels=[0, 1, 2, 0], features=np.ones((4, 2), "f4"),
    domains=["a", "b", "a", "b"], groups=[1, 1, 2, 2], class_names=("u", "v", "w"),
    provenance={"model": "m"},
)  # fmt: skip


def _good_files(folder):
    names = ("scores.npz", "scores.csv", "scores.csv.gz", "scores")
    more = ["scores.parquet"] * HAS_PYARROW + ["scores.zarr"] * HAS_ZARR
    for name in (*names, *more):
        dc.write(_DATA, folder / name)
    arrays = {"logits": _DATA.logits, "labels": _DATA.labels}
    from safetensors.numpy import save_file

    save_file(arrays, folder / "scores.safetensors")
    if HAS_TORCH:
        import torch

        torch.save({k: torch.tensor(v) for k, v in arrays.items()}, folder / "scores.pt")
    calibrator = dc.MultiDomainTemperatureScaling("krr", features="logits", max_rows=20)
    data, _ = dc.make_multi_domain(3, 12, 3, random_state=0)
    with pytest.warns(dc.DomaincalWarning):
        calibrator.fit(data.logits, data.labels, domains=data.domains)
    calibrator.save(folder / "model.safetensors")


@pytest.fixture(scope="module")
def good_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("good")
    _good_files(folder)
    return folder


def _damaged(draw, content):
    """Content with some bytes changed, removed, repeated or inserted."""
    content = bytearray(content)
    for _ in range(draw(st.integers(1, 4))):
        where = draw(st.integers(0, len(content)))
        length = draw(st.sampled_from([1, 2, 8, 64]))
        change = draw(st.sampled_from(["set", "flip", "cut", "insert", "truncate", "repeat"]))
        if change == "set":
            content[where : where + length] = draw(st.binary(min_size=length, max_size=length))
        elif change == "flip" and where < len(content):
            content[where] ^= 1 << draw(st.integers(0, 7))
        elif change == "cut":
            del content[where : where + length]
        elif change == "insert":
            content[where:where] = draw(st.binary(max_size=length))
        elif change == "truncate":
            del content[where:]
        elif change == "repeat":
            content[where:where] = content[where : where + length]
    return bytes(content)


def _read_or_refuse(reader, path):
    """A reader returns data, or raises a DomaincalError that names the file."""
    message = path.name
    try:
        reader(path)
    except dc.DomaincalError as error:
        message = str(error)
    assert path.name in message


@pytest.mark.parametrize(
    ("name", "inner", "reader"),
    [
        ("scores.npz", "", dc.read),
        ("scores.csv", "", dc.read),
        ("scores.csv.gz", "", dc.read),
        ("scores.safetensors", "", dc.read),
        ("scores", "meta.json", dc.read),
        ("scores", "part-00000/logits.npy", dc.read),
        ("scores", "part-00000/domains.npy", dc.read),
        ("model.safetensors", "", dc.load),
        pytest.param("scores.parquet", "", dc.read, marks=needs_pyarrow),
        pytest.param("scores.pt", "", dc.read, marks=needs_torch),
    ],
)
@settings(max_examples=150)
@given(draws=st.data())
def test_damaged_files_are_read_or_refused(good_files, name, inner, reader, draws):
    _damage_and_read(good_files, name, inner, reader, draws)


@needs_zarr
@pytest.mark.parametrize("inner", ["zarr.json", "logits/zarr.json", "logits/c/0/0"])
@settings(max_examples=25)
@given(draws=st.data())
def test_damaged_groups_of_zarr_are_read_or_refused(good_files, inner, draws):
    _damage_and_read(good_files, "scores.zarr", inner, dc.read, draws)


def _damage_and_read(good_files, name, inner, reader, draws):
    import shutil

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        copy = shutil.copytree if (good_files / name).is_dir() else shutil.copy
        copy(good_files / name, path)
        victim = path / inner if inner else path
        victim.write_bytes(_damaged(draws.draw, victim.read_bytes()))
        _read_or_refuse(reader, path)


@settings(max_examples=50)
@given(content=st.binary(max_size=300), suffix=st.sampled_from([".npz", ".csv", ".safetensors"]))
def test_any_bytes_are_read_or_refused(content, suffix):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "scores" + suffix)
        path.write_bytes(content)
        _read_or_refuse(dc.read, path)
        _read_or_refuse(dc.load, path)


def test_a_model_file_with_a_flipped_bit_is_refused(good_files, tmp_path):
    content = (good_files / "model.safetensors").read_bytes()
    rng = np.random.default_rng(0)
    path = tmp_path / "model.safetensors"
    # The header is padded with spaces, which have no meaning; the checksum covers the rest.
    for where in rng.choice(len(content), 300, replace=False):
        if content[where : where + 1] == b" ":
            continue
        damaged = bytearray(content)
        damaged[where] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(damaged))
        with pytest.raises(dc.errors.FileFormatError, match=r"model\.safetensors"):
            dc.load(path)
