"""``.safetensors`` and ``.pt`` of torch users, for reading only."""

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from domaincal._files import NETWORK_FORMAT, decoding, read_tensors
from domaincal._optional import require
from domaincal._typing import Array
from domaincal.errors import FileFormatError, InputError
from domaincal.io.raw_data import ARRAYS, Contents, require_plausible_size


def read_safetensors(path: Path) -> Contents:
    """Tensors of a ``.safetensors`` file.

    Tensors cannot hold strings: the metadata may have ``class_names``, and ``domain_names`` and
    ``group_names`` for tensors of codes, each a JSON list.
    """
    tensors, metadata = read_tensors(path)
    if "domaincal" in metadata:
        raise FileFormatError(
            f"{path} holds a calibrator, not rows; give a file of rows (a calibrator is read by "
            "domaincal.load)."
        )
    if metadata.get("format") == NETWORK_FORMAT:
        raise FileFormatError(
            f"{path} holds a network, not rows; show it images (domaincal extract), and give the "
            "store of its logits and features."
        )
    arrays = {name: tensors[name] for name in ARRAYS if name in tensors}
    for array, key in (("domains", "domain_names"), ("groups", "group_names")):
        if key in metadata and array in arrays:
            arrays[array] = _decoded(arrays[array], _names(metadata[key], key), array)
    class_names = metadata.get("class_names")
    return Contents(
        ".safetensors",
        arrays,
        class_names=None if class_names is None else _names(class_names, "class_names"),
        ignored=tuple(sorted(set(tensors) - set(arrays))),
    )


def read_pt(path: Path) -> Contents:
    """Tensors of a dictionary that ``torch.save`` wrote; nothing else in it is accepted."""
    torch = require("torch", extra="torch", purpose="reading .pt")
    cure = "save a dictionary of tensors: torch.save({'logits': logits, 'labels': labels}, path)"
    with open(path, "rb") as file, decoding(path, cure):
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                unpacked = sum(entry.file_size for entry in archive.infolist())
            require_plausible_size(path, unpacked, path.stat().st_size)
        file.seek(0)
        # The loader that builds tensors and plain containers only, and executes nothing.
        loaded = torch.load(file, map_location="cpu", weights_only=True)
    if not isinstance(loaded, dict):
        raise FileFormatError(f"{path} holds a {type(loaded).__name__}; {cure}.")
    arrays = {name: _array(torch, path, name, loaded[name]) for name in ARRAYS if name in loaded}
    return Contents(".pt", arrays, ignored=tuple(sorted({str(k) for k in loaded} - set(arrays))))


def _array(torch: Any, path: Path, name: str, tensor: Any) -> Array:
    if not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided:
        raise InputError(
            f"{name} must be a dense tensor, got {type(tensor).__name__}; convert it with "
            "torch.as_tensor (strings: integers that stand for them)."
        )
    require_plausible_size(path, tensor.numel() * tensor.element_size(), path.stat().st_size)
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.float()
    try:
        return tensor.detach().contiguous().numpy()  # type: ignore[no-any-return]
    except (TypeError, RuntimeError) as error:
        raise InputError(f"{name} cannot be read as numbers ({error}).") from error


def _names(text: str, key: str) -> tuple[str, ...]:
    try:
        names = json.loads(text)
    except ValueError as error:
        raise InputError(f"the metadata {key!r} is no JSON list ({error}).") from error
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError(f"the metadata {key!r} must be a JSON list of strings.")
    return tuple(names)


def _decoded(codes: Array, names: tuple[str, ...], array: str) -> Array:
    if codes.dtype.kind not in "iu" or codes.size == 0 or codes.min() < 0:
        raise InputError(f"{array} must be numbers of names, counted from 0.")
    if codes.max() >= len(names):
        raise InputError(f"{array} contains {codes.max()}, but there are {len(names)} names.")
    return np.array(names)[codes]
