"""Attacks on files of arrays: npz, folders of npy, safetensors, pt, stores."""

import functools
import hashlib
import io
import json
import pickle
import random
import struct
import tempfile
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import domaincal as dc
from fuzzing.damage import altered, damaged, json_text, name, npy_bytes, number, value
from fuzzing.rows import Case, check_rows, file_target, rows, written
from fuzzing.target import Target, files_of, replace_by_other_kind, write_files
from fuzzing.zips import altered_zip, zip_bytes

_ARCHIVES = Path(__file__).parents[1] / "archives"


@functools.cache
def _members() -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(written(".npz")["rows.npz"])) as archive:
        return {entry: archive.read(entry) for entry in archive.namelist()}


def _altered_array(rng: random.Random, key: str, content: bytes) -> bytes:
    """Another ``.npy`` file in place of an array."""
    if rng.random() < 0.4:
        return npy_bytes(rng, content)
    if rng.random() < 0.3 or not key.endswith(".npy"):
        return damaged(rng, content)
    file = io.BytesIO()
    np.save(file, _hostile_array(rng, content), allow_pickle=rng.random() < 0.1)
    return file.getvalue()


def _hostile_array(rng: random.Random, content: bytes) -> Any:
    """An array with hostile values, of the shape of the stored one or of another."""
    old = np.load(io.BytesIO(content))
    n = old.shape[0] if old.ndim else 1
    kind = rng.randrange(8)
    if kind == 0:
        texts = [name(rng) for _ in range(3)]
        return np.array([rng.choice(texts) for _ in range(n)])
    if kind == 1:
        return np.array([rng.choice((3, -1, 2**62, 0)) for _ in range(n)])
    if kind == 2:
        return np.zeros(n, rng.choice(("M8[s]", "m8[s]", "V3", "S4", "c8", "?", "f2", "u8")))
    if kind == 3:
        document = altered(rng, {"seed": 3, "a": [1, {"b": None}]})
        return np.array(json_text(document).encode("utf-8", "replace").decode())
    new = old.astype(float) if old.dtype.kind in "fiu" else np.zeros(old.shape)
    if kind == 4 and new.size:
        new.ravel()[rng.randrange(new.size)] = float(number(rng))
        return new
    if kind == 5:
        return np.atleast_1d(new)[: n // 2]
    if kind == 6:
        return np.asfortranarray(new.T) if new.ndim == 2 else new.reshape(-1, 1)
    return (new * 10.0 ** rng.randrange(-300, 300)).astype(rng.choice(("f4", "f8", ">f8", "f2")))


def _craft_npz(rng: random.Random) -> bytes:
    return altered_zip(rng, _members(), _altered_array)


def _make_npy(rng: random.Random, folder: Path) -> Case:
    path = folder / "rows"
    files = {key: text for key, text in _members().items() if "names" not in key}
    key = rng.choice(list(files))
    action = rng.random()
    write_files(path, files)
    if action < 0.02:
        replace_by_other_kind(rng, path / key)
    elif action < 0.4:
        (path / key).write_bytes(damaged(rng, files[key]))
    else:
        (path / key).write_bytes(_altered_array(rng, key, files[key]))
    return Case(path, None, rng.randrange(6))


# safetensors and pt


def _tensor_file(header: str, content: bytes) -> bytes:
    text = header.encode("utf-8", "surrogatepass")
    return struct.pack("<Q", len(text)) + text + content


@functools.cache
def _safetensors() -> bytes:
    data = rows()
    arrays = {
        "logits": data.logits, "labels": data.labels, "features": data.features,
        "domains": data.domain_codes[0], "groups": data.group_codes[0],
    }  # fmt: skip
    names = {
        "class_names": data.class_names, "domain_names": data.domain_names.tolist(),
        "group_names": data.group_codes[1].tolist(),
    }  # fmt: skip
    header: dict[str, Any] = {"__metadata__": {k: json.dumps(v) for k, v in names.items()}}
    content = b""
    for key, array in arrays.items():
        stop = len(content) + array.nbytes
        header[key] = {
            "dtype": {"f4": "F32", "i8": "I64"}[array.dtype.str[1:]],
            "shape": list(array.shape), "data_offsets": [len(content), stop],
        }  # fmt: skip
        content += array.tobytes()
    return _tensor_file(json.dumps(header), content)


def _craft_safetensors(rng: random.Random) -> bytes:
    """Altered entries of the header, or of the lists of names in it."""
    content = _safetensors()
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + length])
    if rng.random() < 0.4:
        key = rng.choice(list(header["__metadata__"]))
        document = altered(rng, json.loads(header["__metadata__"][key]))
        header["__metadata__"][key] = json_text(document)
    elif rng.random() < 0.2:
        entry = header[rng.choice(list(header)[1:])]
        entry["dtype"] = rng.choice(("BF16", "F16", "F64", "BOOL", "U8", "F8_E4M3", "I32", "X"))
    else:
        header = altered(rng, header)
    return _tensor_file(json_text(header), content[8 + length :])


