"""Images that a network learns from, or is tested on, epoch after epoch."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from domaincal._typing import IntArray
from domaincal.errors import InputError
from domaincal.vision.datasets.image_set import ImageSet
from domaincal.vision.image_batches import decoded, image_batches
from domaincal.vision.networks.preprocessing import Preprocessing


def labels_and_classes(images: ImageSet, name: str = "images") -> tuple[IntArray, tuple[str, ...]]:
    """Labels, and names of the classes; an error where there are none."""
    if images.labels is None or images.class_names is None:
        raise InputError(
            f"{name} have no labels, from which a network learns; pass labels=..., or of a table "
            "label=..., the name of that column."
        )
    return images.labels, images.class_names


class TrainingImages:
    """Images of a set as normalised batches on the device: decoded once, if there is room."""

    def __init__(
        self,
        images: ImageSet,
        preprocessing: Preprocessing,
        device: torch.device,
        batch_size: int,
        n_jobs: int,
        seed: int,
    ) -> None:
        self._images = images
        self._preprocessing = preprocessing
        self._device = device
        self._batch_size = batch_size
        self._n_jobs = n_jobs
        self._labels = torch.from_numpy(labels_and_classes(images)[0]).to(device)
        self._kept = decoded(images, preprocessing, device, n_jobs=n_jobs)
        self._random = np.random.default_rng(seed)

    def shuffled(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Whole batches in a new order; the images that are left over wait for the next epoch."""
        order = self._random.permutation(len(self._images))
        n_batches = len(order) // self._batch_size
        yield from self._batches(np.split(order[: n_batches * self._batch_size], n_batches))

    def in_order(self) -> Iterator[tuple[Tensor, Tensor]]:
        """All images once."""
        rows = np.arange(len(self._images))
        yield from self._batches(np.split(rows, rows[self._batch_size :: self._batch_size]))

    def _batches(self, rows: list[IntArray]) -> Iterator[tuple[Tensor, Tensor]]:
        if self._kept is None:
            loaded = image_batches(
                self._images.images, rows, self._preprocessing,
                device=self._device, n_jobs=self._n_jobs,
            )  # fmt: skip
        else:
            kept = self._kept
            loaded = (kept[torch.from_numpy(own).to(self._device)] for own in rows)
        for own, batch in zip(rows, loaded, strict=True):
            images = self._preprocessing.normalise(batch)
            yield images, self._labels[torch.from_numpy(own).to(self._device)]
