"""Save and load networks as ``.safetensors`` files: weights as tensors, the rest as JSON."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from domaincal._files import decoding
from domaincal._memory import MemoryLimit
from domaincal._tensor_files import read_tensors, write_tensors
from domaincal._typing import Array
from domaincal.errors import FileFormatError, InputError
from domaincal.vision.networks.create_network import build_network, create_network
from domaincal.vision.networks.header import NetworkHeader, verify_checksum
from domaincal.vision.networks.network import Network
from domaincal.vision.networks.preprocessing import Preprocessing

_CURE = (
    "install the version of timm that wrote it (domaincal inspect shows the version for a trained "
    "network), or train it again"
)


def require_savable(network: Network, path: str | os.PathLike[str]) -> Preprocessing:
    """Raise an error, before any training, if the network cannot be saved to ``path``."""
    if network.preprocessing is None or "timm" not in network.provenance:
        raise InputError(
            f"{network!r} was not made by create_network(); save its module with torch instead."
        )
    if Path(path).suffix != ".safetensors":
        raise InputError(f"{path} must end in .safetensors; choose another name.")
    if not Path(path).parent.is_dir():
        raise InputError(f"there is no folder {Path(path).parent} to write {path}; create it.")
    return network.preprocessing


def save_network(network: Network, path: str | os.PathLike[str]) -> None:
    """Write a network of :func:`create_network` to a ``.safetensors`` file.

    The file contains the weights, the preprocessing, the names of the classes, the provenance and
    a checksum of them all.
    """
    preprocessing = require_savable(network, path)
    header = NetworkHeader(
        network.name, network.class_names, preprocessing.to_dict(), network.provenance
    )
    wrong = _not_finite(network)
    if wrong is not None:
        raise InputError(f"{network!r} has {wrong}; train it again.")
    weights = {k: v.cpu().numpy() for k, v in network.module.state_dict().items()}
    write_tensors(path, weights, header.texts(weights))


def load_network(path: str | os.PathLike[str]) -> Network:
    """Load a network that :func:`save_network` or :func:`train` has written.

    Loading executes no code from the file and downloads nothing: the architecture is looked up
    among those of the installed timm. Weights that are not finite, that do not fit the architecture
    or that differ from the checksum are refused. Files of version 1 of the format have no checksum.
    """
    if not Path(path).exists():
        raise InputError(f"there is no file {path}; give a file that domaincal train has written.")
    weights, texts = read_tensors(path)
    header = NetworkHeader.from_texts(texts, path)
    verify_checksum(texts, weights, path)
    with decoding(path, _CURE):
        try:
            preprocessing = Preprocessing.from_dict(header.preprocessing)
            network = _build(header, preprocessing, weights, MemoryLimit.of(path))
        except InputError as error:  # the file is wrong, not an argument
            raise ValueError(str(error).rstrip(".")) from error
    state = {name: torch.from_numpy(values) for name, values in weights.items()}
    network.module.load_state_dict(state)
    wrong = _not_finite(network)
    if wrong is not None:
        raise FileFormatError(f"{path} has {wrong}; train the network again.")
    network.name, network.preprocessing = header.name, preprocessing
    network.provenance = header.provenance
    return network


def _build(
    header: NetworkHeader,
    preprocessing: Preprocessing,
    weights: Mapping[str, Array],
    limit: MemoryLimit,
) -> Network:
    """Network of the header, with random weights of the shapes in the file."""
    # By its name in timm: the entries of ARCHITECTURES may change.
    name = header.provenance["timm"]
    options: dict[str, Any] = {
        "class_names": header.class_names, "side": preprocessing.side,
        "stem": header.provenance["stem"],
    }  # fmt: skip
    with torch.device("meta"):  # shapes only: no header can name a network that fills the memory
        module = create_network(name, **options).module
    _require_same_shapes(module, weights, limit.path, name)
    # Buffers that are not in the file, such as masks of attention, grow with the side.
    n_bytes = sum(values.nbytes for values in (*module.parameters(), *module.buffers()))
    limit.require(2 * n_bytes, "its side is too large for this architecture")
    return build_network(name, **options)


def _require_same_shapes(
    module: torch.nn.Module, weights: Mapping[str, Array], path: Path, name: str
) -> None:
    """Raise an error unless the file has exactly the weights of the module."""
    expected = {
        key: f"{_kind(values.dtype)} of shape {tuple(values.shape)}"
        for key, values in module.state_dict().items()
    }
    found = {k: f"{_kind(v.dtype)} of shape {v.shape}" for k, v in weights.items()}
    for key in sorted(expected.keys() | found.keys()):
        if expected.get(key) != found.get(key):
            raise FileFormatError(
                f"the weights of {path} do not fit {name} of the installed timm ({key}: the file "
                f"has {found.get(key, 'none')}, timm {expected.get(key, 'none')}); {_CURE}."
            )


def _kind(dtype: Any) -> str:
    """Floats of any size are converted by torch."""
    return "floats" if "float" in str(dtype) else str(dtype).removeprefix("torch.")


def _not_finite(network: Network) -> str | None:
    """Description of weights that are not finite; None if all are finite."""
    for name, values in network.module.state_dict().items():
        if values.is_floating_point() and not torch.isfinite(values).all():
            return f"weights {name!r} that are not finite"
    return None