@functools.cache
def _pt(form: str) -> bytes:
    import torch

    data, file = rows(), io.BytesIO()
    arrays = {
        "logits": data.logits, "labels": data.labels, "features": data.features,
        "domains": data.domain_codes[0],
    }  # fmt: skip
    tensors = {key: torch.tensor(np.array(array)) for key, array in arrays.items()}
    if form == "bfloat16":
        tensors["logits"] = tensors["logits"].bfloat16()
    if form == "expanded":
        tensors["logits"] = torch.zeros(1, 1).expand(10**9, 10)
    if form == "sparse":
        tensors["logits"] = tensors["logits"].to_sparse()
    torch.save(tensors, file, _use_new_zipfile_serialization=form != "legacy")
    return file.getvalue()


def _craft_pt(rng: random.Random) -> bytes:
    """Damaged members with right checksums, other tensors, pickles that cost time."""
    action = rng.random()
    if action < 0.2:
        return _pt(rng.choice(("bfloat16", "expanded", "sparse", "legacy")))
    if action < 0.3:
        return damaged(rng, _pt("legacy"))
    with zipfile.ZipFile(io.BytesIO(_pt("plain"))) as archive:
        members = {entry: archive.read(entry) for entry in archive.namelist()}
    if action < 0.4:
        key = next(entry for entry in members if entry.endswith("data.pkl"))
        members[key] = _costly_pickle(rng)
        return zip_bytes(members)
    return altered_zip(rng, members, lambda rng, _, content: damaged(rng, content))


def _costly_pickle(rng: random.Random) -> bytes:
    """Nested tuples as the key of a dictionary take 2**n steps to hash; or code to run."""
    depth = rng.choice((5, 28, 60))
    nested = b")" + b"".join(
        b"q" + bytes((k,)) + b"h" + bytes((k,)) + b"\x86" for k in range(depth)
    )
    return rng.choice((
        b"\x80\x02}" + nested + b"K\x01s.",
        pickle.dumps(value(rng), 2),
        b"\x80\x02cos\nsystem\nX\x04\0\0\0true\x85R.",
        b"\x80\x02" + b"(" * 5000 + b"t" * 5000 + b".",
        b"\x80\x02X\xff\xff\xff\x7fabc.",
    ))  # fmt: skip


# stores


@functools.cache
def _stores() -> list[tuple[dict[str, bytes], dc.CalibrationData]]:
    """Files and rows of stores of this version and of earlier ones."""
    with tempfile.TemporaryDirectory() as folder:
        store = dc.Store(Path(folder, "new"))
        for start in range(0, len(rows()), 15):
            store.append(rows()[start : start + 15])
        found = [(files_of(store.path), store.read())]
    archived = sorted(_ARCHIVES.glob("v*/scores"))
    return [*found, *((files_of(path), dc.Store(path).read()) for path in archived)]


def _make_store(rng: random.Random, folder: Path) -> Case:
    path = folder / "rows"
    files, expected = rng.choice(_stores())
    write_files(path, files)
    key = rng.choice(["meta.json", *(k for k in files if not k.endswith(".lock"))])
    action = rng.random()
    if action < 0.02:
        replace_by_other_kind(rng, path / key)
    elif action < 0.04:
        (path / key).unlink()
    elif action < 0.4:
        (path / key).write_bytes(damaged(rng, files[key]))
    else:
        changed = {**files, key: _altered_file(rng, key, files[key])}
        if action > 0.6:
            write_files(path, _sealed(changed))
            return Case(path, None, rng.randrange(6))
        write_files(path, changed)
    return Case(path, expected if rng.random() < 0.5 else None, rng.randrange(6))


def _altered_file(rng: random.Random, key: str, content: bytes) -> bytes:
    if not key.endswith(".json"):
        return _altered_array(rng, key, content)
    text = json_text(altered(rng, json.loads(content)))
    return text.encode("utf-8", "surrogatepass")


def _sealed(files: dict[str, bytes]) -> dict[str, bytes]:
    """The files of a store with right checksums, as far as they can be computed."""
    files = dict(files)
    with suppress(ValueError, TypeError, KeyError, AttributeError, RecursionError):
        meta = json.loads(files["meta.json"])
        digest = ""
        for key in sorted(k for k in files if k.endswith("shard.json")):
            shard = json.loads(files[key])
            folder = Path(key).parent
            for array in shard["files"]:
                content = files[str(folder / f"{array}.npy")]
                shard["files"][array] = hashlib.sha256(content).hexdigest()
            files[key] = json.dumps(shard).encode()
            digest = hashlib.sha256(digest.encode() + files[key]).hexdigest()
        if digest:
            meta["digest"] = digest
        entries = {k: v for k, v in meta.items() if k not in ("format", "version", "sha256")}
        meta["sha256"] = hashlib.sha256(json.dumps(entries).encode()).hexdigest()
        files["meta.json"] = json.dumps(meta).encode()
    return files


def _check_store(case: Case) -> None:
    store = dc.Store(case.path)
    if case.reader == 3 and case.same is None:
        n = len(store)
        for part in (store.labels(), store.domains(), store.groups()):
            assert part is None or len(part) == n
        dict(store.provenance)
        store.check()
    else:
        check_rows(case)


TARGETS = (
    file_target(".npz", lambda: written(".npz")["rows.npz"], _craft_npz, has_checksum=True),
    Target("npy", _make_npy, check_rows, 0.7),
    file_target(".safetensors", _safetensors, _craft_safetensors, share=0.7),
    file_target(".pt", lambda: _pt("plain"), _craft_pt),
    Target("store", _make_store, _check_store),
)
