"""Train or fine-tune a network on an image set."""

from __future__ import annotations

import os
import platform
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch

from domaincal._typing import Track
from domaincal._validation import check_count, check_number, check_option
from domaincal._version import versions
from domaincal._wording import few
from domaincal.errors import InputError
from domaincal.vision.datasets.image_set import ImageSet
from domaincal.vision.networks.devices import choose_device, fastest_convolutions
from domaincal.vision.networks.network import Network
from domaincal.vision.networks.network_file import require_savable, save_network
from domaincal.vision.networks.preprocessing import Preprocessing
from domaincal.vision.processes import worker_count
from domaincal.vision.training.learning_rates import Schedule, learning_rates
from domaincal.vision.training.optimiser import Optimiser
from domaincal.vision.training.random_crops import random_crops
from domaincal.vision.training.training_images import TrainingImages, labels_and_classes


@dataclass(frozen=True, eq=False)
class Training:
    """Result of :func:`train`.

    Attributes
    ----------
    network : Network
    history : DataFrame
        Columns epoch, loss (mean over the epoch, with random crops), accuracy (on the validation
        set; NaN if there is none) and seconds.
    """

    network: Network
    history: pd.DataFrame

    @property
    def accuracy(self) -> float:
        """Accuracy on the validation set after the last epoch."""
        return float(self.history["accuracy"].iloc[-1])


