"""Files of tensors (``.safetensors``) with a header in JSON: calibrators, networks, results."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from io import BufferedReader
from typing import Any

import numpy as np

from domaincal._files import DAMAGED, atomic_file, decoding, open_file
from domaincal._memory import MemoryLimit
from domaincal._typing import Array
from domaincal.errors import FileFormatError

#: The entry ``format`` in the metadata of a network file.
NETWORK_FORMAT = "domaincal network"
#: Entry of the metadata that holds the header of a file of a site.
SITE_ENTRY = "domaincal_site"

# Bytes that reading takes for each value. Those of bfloat16 are also held as float32.
_TENSOR_BYTES = {
    "F64": 8, "F32": 4, "F16": 2, "BF16": 6, "I64": 8, "I32": 4, "I16": 2, "I8": 1,
    "U64": 8, "U32": 4, "U16": 2, "U8": 1, "BOOL": 1,
}  # fmt: skip
# Deeper headers would exceed Python's limit of recursion when they are written again.
_MAX_DEPTH = 50


def write_tensors(
    path: str | os.PathLike[str], tensors: Mapping[str, Array], metadata: Mapping[str, str]
) -> None:
    """Write arrays and metadata to a ``.safetensors`` file, atomically."""
    from safetensors.numpy import save

    arrays = {name: np.asarray(values, order="C") for name, values in tensors.items()}
    content = save(arrays, dict(metadata))
    with atomic_file(path) as file:
        file.write(content)


def read_tensors(
    path: str | os.PathLike[str], limit: MemoryLimit | None = None
) -> tuple[dict[str, Array], dict[str, str]]:
    """Arrays and metadata of a ``.safetensors`` file; bfloat16 becomes float32."""
    with open_file(path) as file, decoding(path, DAMAGED), _safe_open(path) as content:
        metadata = dict(content.metadata() or {})
        found = {name: content.get_slice(name) for name in content.keys()}  # noqa: SIM118
        dtypes = {name: tensor.get_dtype() for name, tensor in found.items()}
        for name, dtype in dtypes.items():
            if dtype not in _TENSOR_BYTES:
                raise FileFormatError(
                    f"{path} holds the tensor {name!r} of dtype {dtype}, which is not supported; "
                    "store it as float32."
                )
        if limit is not None:
            sizes = {name: math.prod(tensor.get_shape()) for name, tensor in found.items()}
            limit.require(sum(sizes[name] * _TENSOR_BYTES[dtype] for name, dtype in dtypes.items()))
        halves = [name for name, dtype in dtypes.items() if dtype == "BF16"]
        tensors = {name: content.get_tensor(name) for name in found if name not in set(halves)}
        if halves:
            tensors |= _read_bfloat16(file, halves)
    return tensors, metadata


def _read_bfloat16(file: BufferedReader, names: list[str]) -> dict[str, Array]:
    """Tensors of bfloat16, which numpy does not have, as float32."""
    n_header = int.from_bytes(file.read(8), "little")
    header = json.loads(file.read(n_header))
    tensors = {}
    for name in names:
        entry = header[name]
        file.seek(8 + n_header + entry["data_offsets"][0])
        upper_halves = np.fromfile(file, "<u2", math.prod(entry["shape"]))
        values = upper_halves.astype(np.uint32)
        values <<= np.uint32(16)
        tensors[name] = values.view(np.float32).reshape(entry["shape"])
    return tensors


def read_tensor_metadata(path: str | os.PathLike[str]) -> dict[str, str]:
    """Metadata of a ``.safetensors`` file."""
    with open_file(path), decoding(path, DAMAGED), _safe_open(path) as content:
        return dict(content.metadata() or {})


def tensor_checksum(header: str, tensors: Mapping[str, Array]) -> str:
    """SHA-256 of the text of a header and of all tensors."""
    digest = hashlib.sha256(header.encode())
    for name in sorted(tensors):
        values = np.ascontiguousarray(tensors[name])
        digest.update(f"{name} {values.dtype.str} {values.shape}\n".encode())
        digest.update(values.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def parse_header(text: str) -> Any:
    """Content of a JSON text; raises ValueError for a repeated key or endless nesting.

    Examples
    --------
    >>> parse_header('{"a": 1, "a": 2}')
    Traceback (most recent call last):
    ...
    ValueError: the key 'a' occurs twice
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:  # which of the two counts would be a matter of the parser
                raise ValueError(f"the key {key[:40]!r} occurs twice")
            found[key] = value
        return found

    header = json.loads(text, object_pairs_hook=unique)
    _check_depth(header, _MAX_DEPTH)
    return header


def _check_depth(value: Any, left: int) -> None:
    if left == 0:
        raise ValueError("the header is nested too deeply")
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for part in parts:
        _check_depth(part, left - 1)


def _safe_open(path: str | os.PathLike[str]) -> Any:
    """Open a ``.safetensors`` file; the library checks its header and its length."""
    from safetensors import safe_open

    return safe_open(os.fspath(path), framework="np")
