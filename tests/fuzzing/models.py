"""Attacks on files that domaincal writes: calibrators, networks, results of trials."""

import functools
import json
import random
import struct
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import domaincal as dc
import support
from crafted_models import ENTRIES
from domaincal._tensor_files import tensor_checksum
from domaincal.calibrators.files.model_encoding import checksum
from domaincal.errors import FileFormatError
from domaincal.evaluation.protocols import split_rows
from domaincal.experiments import result_cache
from domaincal.experiments.methods import Method
from domaincal.experiments.trial_results import SplitData, TrialResult, run_trial
from domaincal.vision import create_network, load_network, save_network
from fuzzing.damage import altered, damaged, json_text, number, value
from fuzzing.target import (
    Target,
    check_between,
    check_predictions,
    replace_by_other_kind,
    require,
    run_verb,
)

_NUMPY = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "U8": "|u1",
    "BOOL": "|b1",
}  # fmt: skip
#: Names of networks that a file may name: other ones, giant ones, and ones that are elsewhere.
_NETWORKS = (
    "vit_giant_patch14_clip_224", "eva_giant_patch14_560", "resnet50", "test_vit",
    "hf-hub:someone/else", "local-dir:/tmp",
)  # fmt: skip
_NAMES = {dtype: name for name, dtype in _NUMPY.items()}


def split_file(content: bytes) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """Metadata and arrays of a ``.safetensors`` file."""
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + length])
    metadata = header.pop("__metadata__", {})
    arrays = {}
    for name, entry in header.items():
        start, stop = (8 + length + offset for offset in entry["data_offsets"])
        values = np.frombuffer(content[start:stop], _NUMPY[entry["dtype"]])
        arrays[name] = values.reshape(entry["shape"])
    return metadata, arrays


def join_file(metadata: dict[str, str], arrays: dict[str, np.ndarray]) -> bytes:
    """A ``.safetensors`` file; the same bytes for the same contents."""
    header: dict[str, Any] = {"__metadata__": metadata}
    content = b""
    for name, values in arrays.items():
        packed = np.ascontiguousarray(values).astype(values.dtype.newbyteorder("<"))
        stop = len(content) + packed.nbytes
        header[name] = {
            "dtype": _NAMES[packed.dtype.str], "shape": list(values.shape),
            "data_offsets": [len(content), stop],
        }  # fmt: skip
        content += packed.tobytes()
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + content


