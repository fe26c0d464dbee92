"""Crafted .pt files and pipes: refused at once, whatever they ask for."""

import io
import json
import os
import re
import subprocess
import sys
import zipfile

import numpy as np

import domaincal as dc

DATA, _ = dc.make_multi_domain(3, 20, 3, 2, random_state=0)


def _zip(members, compression=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return out.getvalue()


def _pt(pickle, *more):
    """Content of a .pt file with this pickle."""
    return _zip([("a/data.pkl", b"\x80\x02" + pickle), ("a/version", b"3\n"), *more])


def _text(text):
    return b"X" + len(text).to_bytes(4, "little") + text.encode()


def _nested(times):
    """A tuple of two equal tuples of two equal tuples ...: its hash takes 2**times steps."""
    return b")" + b"".join(
        b"q" + bytes([k]) + b"h" + bytes([k]) + b"\x86" for k in range(times)
    )  # fmt: skip


def _tensor(shape, strides, offset=0, kind="Float", more=b""):
    """Pickle of a tensor of the storage "0"."""

    def sizes(numbers):
        return b"(" + b"".join(b"\x8a\x09" + n.to_bytes(9, "little") for n in numbers) + b"t"

    storage = b"(" + _text("storage") + f"ctorch\n{kind}Storage\n".encode() + _text("0")
    storage += _text("cpu") + b"K\x04tQ"
    start = b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage
    return start + b"K" + bytes([offset]) + sizes(shape) + sizes(strides) + b"\x89N" + more + b"tR"


def _logits(tensor):
    return _pt(
        b"}" + _text("logits") + tensor + b"s.", ("a/data/0", np.arange(4.0, dtype="f4").tobytes())
    )


# 20,000 sizes, checked again for each of 20,000 tensors.
_LONG = b"(" + b"K\x01" * 20_000 + b"tq\x00c" + b"torch._utils\n_rebuild_tensor_v2\nq\x01"
_LONG += (b"h\x01(Nh\x00h\x00h\x00h\x00h\x00tR0") * 20_000 + b"}."
_BYTES = b"cbuiltins\nbytearray\n\x8a\x06" + b"\x7f" * 6 + b"\x85R"
_KEYS = b"".join(
    b"\x8a\x0c" + (k * (2**61 - 1)).to_bytes(12, "little") + b"N" for k in range(30_000)
)
_NEGATIVE = b"}" + _text("neg") + b"\x88s"
PT = {
    "a key that is never hashed": (_pt(b"}(" + _nested(120) + b"K\x01u."), "no logits"),
    "a value": (_pt(b"}(" + _text("logits") + _nested(120) + b"u."), "a dense tensor, got tuple"),
    "a name": (_pt(_nested(120) + b"q\x78h\x78\x93."), "holds a stack_global"),
    "keys of the same hash": (_pt(b"}(" + _KEYS + b"u."), "no logits"),
    "checks again and again": (_pt(_LONG), "no logits"),
    "a large memo": (_pt(b"}r\xff\xff\xff\x7f."), "cannot be read"),
    "a large value": (_pt(b"}" + _text("logits") + _BYTES + b"s."), "got builtins.bytearray"),
    "a command": (_pt(b"cos\nsystem\n" + _text("touch witness") + b"\x85R."), "a os.system"),
    "no end": (_pt(b"}" * 100), "cannot be read"),
    "nothing to take": (_pt(b"R."), "cannot be read"),
    "a huge shape": (_logits(_tensor((2**40, 2**40), (0, 0))), "takes at least 4.836e.12 TB"),
    "more than the storage": (_logits(_tensor((3, 2), (2, 1))), "cannot be read"),
    "beyond the end": (_logits(_tensor((2, 2), (2, 1), offset=1)), "cannot be read"),
    "overflow": (_logits(_tensor((2, 2), (2**62, 1))), "cannot be read"),
    "an unknown dtype": (_logits(_tensor((2, 2), (2, 1), kind="QInt8")), "dtype qint8"),
    "flags": (_logits(_tensor((2, 2), (2, 1), more=_NEGATIVE)), "a dense tensor"),
    "no storage": (_pt(b"}" + _text("logits") + _tensor((2,), (1,)) + b"s."), "no entry 'data/0'"),
    "compressed": (_zip([("a/data.pkl", b"}.")], zipfile.ZIP_DEFLATED), "is compressed"),
    "not a zip file": (b"\x80\x02}.", "is not a zip file"),
}  # fmt: skip

_READ_ALL = """
import json, resource, sys
import domaincal as dc
found = {}
dc.read(sys.argv[1])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for path in sys.argv[2:]:
    try:
        found[path] = repr(dc.read(path))
    except dc.DomaincalError as error:
        found[path] = str(error)
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(json.dumps([found, grown]))
"""


def _messages(good, paths):
    """What reading says of each file, and the kB that it takes, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", _READ_ALL, good, *paths], capture_output=True, text=True,
        check=False, timeout=240, cwd=good.parent,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found, grown = json.loads(done.stdout)
    return list(found.values()), grown


def test_crafted_pt_files_cost_neither_time_nor_memory(tmp_path):
    """torch.load takes 2**120 steps for the first one, and ends with an error of torch."""
    paths = [tmp_path / f"{k}.pt" for k in range(len(PT))]
    for path, (content, _) in zip(paths, PT.values(), strict=True):
        path.write_bytes(content)
    dc.write(DATA, tmp_path / "good.npz")
    found, grown = _messages(tmp_path / "good.npz", paths)
    for (name, (_, message)), path, text in zip(PT.items(), paths, found, strict=True):
        assert str(path) in text, (name, text)
        assert re.search(message, text), (name, text)
    assert grown < 100_000
    assert not (tmp_path / "witness").exists()


def test_pipes_in_place_of_files_are_refused_at_once(tmp_path):
    """To open one waits for a writer, for ever."""
    names = ["scores.npz", "scores.csv", "scores.safetensors", "scores.pt", "scores.parquet"]
    folder = tmp_path / "folder"
    folder.mkdir()
    np.save(folder / "logits.npy", DATA.logits)
    dc.write(DATA, tmp_path / "store")
    (tmp_path / "store/part-00000/labels.npy").unlink()
    pipes = [*(tmp_path / name for name in names), folder / "labels.npy"]
    for pipe in [*pipes, tmp_path / "store/part-00000/labels.npy"]:
        os.mkfifo(pipe)
    dc.write(DATA, tmp_path / "good.npz")
    found, _ = _messages(tmp_path / "good.npz", [*pipes[:-1], folder, tmp_path / "store"])
    for text in found:
        assert "is not a regular file" in text
