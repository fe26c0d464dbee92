"""Readers of ``.safetensors`` and ``.pt`` files."""

from __future__ import annotations

import json
import math
import zipfile
from pathlib import Path

import numpy as np

from domaincal._files import decoding, open_file
from domaincal._memory import MemoryLimit
from domaincal._tensor_files import NETWORK_FORMAT, SITE_ENTRY, read_tensors
from domaincal._typing import Array
from domaincal.data.column_choice import ColumnChoice
from domaincal.errors import FileFormatError, InputError
from domaincal.io.npy import read_into
from domaincal.io.raw_data import CODED, RawData, named_rows, sources_of
from domaincal.io.torch_pickle import Other, Tensor, entries

_CURE = "save a dictionary of tensors: torch.save({'logits': logits, 'labels': labels}, path)"
# Names of torch's dtypes, and of its storages.
_DTYPES = {
    "float64": "f8", "double": "f8", "float32": "f4", "float": "f4", "float16": "f2", "half": "f2",
    "int64": "i8", "long": "i8", "int32": "i4", "int": "i4", "int16": "i2", "short": "i2",
    "int8": "i1", "char": "i1", "uint8": "u1", "byte": "u1", "bool": "?", "uint16": "u2",
    "uint32": "u4", "uint64": "u8", "complexfloat": "c8", "complexdouble": "c16",
    "bfloat16": "u2",
}  # fmt: skip
# Memory of a decoded pickle, as a multiple of its length.
_TIMES_PICKLE = 100


def read_safetensors(path: Path, limit: MemoryLimit, choice: ColumnChoice) -> RawData:
    """Tensors of a ``.safetensors`` file.

    Tensors cannot hold strings. The metadata may have ``class_names``, and ``domain_names`` and
    ``group_names`` if the tensors ``domains`` and ``groups`` hold codes; each is a JSON list.
    """
    tensors, metadata = read_tensors(path, limit)
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
    if SITE_ENTRY in metadata:
        raise FileFormatError(
            f"{path} holds sums of a site, or a plan for them, not rows; give a file of rows, or "
            "the sums of all sites to domaincal site combine."
        )
    names = choice.array_names(tensors)
    arrays = {array: tensors[name] for array, name in names.items()}
    for array, key in CODED.items():
        if key in metadata and array in arrays:
            arrays[array] = named_rows(arrays[array], _names(metadata[key], key), array)
    class_names = metadata.get("class_names")
    return RawData(
        ".safetensors",
        arrays,
        class_names=choice.of_classes()
        or (None if class_names is None else _names(class_names, "class_names")),
        ignored=tuple(sorted(set(tensors) - set(names.values()))),
        sources=sources_of(names),
    )


def read_pt(path: Path, limit: MemoryLimit, choice: ColumnChoice) -> RawData:
    """Tensors of a dictionary written by ``torch.save``; torch is not needed."""
    with open_file(path) as file, decoding(path, _CURE):
        if not zipfile.is_zipfile(file):
            raise FileFormatError(
                f"{path} is not a zip file, as torch.save writes since torch 1.6 (without "
                "_use_new_zipfile_serialization=False); save it again. It may also be truncated or "
                f"damaged; {_CURE}."
            )
        with zipfile.ZipFile(file) as archive:
            return _read_archive(path, _Archive(path, archive), limit, choice)


def _read_archive(
    path: Path, archive: _Archive, limit: MemoryLimit, choice: ColumnChoice
) -> RawData:
    limit.require(_TIMES_PICKLE * archive.size("data.pkl"))
    found = entries(archive.read("data.pkl"))
    if isinstance(found, Other):
        raise FileFormatError(f"{path} holds a {found.name}; {_CURE}.")
    tensors: dict[str, Tensor] = {}
    names = choice.array_names(found)
    for array, name in names.items():
        entry = found[name]
        if isinstance(entry, Other):
            raise InputError(
                f"{name} must be a dense tensor, got {entry.name}; convert it with "
                "torch.as_tensor (strings as integer codes)."
            )
        tensors[array] = entry
    limit.require(_peak_bytes(tensors, archive))
    big = archive.has("byteorder") and archive.read("byteorder") == b"big"
    arrays = {name: _array(tensor, archive, big=big) for name, tensor in tensors.items()}
    return RawData(
        ".pt", arrays, class_names=choice.of_classes(), sources=sources_of(names),
        ignored=tuple(sorted(set(found) - set(names.values()))),
    )  # fmt: skip


def _array(tensor: Tensor, archive: _Archive, *, big: bool) -> Array:
    """Values of a tensor, in C order; bfloat16 becomes float32."""
    dtype = _dtype(tensor).newbyteorder(">" if big else "<")
    content = np.empty(archive.size(f"data/{tensor.storage.key}"), np.uint8)
    archive.read_into(f"data/{tensor.storage.key}", content)
    # numpy compares the shape and the strides with the size of the buffer.
    part: Array = np.ndarray(
        tensor.shape, dtype, content, tensor.offset * dtype.itemsize,
        tuple(n * dtype.itemsize for n in tensor.strides),
    )  # fmt: skip
    if tensor.dtype == "bfloat16":  # the upper half of a float32
        return (part.astype(np.uint32, order="C") << np.uint32(16)).view(np.float32)
    return np.ascontiguousarray(part)


def _peak_bytes(tensors: dict[str, Tensor], archive: _Archive) -> int:
    """Memory that reading the tensors takes: their storages, and copies in C order."""
    total = 0
    for tensor in tensors.values():
        size = 8 if tensor.dtype == "bfloat16" else _dtype(tensor).itemsize
        total += archive.size(f"data/{tensor.storage.key}") + size * math.prod(tensor.shape)
    return total


def _dtype(tensor: Tensor) -> np.dtype[np.generic]:
    if tensor.dtype not in _DTYPES:
        raise InputError(f"a tensor has the dtype {tensor.dtype}; convert it with .float().")
    return np.dtype(_DTYPES[tensor.dtype])


class _Archive:
    """Entries of the zip file below its one folder, whose name torch.save chooses."""

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self._path = path
        self._archive = archive
        self._entries: dict[str, zipfile.ZipInfo] = {}
        for entry in archive.infolist():
            name = entry.filename.partition("/")[2]
            if name in self._entries:
                raise FileFormatError(f"{path} holds {name!r} twice; {_CURE}.")
            if entry.compress_type != zipfile.ZIP_STORED:
                raise FileFormatError(f"{path} is compressed, as torch.save does not; {_CURE}.")
            self._entries[name] = entry

    def has(self, name: str) -> bool:
        """Whether there is an entry of this name."""
        return name in self._entries

    def size(self, name: str) -> int:
        """Bytes of an entry."""
        if name not in self._entries:
            raise FileFormatError(f"{self._path} has no entry {name!r}; {_CURE}.")
        return self._entries[name].file_size

    def read(self, name: str) -> bytes:
        """Content of an entry."""
        return self._archive.read(self._entries[name])

    def read_into(self, name: str, out: Array) -> None:
        """Read the content of an entry into an array."""
        with self._archive.open(self._entries[name]) as stream:
            read_into(stream, out, f"{name!r} of {self._path}")


def _names(text: str, key: str) -> tuple[str, ...]:
    try:
        names = json.loads(text)
    except ValueError as error:
        raise InputError(f"the metadata {key!r} must be a JSON list ({error}).") from error
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError(f"the metadata {key!r} must be a JSON list of strings.")
    return tuple(names)
