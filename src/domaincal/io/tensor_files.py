"""Readers of ``.safetensors`` and ``.pt`` files."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from domaincal._files import NETWORK_FORMAT, decoding, read_tensors
from domaincal._optional import require
from domaincal._typing import Array
from domaincal.errors import FileFormatError, InputError
from domaincal.io.raw_data import ARRAYS, RawData, require_plausible_size


def read_safetensors(path: Path) -> RawData:
    """Tensors of a ``.safetensors`` file.

    Tensors cannot hold strings. The metadata may have ``class_names``, and ``domain_names`` and
    ``group_names`` if the tensors ``domains`` and ``groups`` hold codes; each is a JSON list.
    """
    tensors, metadata = read_tensors(path)
    if "domaincal" in metadata:
        raise FileFormatError(
            f"{path} holds a calibrator, not rows; give a file of rows, or read the calibrator "
            "with domaincal.load."
        )
    if metadata.get("format") == NETWORK_FORMAT:
        raise FileFormatError(
            f"{path} holds a network, not rows; run domaincal extract, and give the store of "
            "logits and features that it writes."
        )
    arrays = {name: tensors[name] for name in ARRAYS if name in tensors}
    for array, key in (("domains", "domain_names"), ("groups", "group_names")):
        if key in metadata and array in arrays:
            arrays[array] = _decoded(arrays[array], _names(metadata[key], key), array)
    class_names = metadata.get("class_names")
    return RawData(
        ".safetensors",
        arrays,
        class_names=None if class_names is None else _names(class_names, "class_names"),
        ignored=tuple(sorted(set(tensors) - set(arrays))),
    )


def read_pt(path: Path) -> RawData:
    """Tensors of a dictionary written by ``torch.save``."""
    torch = require("torch", extra="torch", purpose="reading .pt")
    cure = "save a dictionary of tensors: torch.save({'logits': logits, 'labels': labels}, path)"
    with open(path, "rb") as file, decoding(path, cure):
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                unpacked = sum(entry.file_size for entry in archive.infolist())
            require_plausible_size(path, unpacked, path.stat().st_size)
        file.seek(0)
        # weights_only: the file cannot execute code.
        loaded = torch.load(file, map_location="cpu", weights_only=True)
    if not isinstance(loaded, dict):
        raise FileFormatError(f"{path} holds a {type(loaded).__name__}; {cure}.")
    arrays = {name: _array(torch, path, name, loaded[name]) for name in ARRAYS if name in loaded}
    return RawData(".pt", arrays, ignored=tuple(sorted({str(k) for k in loaded} - set(arrays))))


def _array(torch: Any, path: Path, name: str, tensor: Any) -> Array:
    if not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided:
        raise InputError(
            f"{name} must be a dense tensor, got {type(tensor).__name__}; convert it with "
            "torch.as_tensor (strings as integer codes)."
        )
    require_plausible_size(path, tensor.numel() * tensor.element_size(), path.stat().st_size)
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.float()
    try:
        return tensor.detach().contiguous().numpy()  # type: ignore[no-any-return]
    except (TypeError, RuntimeError) as error:
        raise InputError(f"{name} cannot be converted to a numpy array ({error}).") from error


def _names(text: str, key: str) -> tuple[str, ...]:
    try:
        names = json.loads(text)
    except ValueError as error:
        raise InputError(f"the metadata {key!r} must be a JSON list ({error}).") from error
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError(f"the metadata {key!r} must be a JSON list of strings.")
    return tuple(names)


def _decoded(codes: Array, names: tuple[str, ...], array: str) -> Array:
    if codes.dtype.kind not in "iu" or codes.size == 0 or codes.min() < 0:
        raise InputError(f"{array} must be codes: indices of names, starting at 0.")
    if codes.max() >= len(names):
        raise InputError(f"{array} contains {codes.max()}, but there are {len(names)} names.")
    return np.array(names)[codes]