def train(
    network: Network,
    images: ImageSet,
    output: str | os.PathLike[str],
    *,
    validation: ImageSet | None = None,
    epochs: int = 25,
    batch_size: int = 256,
    learning_rate: float = 0.1,
    schedule: Schedule = "one-cycle",
    weight_decay: float = 5e-4,
    smallest_crop: float = 0.35,
    clip_norm: float | None = None,
    compiled: bool = False,
    device: str = "auto",
    n_jobs: int | None = None,
    random_state: int = 0,
    track: Track = iter,
) -> Training:
    """Train a network of :func:`create_network`, or fine-tune a pretrained one.

    The optimiser is stochastic gradient descent with Nesterov momentum 0.9. Images are cropped and
    flipped at random. On a GPU, training runs in bfloat16. The weights of the last epoch are
    saved: the validation set is only used to report the accuracy.

    Parameters
    ----------
    network : Network
        Network with the classes of the images. It is trained in place.
    images : ImageSet
        Training images, with labels.
    output : path
        ``.safetensors`` file for :func:`load_network`, with the weights, the preprocessing and the
        parameters of the training.
    validation : ImageSet, optional
        Images on which the accuracy is measured after each epoch.
    epochs : int, default 25
    batch_size : int, default 256
    learning_rate : float, default 0.1
        Largest learning rate of the schedule.
    schedule : {"one-cycle", "cosine"}, default "one-cycle"
        Schedule of the learning rate. Both end at 0; one-cycle rises in the first 30% of the steps.
    weight_decay : float, default 5e-4
        Weight decay of matrices and kernels. Biases and normalisation layers have none.
    smallest_crop : float, default 0.35
        Smallest fraction of the area of an image that a random crop keeps.
    clip_norm : float, optional
        Largest norm of the gradient; longer gradients are scaled down.
    compiled : bool, default False
        Whether to compile the network with ``torch.compile``, which takes about a minute and may
        speed up epochs on a GPU.
    device : str, default "auto"
        ``"auto"`` is the GPU if there is one, else the CPU.
    n_jobs : int, optional
        Number of processes that decode images; 0 decodes in the calling process. By default one per
        core.
    random_state : int, default 0
        Seed of the order of the images, of the crops and of dropout.
    track : callable, optional
        Wraps the range of epochs, to show progress.

    Returns
    -------
    Training
    """
    check_option(schedule, "schedule", ("one-cycle", "cosine"))
    check_count(epochs, "epochs", minimum=1)
    check_count(batch_size, "batch_size", minimum=2)
    check_count(random_state, "random_state", minimum=0)
    check_number(learning_rate, "learning_rate", low=0, high=np.inf)
    check_number(weight_decay, "weight_decay", low=0, high=np.inf, closed=True)
    if clip_norm is not None:
        check_number(clip_norm, "clip_norm", low=0, high=np.inf)
    if smallest_crop != 1:  # 1 means no crop
        check_number(smallest_crop, "smallest_crop", low=0, high=1)
    preprocessing = _check_images(network, images, validation)
    require_savable(network, output)
    target = choose_device(device)
    batch_size = min(batch_size, len(images))
    options: dict[str, Any] = {
        "batch_size": batch_size, "n_jobs": worker_count(n_jobs), "random_state": random_state,
    }  # fmt: skip
    batches = TrainingImages(images, preprocessing, target, **options)
    held_out = None
    if validation is not None:
        held_out = TrainingImages(validation, preprocessing, target, **options)
    n_steps = epochs * (len(images) // batch_size)
    optimiser = Optimiser(
        network.to(target).module, learning_rates(schedule, n_steps, learning_rate),
        weight_decay=weight_decay, clip_norm=clip_norm, compiled=compiled,
    )  # fmt: skip
    with fastest_convolutions():
        history = _train_epochs(
            network, optimiser, batches, held_out, epochs=epochs, smallest_crop=smallest_crop,
            device=target, random_state=random_state, track=track,
        )  # fmt: skip
    recipe = {
        "epochs": epochs, "batch_size": batch_size, "learning_rate": learning_rate,
        "schedule": schedule, "weight_decay": weight_decay, "smallest_crop": smallest_crop,
        "clip_norm": clip_norm, "training_seed": random_state,
        "accuracy": None if held_out is None else float(history["accuracy"].iloc[-1]),
        "seconds": round(float(history["seconds"].sum()), 1), "device": _device_name(target),
        "versions": {
            "python": platform.python_version(), "torch": str(torch.__version__),
            **versions("timm", "pillow", "simplejpeg", "domaincal"),
        },
    }  # fmt: skip
    _record_training(network, images, recipe)
    network.module.eval()
    save_network(network, output)
    return Training(network, history)


def _check_images(network: Network, images: ImageSet, validation: ImageSet | None) -> Preprocessing:
    """Check that the network has the classes of the images, and return its preprocessing."""
    if len(images) < 2:
        raise InputError(f"images has {len(images)} image(s); training needs at least two.")
    preprocessing = _require_same_classes(network, images, "images")
    if validation is not None:
        _require_same_classes(network, validation, "validation images")
    return preprocessing


def _require_same_classes(network: Network, images: ImageSet, name: str) -> Preprocessing:
    _, class_names = labels_and_classes(images, name)
    if network.preprocessing is None or network.class_names is None:
        raise InputError(
            f"{network!r} cannot be trained, because it has no preprocessing or no class names; "
            "make it with create_network(name, class_names=images.class_names)."
        )
    if network.class_names != class_names:
        own, known = (
            f"{len(names)} classes ({few(names, 3)})"
            for names in (class_names, network.class_names)
        )
        difference = f"{name} have {own}, but the network has {known}"
        if set(class_names) <= set(network.class_names):
            raise InputError(
                f"{difference}; number the classes as the network does, e.g. with "
                "ImageTable(..., class_names=network.class_names)."
            )
        raise InputError(
            f"{difference}; make it with create_network(name, class_names=images.class_names)."
        )
    return network.preprocessing


def _train_epochs(
    network: Network,
    optimiser: Optimiser,
    batches: TrainingImages,
    validation: TrainingImages | None,
    *,
    epochs: int,
    smallest_crop: float,
    device: torch.device,
    random_state: int,
    track: Track,
) -> pd.DataFrame:
    """Train for some epochs, and return the history; torch's global random state is restored."""
    crops = torch.Generator(device).manual_seed(random_state)
    records = []
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(random_state)  # dropout draws from torch's global random state
        for epoch in track(range(1, epochs + 1)):
            started = time.perf_counter()
            network.module.train()
            losses = [
                optimiser.step(random_crops(images, smallest_crop, crops), labels)
                for images, labels in batches.shuffled()
            ]
            loss = float(torch.stack(losses).mean())
            if not np.isfinite(loss):
                raise InputError(
                    f"the loss is not finite in epoch {epoch}; pass a learning_rate smaller than "
                    f"{optimiser.largest_rate}, or clip_norm=1."
                )
            accuracy = np.nan if validation is None else _accuracy(network, validation, device)
            records.append((epoch, loss, accuracy, time.perf_counter() - started))
    return pd.DataFrame(records, columns=["epoch", "loss", "accuracy", "seconds"])


def _accuracy(network: Network, images: TrainingImages, device: torch.device) -> float:
    network.module.eval()
    precision = torch.bfloat16 if device.type == "cuda" else torch.float32
    hits = torch.zeros((), device=device)
    n = 0
    for batch, labels in images.in_order():
        logits, _ = network.outputs(batch, precision)
        hits += (logits.argmax(1) == labels).sum()
        n += len(labels)
    return float(hits) / n


def _record_training(network: Network, images: ImageSet, recipe: dict[str, Any]) -> None:
    """Add the images and the recipe to the provenance, in place of earlier training images."""
    kept = {key: v for key, v in network.provenance.items() if not key.startswith("data ")}
    network.provenance.clear()
    network.provenance.update({**kept, **images.description(), **recipe})


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
