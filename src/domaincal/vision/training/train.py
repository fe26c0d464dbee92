"""Training and fine-tuning of a network on the images of a set."""

import math
import os
import platform
import time
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as functional
from torch import Tensor

from domaincal._typing import Track
from domaincal._validation import check_count, check_number, check_option
from domaincal._wording import few
from domaincal.errors import InputError
from domaincal.vision.datasets.image_set import ImageSet
from domaincal.vision.networks.devices import choose_device, fastest_convolutions
from domaincal.vision.networks.network import Network
from domaincal.vision.networks.network_file import require_savable, save_network
from domaincal.vision.networks.preprocessing import Preprocessing
from domaincal.vision.processes import worker_count
from domaincal.vision.training.random_crops import random_crops
from domaincal.vision.training.training_images import TrainingImages, labels_and_classes

Schedule = Literal["one-cycle", "cosine"]


@dataclass(frozen=True, eq=False)
class Training:
    """What :func:`train` did.

    Attributes
    ----------
    network : Network
    history : DataFrame
        epoch, loss (mean over the epoch, with augmented images), accuracy (on the validation set,
        NaN where there is none), seconds.
    """

    network: Network
    history: pd.DataFrame

    @property
    def accuracy(self) -> float:
        """On the validation set, after the last epoch."""
        return float(self.history["accuracy"].iloc[-1])


