"""Tiny-ImageNet-C: train a network on Tiny-ImageNet, and extract its rows in 76 domains."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any, Literal

from domaincal import vision
from domaincal._optional import require
from domaincal._typing import Track
from domaincal.data import CalibrationData
from domaincal.errors import InputError

_SIDE = 64  # pixels
_BATCH_ON_GPU = 500


def image_fingerprints(folder: Path) -> dict[str, str]:
    """Fingerprints of the training and of the validation images in a folder."""
    return {split: vision.TinyImageNet(folder, split).fingerprint() for split in ("train", "val")}


def tiny_imagenet_c(
    network: str,
    *,
    folder: Path,
    cache_folder: Path,
    constants: Literal["tiny-imagenet", "cifar", "imagenet"] = "tiny-imagenet",
    epochs: int = 25,
    learning_rate: float = 0.1,
    weight_decay: float = 5e-4,
    clip_norm: float | None = None,
    track: Track = iter,
) -> CalibrationData:
    """Logits and features of a network on the corrupted validation images of Tiny-ImageNet.

    Parameters
    ----------
    network : str
        Name of the network, as in :func:`domaincal.vision.create_network`. It has a small stem,
        and its weights are random before the training.
    folder : path
        Folder of Tiny-ImageNet, or of its zip files.
    cache_folder : path
        Folder where the trained network and its rows are kept. They are not made again if they
        are there.
    constants : {"tiny-imagenet", "cifar", "imagenet"}, default "tiny-imagenet"
        Data set whose published constants define the severities.
    epochs, learning_rate, weight_decay, clip_norm
        Parameters of :func:`domaincal.vision.train`.
    track : callable, optional
        Wraps the epochs, and then the batches, to show progress.

    Returns
    -------
    CalibrationData
    """
    if not isinstance(network, str) or not re.fullmatch(r"[\w.-]+", network):  # part of a file name
        raise InputError(f"network must be the name of a network of timm, got {network!r}.")
    corruptions = vision.Corruptions(constants)  # fail early on invalid constants
    images, validation = vision.TinyImageNet(folder, "train"), vision.TinyImageNet(folder, "val")
    recipe: dict[str, Any] = {
        "epochs": epochs, "learning_rate": learning_rate, "weight_decay": weight_decay,
        "clip_norm": clip_norm,
    }  # fmt: skip
    key = json.dumps({**recipe, "images": images.fingerprint()}, sort_keys=True)
    digest = hashlib.sha256(key.encode()).hexdigest()
    cache_folder.mkdir(parents=True, exist_ok=True)
    checkpoint = cache_folder / f"{network}-{digest[:8]}.safetensors"
    if checkpoint.exists():
        trained = vision.load_network(checkpoint)
    else:
        trained = vision.create_network(
            network, class_names=images.class_names, side=_SIDE, stem="small"
        )
        vision.train(
            trained, images, checkpoint, validation=validation, compiled=_has_gpu(), track=track,
            **recipe,
        )  # fmt: skip
    extracted = vision.extract(
        trained, validation, cache_folder / f"{checkpoint.stem}-{constants}",
        corruptions=corruptions, batch_size=_BATCH_ON_GPU if _has_gpu() else None, track=track,
    )  # fmt: skip
    return extracted.store.read()


def _has_gpu() -> bool:
    torch = require("torch", extra="torch", purpose="tiny-imagenet-c")
    return bool(torch.cuda.is_available())
