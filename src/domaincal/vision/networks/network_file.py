"""Save and load networks as ``.safetensors`` files: weights as tensors, the rest as JSON."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from domaincal._files import decoding, read_tensors, write_tensors
from domaincal.errors import FileFormatError, InputError
from domaincal.vision.networks.create_network import create_network
from domaincal.vision.networks.header import NetworkHeader
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

    The file contains the weights, the preprocessing, the names of the classes and the provenance.
    """
    preprocessing = require_savable(network, path)
    header = NetworkHeader(
        network.name, network.class_names, preprocessing.to_dict(), network.provenance
    )
    weights = {k: v.cpu().numpy() for k, v in network.module.state_dict().items()}
    write_tensors(path, weights, header.texts())


def load_network(path: str | os.PathLike[str]) -> Network:
    """Load a network that :func:`save_network` or :func:`train` has written."""
    if not Path(path).is_file():
        raise InputError(f"there is no file {path}; give a file that domaincal train has written.")
    weights, texts = read_tensors(path)
    header = NetworkHeader.from_texts(texts, path)
    with decoding(path, _CURE):
        try:
            preprocessing = Preprocessing.from_dict(header.preprocessing)
            # By its name in timm: the entries of ARCHITECTURES may change.
            network = create_network(
                header.provenance["timm"], class_names=header.class_names,
                side=preprocessing.side, stem=header.provenance["stem"],
            )  # fmt: skip
        except InputError as error:  # the file is wrong, not an argument
            raise ValueError(str(error).rstrip(".")) from error
    state = {name: torch.from_numpy(values) for name, values in weights.items()}
    try:
        network.module.load_state_dict(state)
    except RuntimeError as error:
        raise FileFormatError(
            f"the weights of {path} do not fit {header.provenance['timm']} of the installed timm "
            f"({str(error).splitlines()[-1].strip()}); {_CURE}."
        ) from error
    network.name, network.preprocessing = header.name, preprocessing
    network.provenance = header.provenance
    return network
