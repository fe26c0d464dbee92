"""Batches of the images that a network is trained on or validated with."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from domaincal._typing import IntArray
from domaincal.errors import InputError
from domaincal.vision.datasets.image_set import ImageSet
from domaincal.vision.image_batches import decode_all, image_batches
from domaincal.vision.networks.preprocessing import Preprocessing


def labels_and_classes(images: ImageSet, name: str = "images") -> tuple[IntArray, tuple[str, ...]]:
    """Labels and class names of the images; raise an error if there are none."""
    if images.labels is None or images.class_names is None:
        raise InputError(
            f"{name} have no labels, but training needs them; pass labels=..., or for an "
            "ImageTable label=..., the name of the column."
        )
    return images.labels, images.class_names


class TrainingImages:
    """Normalised batches of an image set on a device: decoded once, if there is memory for all."""

    def __init__(
        self,
        images: ImageSet,
        preprocessing: Preprocessing,
        device: torch.device,
        *,
        batch_size: int,
        n_jobs: int,
        random_state: int,
    ) -> None:
        self._images = images
        self._preprocessing = preprocessing
        self._device = device
        self._batch_size = batch_size
        self._n_jobs = n_jobs
        self._labels = torch.from_numpy(labels_and_classes(images)[0]).to(device)
        self._decoded = decode_all(images, preprocessing, device, n_jobs=n_jobs)
        self._rng = np.random.default_rng(random_state)

    def shuffled(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield full batches in a new random order; the remaining images are left out."""
        order = self._rng.permutation(len(self._images))
        n_batches = len(order) // self._batch_size
        yield from self._batches(np.split(order[: n_batches * self._batch_size], n_batches))

    def in_order(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield all images once, in order."""
        rows = np.arange(len(self._images))
        yield from self._batches(np.split(rows, rows[self._batch_size :: self._batch_size]))

    def _batches(self, rows: list[IntArray]) -> Iterator[tuple[Tensor, Tensor]]:
        if self._decoded is None:
            batches = image_batches(
                self._images.images, rows, self._preprocessing,
                device=self._device, n_jobs=self._n_jobs,
            )  # fmt: skip
        else:
            decoded = self._decoded
            batches = (decoded[torch.from_numpy(own).to(self._device)] for own in rows)
        for batch_rows, batch in zip(rows, batches, strict=True):
            images = self._preprocessing.normalise(batch)
            yield images, self._labels[torch.from_numpy(batch_rows).to(self._device)]
