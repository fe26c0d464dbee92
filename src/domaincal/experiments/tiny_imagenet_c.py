"""Tiny-ImageNet-C: a network trained, and shown 76 domains, unless that was done before."""

import hashlib
import json
from pathlib import Path
from typing import Any, Literal

from domaincal._typing import Track
from domaincal.data import CalibrationData
from domaincal.vision import TinyImageNet

_SIDE = 64
_BATCH_ON_GPU = 500


def training_and_shown_images(folder: Path) -> dict[str, str]:
    """What tells the images of a folder from others."""
    return {split: TinyImageNet(folder, split).fingerprint() for split in ("train", "val")}


def tiny_imagenet_c(
    network: str,
    *,
    folder: Path,
    made: Path,
    constants: Literal["tiny-imagenet", "cifar", "imagenet"] = "tiny-imagenet",
    epochs: int = 25,
    learning_rate: float = 0.1,
    weight_decay: float = 5e-4,
    clip_norm: float | None = None,
    track: Track = iter,
) -> CalibrationData:
    """Logits and features of a network on Tiny-ImageNet's validation images, corrupted.

    Parameters
    ----------
    network : str
        As :func:`domaincal.vision.create_network` knows it; with a small stem, and random weights
        to begin with.
    folder : path
        Of Tiny-ImageNet, or of zip files of it.
    made : path
        Where the trained network and its rows are kept: what is there is not made again.
    constants : {"tiny-imagenet", "cifar", "imagenet"}, default "tiny-imagenet"
        Whose severities.
    epochs, learning_rate, weight_decay, clip_norm
        How to train, as in :func:`domaincal.vision.train`.
    track : callable, optional
        Wraps the epochs, and then the batches, to show progress.
    """
    import torch

    from domaincal.vision import Corruptions, create_network, extract, load_network, train

    recipe: dict[str, Any] = {
        "epochs": epochs, "learning_rate": learning_rate, "weight_decay": weight_decay,
        "clip_norm": clip_norm,
    }  # fmt: skip
    on_gpu = torch.cuda.is_available()
    corruptions = Corruptions(constants)  # what is wrong is wrong before any training
    images, validation = TinyImageNet(folder, "train"), TinyImageNet(folder, "val")
    made.mkdir(parents=True, exist_ok=True)
    asked = json.dumps({**recipe, "images": images.fingerprint()}, sort_keys=True)
    digest = hashlib.sha256(asked.encode()).hexdigest()
    checkpoint = made / f"{network}-{digest[:8]}.safetensors"
    if checkpoint.exists():
        trained = load_network(checkpoint)
    else:
        trained = create_network(network, class_names=images.class_names, side=_SIDE, stem="small")
        train(
            trained,
            images,
            checkpoint,
            validation=validation,
            compiled=on_gpu,
            track=track,
            **recipe,
        )
    done = extract(
        trained, validation, made / f"{checkpoint.stem}-{constants}",
        corruptions=corruptions, batch_size=_BATCH_ON_GPU if on_gpu else None, track=track,
    )  # fmt: skip
    return done.store.read()
