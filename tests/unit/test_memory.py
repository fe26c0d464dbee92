"""Memory of reading: estimated before it is allocated, limited by a multiple of the file's size."""

import io
import subprocess
import sys
import tracemalloc
import zipfile

import numpy as np
import pytest

import domaincal as dc
from domaincal import _memory
from domaincal._memory import FREE_MEMORY, MemoryLimit, file_size, format_size, parse_size

N = 40_000
RNG = np.random.default_rng(0)
Z = RNG.normal(size=(N, 3)).astype("f4")
ORDER = RNG.permutation(N)
NAMES = np.array([f"patient-{k:07d}" for k in ORDER])


def _claiming(path, descr, shape, name="logits"):
    """An .npz of some hundred bytes whose directory says that an array unpacks to this shape."""
    header = io.BytesIO()
    np.lib.format.write_array_header_2_0(
        header, {"descr": descr, "fortran_order": False, "shape": shape}
    )
    n_bytes = np.dtype(descr).itemsize * int(np.prod(shape))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{name}.npy", header.getvalue() + b"\0" * 800)
        archive.infolist()[0].file_size = len(header.getvalue()) + n_bytes
    return path


@pytest.mark.parametrize(
    ("text", "n_bytes"),
    [("4 GB", 4 * 10**9), ("1.5mb", 1_500_000), (" 300 ", 300), ("2 kB", 2000), (1e6, 10**6)],
)
def test_sizes_are_numbers_or_texts(text, n_bytes):
    assert parse_size(text) == n_bytes


@pytest.mark.parametrize("n_bytes", [12, 999, 1000, 258_000, 3 * 10**8, 10**12])
def test_the_text_of_a_size_is_a_size(n_bytes):
    assert parse_size(format_size(n_bytes).replace(" bytes", "")) == pytest.approx(
        n_bytes, rel=1e-3
    )


@pytest.mark.parametrize("size", ["", "much", "4 XB", "-1", -1, 0, True, [], "1e9", float("nan")])
def test_what_is_no_size_is_refused(tmp_path, size):
    np.savez(tmp_path / "s.npz", logits=np.eye(3))
    for function in (dc.read, dc.inspect):
        with pytest.raises(dc.errors.InputError, match=r"max_memory=.* is not a size"):
            function(tmp_path / "s.npz", max_memory=size)


