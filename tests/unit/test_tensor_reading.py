"""Tensor files: read once, within a limit of memory, and refused with one error."""

import json
import struct
import tracemalloc

import numpy as np
import pytest

import domaincal as dc
from domaincal._files import decoding
from domaincal._memory import MemoryLimit
from domaincal._tensor_files import read_tensor_metadata, read_tensors, write_tensors


def _write(path, header, data=b""):
    content = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(content)) + content + data)
    return path


def _entry(dtype, shape, start, stop):
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, stop]}


def test_bfloat16_is_read_between_other_tensors(tmp_path):
    values = np.array([[1.5, -2.0, 0.0], [3e38, -1e-38, np.inf]], "f4")
    halves = (values.view("u4") >> 16).astype("<u2")
    header = {
        "first": _entry("F32", [2], 0, 8), "halves": _entry("BF16", [2, 3], 8, 20),
        "last": _entry("U8", [3], 20, 23), "none": _entry("BF16", [0, 5], 23, 23),
    }  # fmt: skip
    data = np.array([7, 8], "f4").tobytes() + halves.tobytes() + b"abc"
    tensors, metadata = read_tensors(_write(tmp_path / "a.safetensors", header, data))
    assert metadata == {}
    assert tensors["first"].tolist() == [7, 8]
    assert tensors["last"].tolist() == list(b"abc")
    assert tensors["none"].shape == (0, 5)
    expected = (halves.astype("u4") << 16).view("f4")
    np.testing.assert_array_equal(tensors["halves"], expected)
    assert tensors["halves"].dtype == np.float32


def test_bfloat16_is_read_once(tmp_path):
    n = 300_000
    header = {"a": _entry("BF16", [n], 0, 2 * n)}
    path = _write(tmp_path / "a.safetensors", header, bytes(2 * n))
    read_tensors(path)
    tracemalloc.start()
    read_tensors(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6.1 * n + 50_000  # the file is 2 n, its values in float32 are 4 n
    read_tensors(path, MemoryLimit.of(path, 6 * n))
    with pytest.raises(dc.errors.FileFormatError, match=r"a.safetensors has 600.1 kB.*max_memory"):
        read_tensors(path, MemoryLimit.of(path, 6 * n - 1))


def test_tensors_above_the_limit_are_not_read(tmp_path, monkeypatch):
    path = tmp_path / "a.safetensors"
    write_tensors(path, {"a": np.zeros(1000), "b": np.zeros(10, "i1")}, {"k": "v"})
    assert set(read_tensors(path, MemoryLimit.of(path, 8010))[0]) == {"a", "b"}
    with pytest.raises(dc.errors.FileFormatError, match="max_memory"):
        read_tensors(path, MemoryLimit.of(path, 8009))


def test_metadata_may_be_null(tmp_path):
    header = {"__metadata__": None, "a": _entry("F32", [1], 0, 4)}
    path = _write(tmp_path / "a.safetensors", header, bytes(4))
    assert read_tensors(path)[0]["a"].tolist() == [0]
    assert read_tensors(path)[1] == read_tensor_metadata(path) == {}
    header["a"] = _entry("BF16", [2], 0, 4)
    assert read_tensors(_write(path, header, bytes(4)))[0]["a"].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("header", "data"),
    [
        ({"__metadata__": {"a": 1}}, b""),
        ({"__metadata__": []}, b""),
        ({"a": None}, b""),
        (b"[" * 100_000, b""),
        (b'{"a":' * 5000, b""),
        (b"{" + b'"a":' + b"9" * 5000, b""),
        (b"\xff\xff", b""),
        ({"a": _entry("F32", [10**18], 0, 4 * 10**18)}, b"1234"),
        ({"a": _entry("BF16", [10**9], 0, 2 * 10**9)}, b"1234"),
        ({"a": _entry("BF16", [2], 0, 4)}, b"12"),
        ({"a": _entry("BF16", [2], 4, 8)}, b"12345678"),
        ({"a": _entry("BF16", [-2], 0, 4)}, b"1234"),
        ({"a": _entry("BF16", [2], -4, 0)}, b"1234"),
        ({"a": _entry("F8_E4M3", [2], 0, 2)}, b"12"),
    ],
)
def test_bad_headers_give_one_error(tmp_path, header, data):
    path = _write(tmp_path / "a.safetensors", header, data)
    with pytest.raises(dc.errors.FileFormatError, match=r"a\.safetensors") as caught:
        read_tensors(path)
    assert "\n" not in str(caught.value)


def test_a_decoder_without_memory_gives_one_error_that_names_the_file():
    def decode():
        with decoding("scores.npz", "it may be damaged"):
            raise MemoryError

    with pytest.raises(dc.errors.FileFormatError, match=r"scores.npz .*memory.*max_memory"):
        decode()
