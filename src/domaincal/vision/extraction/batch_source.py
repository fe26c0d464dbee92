"""The protocol of a source of batches for an extraction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from domaincal._typing import Array, IntArray, Track
from domaincal.errors import InputError


class Batch(NamedTuple):
    """Images in the form that the network takes, on its device, with their labels, if known."""

    images: Tensor
    labels: Array | None
    domains: Array | None
    groups: Array | None


class BatchSource(Protocol):
    """Batches of images, in the same order in every call."""

    #: Values that distinguish these images from others.
    provenance: dict[str, Any]
    class_names: tuple[str, ...] | None
    #: Outputs of the network that are the classes of the images; None means all outputs.
    columns: IntArray | None

    def batches(self, start: int, device: torch.device, track: Track) -> Iterator[Batch]:
        """Yield the batches from row ``start`` on."""
        ...


def select_classes(logits: Tensor, source: BatchSource) -> Tensor:
    """Logits of the classes of the images."""
    columns, names = source.columns, source.class_names
    if columns is not None:
        if columns.max() >= logits.shape[1]:
            raise InputError(
                f"the network has {logits.shape[1]} outputs, but columns of the images contains "
                f"{columns.max()}; choose a network that knows their classes."
            )
        logits = logits[:, torch.as_tensor(columns, device=logits.device)]
    if names is not None and logits.shape[1] != len(names):
        raise InputError(
            f"the network has {logits.shape[1]} outputs, but the images have {len(names)} "
            "classes; train it on them, or choose a network that knows them."
        )
    return logits