def _altered_arrays(rng: random.Random, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Change one of the arrays: its values, order, shape or dtype; or remove or add one."""
    arrays = dict(arrays)
    if not arrays:
        return {"x": np.zeros(3)}
    name = rng.choice(list(arrays))
    old = arrays[name]
    action = rng.randrange(9)
    if action == 0:
        del arrays[name]
    elif action == 1:
        arrays[name] = old[: len(old) // 2] if old.ndim else old.reshape(1)
    elif action == 2:
        arrays[name] = np.concatenate([old, old]) if old.ndim else old.reshape(1, 1)
    elif action == 3:
        arrays[name] = old.T.copy() if old.ndim > 1 else old.reshape(-1, 1)
    elif action == 4:
        arrays[name] = old.astype(rng.choice(("f8", "f4", "i8", "?", "u1", "f2")))
    elif action == 5:
        arrays[name] = old[::-1].copy() if old.ndim else -old
    elif action == 6:
        arrays[name] = old[:0] if old.ndim else old
    elif old.size:
        new = old.copy().ravel()
        with np.errstate(all="ignore"):
            places = slice(None) if action == 7 else rng.randrange(new.size)
            new[places] = np.float64(number(rng)).astype(old.dtype)
        arrays[name] = new.reshape(old.shape)
    return arrays


# calibrators


@dataclass(frozen=True)
class _Model:
    """A saved calibrator, and what it predicts."""

    name: str
    content: bytes
    confidence: np.ndarray


_FORMS = tuple(
    name for name in (*support.CALIBRATORS, *support.FURTHER_MODELS) if name != "md-ts-instance"
)


@functools.cache
def _rows() -> dc.CalibrationData:
    return support.small_domains(n_domains=4, n_rows=30, n_classes=3, n_features=3)


@functools.cache
def _models() -> list[_Model]:
    data, found = _rows(), []
    with tempfile.TemporaryDirectory() as folder:
        for name in _FORMS:
            calibrator = support.fitted_model(name, data)
            path = Path(folder, f"{name}.safetensors")
            calibrator.save(path)
            confidence = dc.load(path).predict_confidence(data)
            found.append(_Model(name, path.read_bytes(), confidence))
    return found


@dataclass(frozen=True)
class _ModelCase:
    path: Path
    same: _Model | None


def _make_model(rng: random.Random, folder: Path) -> _ModelCase:
    path, model, action = folder / "model.safetensors", rng.choice(_models()), rng.random()
    if action < 0.01:
        replace_by_other_kind(rng, path)
        return _ModelCase(path, None)
    if action < 0.3:
        path.write_bytes(damaged(rng, model.content))
        return _ModelCase(path, model)
    path.write_bytes(_crafted_model(rng, model))
    return _ModelCase(path, None)


def _crafted_model(rng: random.Random, model: _Model) -> bytes:
    """An altered model whose checksum is right where one can be computed."""
    metadata, arrays = split_file(model.content)
    header = json.loads(metadata["domaincal"])
    action = rng.random()
    if action < 0.4:
        arrays = _altered_arrays(rng, arrays)
    elif action < 0.9:
        part = rng.choice(("learned", "learned", "learned", "parameters"))
        header[part] = altered(rng, header[part], rng.choice((value, _entry)))
    else:
        header = altered(rng, header)
    text = json_text(header)
    return join_file({"domaincal": _with_checksum(text, arrays)}, arrays)


def _entry(rng: random.Random) -> Any:
    return rng.choice(ENTRIES)


def _with_checksum(text: str, arrays: dict[str, np.ndarray]) -> str:
    try:
        header = json.loads(text)
        header.pop("sha256", None)
        header["sha256"] = checksum(header, arrays)
        return json.dumps(header)
    except (ValueError, RecursionError, AttributeError, TypeError):
        return text


def _check_model(case: _ModelCase) -> None:
    data = _rows()
    calibrator = dc.load(case.path)
    if case.same is not None:
        found = calibrator.predict_confidence(data)
        require(np.array_equal(found, case.same.confidence), "other predictions after damage")
        return
    repr(calibrator)
    calibrator._repr_html_()
    run_verb("inspect", case.path)
    check_predictions(calibrator, data.logits, features=data.features, domains=data.domains)
    calibrator.save(case.path.with_name("again.safetensors"))
    dc.load(case.path.with_name("again.safetensors"))


# results of trials


#: As in trial_key: the entries that decide what a result may look like.
_KEY = {"data": "fuzz", "seed": 0, "bins": 5, "method": {"text": "ts", "code": None}}


@functools.cache
def _cell() -> tuple[bytes, TrialResult]:
    """A file of a result, and the result."""
    train, scored = split_rows(_rows(), ood=["domain-3"], by="row", random_state=0)
    result = run_trial(Method("TS", "ts"), SplitData.with_oracles(train, scored), n_bins=5)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "cell.safetensors")
        result_cache.write_result(path, result, _KEY)
        return _sorted_file(path), result


def _sorted_file(path: Path) -> bytes:
    """Content with sorted metadata: safetensors writes them in random order."""
    metadata, arrays = split_file(path.read_bytes())
    return join_file(dict(sorted(metadata.items())), arrays)


def _make_cell(rng: random.Random, folder: Path) -> tuple[Path, bool]:
    path, content = folder / "cell.safetensors", _cell()[0]
    action = rng.random()
    if action < 0.02:
        replace_by_other_kind(rng, path)
        return path, True
    if action < 0.5:
        path.write_bytes(damaged(rng, content))
        return path, True
    metadata, arrays = split_file(content)
    if rng.random() < 0.4:
        arrays = _altered_arrays(rng, arrays)
    else:
        key = rng.choice(("table", "table", "table", "provenance", "key"))
        text = json_text(altered(rng, json.loads(metadata[key])))
        metadata[key] = text.encode("utf-8", "replace").decode()
    del metadata["sha256"]
    metadata["sha256"] = result_cache._checksum(metadata, arrays)
    path.write_bytes(join_file(metadata, arrays))
    return path, False


def _check_cell(case: tuple[Path, bool]) -> None:
    """A damaged cell is not used; a crafted one has numbers in their ranges."""
    path, is_damaged = case
    found, (_, expected) = result_cache.read_result(path, _KEY), _cell()
    if found is None:
        raise FileFormatError("the trial is run again")
    if is_damaged:
        require(found.table.equals(expected.table), "the table differs after silent damage")
        for name in ("bins", "edges"):
            same = np.array_equal(getattr(found, name), getattr(expected, name))
            require(same, f"{name} differs after silent damage")
        require(found.provenance == expected.provenance, "the provenance differs")
    check_between(found.table["ece"], 0, 1, "ece")
    check_between(found.sums().calibration_error(), 0, 1, "ece of the bins")


# networks


@functools.cache
def _network() -> bytes:
    network = create_network("test_resnet", class_names=["a", "b"], side=32)
    with tempfile.TemporaryDirectory() as folder:
        save_network(network, Path(folder, "network.safetensors"))
        return _sorted_file(Path(folder, "network.safetensors"))


def _make_network(rng: random.Random, folder: Path) -> tuple[Path, bool]:
    path, content, action = folder / "network.safetensors", _network(), rng.random()
    if action < 0.02:
        replace_by_other_kind(rng, path)
        return path, True
    if action < 0.4:
        path.write_bytes(damaged(rng, content))
        return path, True
    metadata, arrays = split_file(content)
    if rng.random() < 0.4:
        arrays = _altered_arrays(rng, arrays) if rng.random() < 0.7 else {}
    header = json.loads(metadata["network"])
    if rng.random() < 0.3:
        header["provenance"]["timm"] = rng.choice(_NETWORKS)
        header["preprocessing"]["side"] = rng.choice((32, 224, 40_000, 10**9))
    elif rng.random() < 0.8:
        header = altered(rng, header)
    text = json_text(header).encode("utf-8", "replace").decode()
    metadata.update(network=text, sha256=tensor_checksum(text, arrays))
    metadata["version"] = rng.choice((metadata["version"], "1"))
    path.write_bytes(join_file(metadata, arrays))
    return path, False


def _check_network(case: tuple[Path, bool]) -> None:
    path, is_damaged = case
    run_verb("inspect", path)
    network = load_network(path)
    state = {name: values.numpy() for name, values in network.module.state_dict().items()}
    for name, values in state.items():
        require(np.isfinite(values).all(), f"{name} is not finite")
    if is_damaged:
        _, expected = split_file(_network())
        same = all(np.array_equal(state[name], expected[name]) for name in expected)
        require(same, "other weights after silent damage")


TARGETS = (
    Target("model", _make_model, _check_model, 2.0),
    Target("cell", _make_cell, _check_cell, 0.5),
    Target("network", _make_network, _check_network, 0.5),
)