def train(
    network: Network,
    images: ImageSet,
    out: str | os.PathLike[str],
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
    seed: int = 0,
    track: Track = iter,
) -> Training:
    """Train a network of :func:`create_network`, or fine-tune a pre-trained one.

    Stochastic gradient descent with Nesterov's momentum of 0.9, bfloat16 on a GPU, random crops and
    reflections. The last epoch counts: the validation set is looked at, but chooses nothing.

    Parameters
    ----------
    network : Network
        With the classes of the images. It is trained in place.
    images : ImageSet
        With labels.
    out : path
        A ``.safetensors`` file for :func:`load_network`: weights, what the network expects of
        images, and how it was trained.
    validation : ImageSet, optional
        To measure the accuracy after each epoch.
    epochs : int, default 25
    batch_size : int, default 256
    learning_rate : float, default 0.1
        The largest one.
    schedule : {"one-cycle", "cosine"}, default "one-cycle"
        Both end at 0; one-cycle rises for three tenths of the steps before.
    weight_decay : float, default 5e-4
        Not of biases, and not of the weights of normalisations.
    smallest_crop : float, default 0.35
        Part of the area of an image that is seen at least.
    clip_norm : float, optional
        Longer gradients are shortened to this.
    compiled : bool, default False
        Let torch compile the network first: that takes a minute, and may make epochs on a GPU
        faster.
    device : str, default "auto"
        ``"auto"``: the GPU if there is one.
    n_jobs : int, optional
        Processes that decode images; 0: none but this. By default one for each core.
    seed : int, default 0
        Of the order of the images and of the crops.
    track : callable, optional
        Wraps the list of epochs, to show progress.

    Returns
    -------
    Training
    """
    check_option(schedule, "schedule", ("one-cycle", "cosine"))
    check_count(epochs, "epochs", minimum=1)
    check_count(batch_size, "batch_size", minimum=2)
    check_count(seed, "seed", minimum=0)
    check_number(learning_rate, "learning_rate", low=0, high=np.inf)
    check_number(weight_decay, "weight_decay", low=0, high=np.inf, closed=True)
    if clip_norm is not None:
        check_number(clip_norm, "clip_norm", low=0, high=np.inf)
    if smallest_crop != 1:  # a part of the area; 1 is all of it
        check_number(smallest_crop, "smallest_crop", low=0, high=1)
    if len(images) < 2:
        raise InputError(f"images has {len(images)} image(s); a network learns from at least two.")
    preprocessing = _require_same_classes(network, images, "images")
    if validation is not None:
        _require_same_classes(network, validation, "validation images")
    require_savable(network, out)
    chosen, n_jobs = choose_device(device), worker_count(n_jobs)
    batch_size = min(batch_size, len(images))
    shown = TrainingImages(images, preprocessing, chosen, batch_size, n_jobs, seed)
    held_out = (
        None
        if validation is None
        else TrainingImages(validation, preprocessing, chosen, batch_size, n_jobs, seed)
    )
    module = network.to(chosen).module
    learner = torch.compile(module) if compiled else module
    optimiser = torch.optim.SGD(
        _parameters(module, weight_decay), lr=learning_rate, momentum=0.9, nesterov=True
    )
    rates = iter(learning_rates(schedule, epochs * (len(images) // batch_size), learning_rate))

    def step(batch: Tensor, labels: Tensor) -> Tensor:
        """Learn from a batch, and give its loss, which is not waited for."""
        rate = next(rates)
        for group in optimiser.param_groups:
            group["lr"] = rate
        with torch.autocast(chosen.type, torch.bfloat16, enabled=chosen.type == "cuda"):
            loss = functional.cross_entropy(learner(batch).float(), labels)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        if clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(module.parameters(), clip_norm)
        optimiser.step()
        return loss.detach()

    draws = torch.Generator(chosen).manual_seed(seed)
    records = []
    devices = [chosen] if chosen.type == "cuda" else []
    with fastest_convolutions(), torch.random.fork_rng(devices):  # dropout follows the global one
        torch.manual_seed(seed)
        for epoch in track(range(epochs)):
            started = time.perf_counter()
            module.train()
            losses = [
                step(random_crops(batch, smallest_crop, draws), labels)
                for batch, labels in shown.shuffled()
            ]
            loss = float(torch.stack(losses).mean())
            if not np.isfinite(loss):
                raise InputError(
                    f"the loss is not finite in epoch {epoch + 1}; pass a smaller learning_rate "
                    f"than {learning_rate}, or clip_norm=1."
                )
            accuracy = float("nan") if held_out is None else _accuracy(network, held_out, chosen)
            records.append((epoch + 1, loss, accuracy, time.perf_counter() - started))
    history = pd.DataFrame(records, columns=["epoch", "loss", "accuracy", "seconds"])
    before = {key: v for key, v in network.provenance.items() if not key.startswith("data ")}
    network.provenance.clear()
    network.provenance.update(
        {
            **before, **images.description(), "epochs": epochs, "batch_size": batch_size,
            "learning_rate": learning_rate, "schedule": schedule,
            "weight_decay": weight_decay, "smallest_crop": smallest_crop, "clip_norm": clip_norm,
            "training_seed": seed, "accuracy": None if held_out is None else records[-1][2],
            "seconds": round(float(history["seconds"].sum()), 1), "device": _device_name(chosen),
            "versions": {
                "python": platform.python_version(), "torch": str(torch.__version__),
                **{name: version(name) for name in ("timm", "domaincal")},
            },
        }
    )  # fmt: skip
    module.eval()
    save_network(network, out)
    return Training(network, history)


def _accuracy(network: Network, shown: TrainingImages, device: torch.device) -> float:
    network.module.eval()
    precision = torch.bfloat16 if device.type == "cuda" else torch.float32
    hits = torch.zeros((), device=device)
    n = 0
    for images, labels in shown.in_order():
        logits, _ = network.outputs(images, precision)
        hits += (logits.argmax(1) == labels).sum()
        n += len(labels)
    return float(hits) / n


def _require_same_classes(network: Network, images: ImageSet, name: str) -> Preprocessing:
    _, class_names = labels_and_classes(images, name)
    if network.preprocessing is None or network.class_names is None:
        raise InputError(
            f"{network!r} cannot be trained here; make it with create_network(name, "
            "class_names=images.class_names)."
        )
    if network.class_names != class_names:
        own, theirs = (
            f"{len(names)} classes ({few(names, 3)})"
            for names in (class_names, network.class_names)
        )
        known = f"{name} are of {own}, and the network knows {theirs}"
        if set(class_names) <= set(network.class_names):
            raise InputError(
                f"{known}; number their classes as the network does, e.g. by "
                "ImageTable(..., class_names=network.class_names)."
            )
        raise InputError(
            f"{known}; make it with create_network(name, class_names=images.class_names)."
        )
    return network.preprocessing


def _parameters(module: torch.nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Matrices and kernels decay, vectors (biases, normalisations) do not."""
    learned = [p for p in module.parameters() if p.requires_grad]
    return [
        {"params": [p for p in learned if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in learned if p.ndim <= 1], "weight_decay": 0.0},
    ]


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"


def learning_rates(schedule: str, n_steps: int, largest: float) -> list[float]:
    """The learning rate of each step.

    Both fall to 0 along half a cosine: "cosine" from the first step on, "one-cycle" after it has
    risen from a 25th, along another half, for three tenths of the steps.
    """
    rise = int(0.3 * n_steps) if schedule == "one-cycle" else 0
    rates = []
    for step in range(n_steps):
        if step < rise:
            low, part = largest / 25, 0.5 * (1 - math.cos(math.pi * step / rise))
            rates.append(low + (largest - low) * part)
        else:
            done = (step - rise) / max(1, n_steps - rise)
            rates.append(largest * 0.5 * (1 + math.cos(math.pi * done)))
    return rates