@pytest.mark.parametrize(
    ("size", "allowed"), [(10, FREE_MEMORY), (FREE_MEMORY // 100 + 1, FREE_MEMORY + 44)]
)
def test_by_default_the_limit_is_256_mib_or_100_times_the_size(tmp_path, size, allowed):
    with open(tmp_path / "x", "wb") as file:
        file.truncate(size)
    limit = MemoryLimit.of(tmp_path / "x")
    assert limit.n_bytes == allowed
    limit.require(allowed)
    with pytest.raises(dc.errors.FileFormatError, match=r"x has .* allow more with max_memory="):
        limit.require(allowed + 1)


def test_the_size_of_a_folder_is_that_of_its_files(tmp_path):
    (tmp_path / "inner").mkdir()
    for name, size in (("a", 5), ("inner/b", 7)):
        (tmp_path / name).write_bytes(b"x" * size)
    (tmp_path / "broken").symlink_to(tmp_path / "nowhere")
    assert file_size(tmp_path) == 12


CLAIMS = {
    "logits": ("logits", "<f4", (10**9, 3)),
    "text of a domain": ("domains", "<U1000", (10**6,)),
    "names of classes": ("class_names", "<U1", (10**8,)),
    "provenance": ("provenance", "<U70000000", ()),
}


@pytest.mark.parametrize(("name", "descr", "shape"), CLAIMS.values(), ids=CLAIMS)
def test_a_small_npz_does_not_name_its_cost(tmp_path, name, descr, shape):
    path = _claiming(tmp_path / "s.npz", descr, shape, name)
    tracemalloc.start()
    with pytest.raises(dc.errors.FileFormatError, match=r"s\.npz has .* of memory, more than 268"):
        dc.read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10**7


def test_a_header_of_any_length_is_not_read(tmp_path):
    """numpy reads as many bytes as the header claims to have."""
    length = 2 * 10**7
    start = b"\x93NUMPY\x02\x00" + length.to_bytes(4, "little")
    with zipfile.ZipFile(tmp_path / "s.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("logits.npy", start + b" " * length)
    tracemalloc.start()
    with pytest.raises(dc.errors.FileFormatError, match="its header has 20000000 bytes"):
        dc.read(tmp_path / "s.npz")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10**7


def _npz(folder, **arrays):
    np.savez(folder / "scores.npz", **arrays)
    return folder / "scores.npz"


def _folder(folder, **arrays):
    for name, values in arrays.items():
        np.save(folder / f"{name}.npy", values)
    return folder


def _written(folder, **arrays):
    dc.write(dc.CalibrationData(**arrays), folder / "scores.npz")
    return folder / "scores.npz"


def _safetensors(folder, **arrays):
    from safetensors.numpy import save_file

    save_file(arrays, folder / "scores.safetensors")
    return folder / "scores.safetensors"


def _pt(folder, **arrays):
    torch = pytest.importorskip("torch")
    tensors = {name: torch.tensor(values) for name, values in arrays.items()}
    tensors["logits"] = tensors["logits"].bfloat16()
    tensors["labels"] = tensors["labels"][:1].expand(N)
    torch.save(tensors, folder / "scores.pt")
    return folder / "scores.pt"


LONG = np.array([f"{k:\U0001f600>900}" for k in range(2000)])
P = np.exp(Z) / np.exp(Z).sum(axis=1, keepdims=True)
WRITERS = {
    "texts": (_npz, {"logits": Z, "groups": NAMES, "domains": NAMES[ORDER % 9]}),
    "long texts": (_npz, {"logits": Z[:2000], "domains": LONG}),
    "integers": (_npz, {"logits": Z, "groups": ORDER, "labels": (ORDER % 3).astype("f8")}),
    "Fortran order": (_npz, {"logits": np.asfortranarray(Z), "labels": ORDER % 3}),
    "big endian": (_npz, {"logits": Z.astype(">f8"), "groups": ORDER.astype(">i4")}),
    "long doubles": (_npz, {"logits": Z.astype(np.longdouble)}),
    "probabilities": (_npz, {"probabilities": P.astype("f2").astype("f4"), "labels": ORDER % 3}),
    "names of classes": (_npz, {
        "logits": Z, "class_names": np.array(["a", "b", "c"]),
        "labels": np.array(["a", "b", "c"])[ORDER % 3],
    }),
    "codes": (_written, {"logits": Z, "groups": NAMES, "domains": NAMES[ORDER % 9]}),
    "folder": (_folder, {"logits": np.asfortranarray(Z), "groups": NAMES}),
    "safetensors": (_safetensors, {"logits": Z, "groups": ORDER}),
    "pt": (_pt, {"logits": Z, "labels": ORDER % 3, "groups": ORDER}),
}  # fmt: skip


@pytest.mark.parametrize(
    ("function", "content"),
    [*((dc.read, name) for name in WRITERS), (dc.inspect, "codes"), (dc.inspect, "integers")],
)
def test_the_estimate_is_not_below_the_memory_that_reading_takes(
    tmp_path, monkeypatch, function, content
):
    write, arrays = WRITERS[content]
    path = write(tmp_path, **arrays)
    estimates = []
    monkeypatch.setattr(MemoryLimit, "require", lambda self, needed: estimates.append(needed))
    tracemalloc.start()
    function(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert max(estimates) > peak - 3 * 10**6  # of buffers that do not depend on the rows
    assert max(estimates) < 10 * peak


@pytest.mark.parametrize("function", [dc.read, dc.inspect, dc.convert])
@pytest.mark.parametrize("write", [_npz, _folder, _safetensors, _pt])
def test_max_memory_is_the_limit_of_every_format(tmp_path, write, function):
    (tmp_path / "in").mkdir()
    path = write(tmp_path / "in", logits=Z, labels=ORDER % 3)
    more = (tmp_path / "out.npz",) if function is dc.convert else ()
    with pytest.raises(dc.errors.FileFormatError, match=r"e\.g\. '"):
        function(path, *more, max_memory="100 kB")
    function(path, *more, max_memory=10**8)


def test_memory_that_the_machine_does_not_have_is_one_error(tmp_path):
    """In a process that may take 100 MB more: numpy and the operating system refuse the rest."""
    _claiming(tmp_path / "s.npz", "<f4", (30_000_000, 2))
    script = (
        "import resource, sys, domaincal as dc, domaincal.io\n"
        "taken = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (taken + 10**8,) * 2)\n"
        "try:\n    dc.read(sys.argv[1], max_memory='1 GB')\n"
        "except dc.errors.FileFormatError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "s.npz"], capture_output=True, text=True,
        check=True, timeout=120,
    )  # fmt: skip
    assert "s.npz takes more memory than there is" in done.stdout
    assert "max_memory" in done.stdout


def test_a_long_name_in_one_row_costs_little(tmp_path):
    """In an array of strings, one name of 1,000 characters takes 4 kB in every row."""
    names = NAMES.astype(object)[ORDER[:20_000] % 100]
    names[7] = "x" * 1000
    data = dc.CalibrationData(Z[:20_000], labels=ORDER[:20_000] % 3, domains=names)
    table = dc.prediction_table(dc.MaxSoftmax().fit(data), data)
    table["note"] = names
    tracemalloc.start()
    dc.write(data, tmp_path / "scores.npz")
    dc.write_table(table, tmp_path / "table.npz")
    found = dc.read(tmp_path / "scores.npz")
    again = dc.read(tmp_path / "table.npz")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.domains.tolist() == again.domains.tolist() == names.tolist()
    assert peak < 2 * 10**7
    assert file_size(tmp_path) < 4 * 10**6
    with np.load(tmp_path / "table.npz") as arrays:
        assert arrays["note_names"][arrays["note"]].tolist() == names.tolist()


def test_classes_in_a_table_are_indices_of_their_names(tmp_path):
    classes = ("a", "b" * 1000, "c")
    z, labels = Z[:500], ORDER[:500] % 3
    data = dc.CalibrationData(z, labels=labels, class_names=classes)
    table = dc.prediction_table(dc.MaxSoftmax().fit(data), data)
    dc.write_table(table, tmp_path / "table.npz")
    with np.load(tmp_path / "table.npz") as arrays:
        np.testing.assert_array_equal(arrays["predicted"], z.argmax(axis=1))
    found = dc.read(tmp_path / "table.npz")
    np.testing.assert_array_equal(found.labels, labels)
    assert found.class_names == classes
    table.loc[3, "label"] = "d"
    with pytest.raises(dc.errors.InputError, match="'label' contains 'd', but there is no column"):
        dc.write_table(table, tmp_path / "table.npz")


def test_names_that_padding_would_multiply_are_not_written_to_npz(tmp_path, monkeypatch):
    monkeypatch.setattr("domaincal.io.npz.FREE_MEMORY", 10**6)
    groups = [str(k) for k in range(1000)]
    dc.write(dc.CalibrationData(Z[:1000], groups=groups), tmp_path / "scores.npz")
    groups[0] = "x" * 1000
    with pytest.raises(dc.errors.InputError, match=r"group_names has 1000 .* 4\.0 MB.*\.parquet"):
        dc.write(dc.CalibrationData(Z[:1000], groups=groups), tmp_path / "scores.npz")
    dc.write(dc.CalibrationData(Z[:1000], groups=groups), tmp_path / "scores")
    assert _memory.file_size(tmp_path / "scores") < 10**5
