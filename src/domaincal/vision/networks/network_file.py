"""Networks in ``.safetensors`` files: weights as tensors, all else as JSON; nothing is executed."""

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
    "install the version of timm that made it (domaincal inspect tells that of a trained one), or "
    "train it again"
)


def require_savable(network: Network, path: str | os.PathLike[str]) -> Preprocessing:
    """Refuse what could not be written, before there is anything to lose."""
    if network.preprocessing is None or "timm" not in network.provenance:
        raise InputError(f"{network!r} is none of create_network; save its module with torch.")
    if Path(path).suffix != ".safetensors":
        raise InputError(f"{path} must end in .safetensors, which is what it will be.")
    if not Path(path).parent.is_dir():
        raise InputError(f"there is no folder {Path(path).parent} to write {path}; create it.")
    return network.preprocessing


def save_network(network: Network, path: str | os.PathLike[str]) -> None:
    """Write a network of :func:`create_network` to a ``.safetensors`` file.

    The file has its weights, what it expects of images, its classes and where it comes from.
    """
    preprocessing = require_savable(network, path)
    header = NetworkHeader(
        network.name, network.class_names, preprocessing.to_dict(), network.provenance
    )
    weights = {k: v.cpu().numpy() for k, v in network.module.state_dict().items()}
    write_tensors(path, weights, header.texts())


def load_network(path: str | os.PathLike[str]) -> Network:
    """A network that :func:`save_network` or :func:`train` wrote."""
    if not Path(path).is_file():
        raise InputError(f"there is no file {path}; give a network that domaincal train wrote.")
    weights, texts = read_tensors(path)
    header = NetworkHeader.from_texts(texts, path)
    with decoding(path, _CURE):
        try:
            preprocessing = Preprocessing.from_dict(header.preprocessing)
            # By timm's name: what ours stands for may change.
            network = create_network(
                header.provenance["timm"], class_names=header.class_names,
                side=preprocessing.side, stem=header.provenance["stem"],
            )  # fmt: skip
        except InputError as error:  # the fault is the file's, not that of an argument
            raise ValueError(str(error).rstrip(".")) from error
    state = {name: torch.from_numpy(values) for name, values in weights.items()}
    try:
        network.module.load_state_dict(state)
    except RuntimeError as error:
        raise FileFormatError(
            f"the weights of {path} are not those of {header.provenance['timm']} as timm has it "
            f"now ({str(error).splitlines()[-1].strip()}); {_CURE}."
        ) from error
    network.name, network.preprocessing = header.name, preprocessing
    network.provenance = header.provenance
    return network
