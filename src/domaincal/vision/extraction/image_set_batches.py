"""Batches of an image set, uncorrupted or under corruptions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from domaincal._typing import Array, IntArray, Track
from domaincal._wording import few
from domaincal.errors import InputError
from domaincal.vision.corruptions.catalogue import SMALLEST_SIDE
from domaincal.vision.corruptions.corruption_set import Corruptions
from domaincal.vision.datasets.image_set import ImageSet, repeated_name
from domaincal.vision.extraction.batch_source import Batch
from domaincal.vision.image_batches import decode_all, image_batches
from domaincal.vision.networks.network import Network
from domaincal.vision.networks.preprocessing import Preprocessing


class ImageSetBatches:
    """Batches of an image set. With corruptions, the domains come one after the other."""

    def __init__(
        self,
        images: ImageSet,
        network: Network,
        corruptions: Corruptions | None,
        *,
        batch_size: int,
        n_jobs: int,
    ) -> None:
        self._set = _with_network_classes(images, network)
        self._preprocessing = _required_preprocessing(network)
        if corruptions is not None and self._preprocessing.side < SMALLEST_SIDE:
            raise InputError(
                f"{network.name} takes images of {self._preprocessing.side} px, but corruptions "
                f"need sides of at least {SMALLEST_SIDE} px; train a network for larger images."
            )
        self._corruptions = corruptions
        self._domain_names = _names_and_codes(images.domains)
        self._batch_size = batch_size
        self._n_jobs = n_jobs
        self.class_names = self._set.class_names
        self.columns = _checked_columns(images, network)
        self.provenance = {
            **images.description(),
            "columns": None if self.columns is None else self.columns.tolist(),
            "preprocessing": self._preprocessing.to_dict(),
            "corruptions": None if corruptions is None else corruptions.to_dict(),
        }

    def batches(self, start: int, device: torch.device, track: Track) -> Iterator[Batch]:
        """Yield the batches from row ``start`` on."""
        steps = self._steps(start)
        corruptions, n = self._corruptions, len(self._set)
        for step, originals in zip(track(steps), self._originals(steps, device), strict=True):
            domain, first = divmod(step.start, n)
            rows = slice(first, first + len(step))
            images, labels = originals, self._set.labels
            domains, groups = self._set.domains, self._set.groups
            if corruptions is not None:
                images = corruptions.apply(originals, domain)
                domains = self._corrupted_domains(corruptions.domains[domain])
                groups = np.arange(n) if groups is None else groups
            yield Batch(
                self._preprocessing.normalise(images),
                None if labels is None else labels[rows],
                None if domains is None else domains[rows],
                None if groups is None else groups[rows],
            )

    def _corrupted_domains(self, name: str) -> Array:
        """Domain of each corrupted image: ``fog-3``, or ``hospital/fog-3`` if there are several."""
        names, codes = self._domain_names
        if len(names) <= 1:
            return repeated_name(name, len(self._set))
        corrupted: Array = np.array([f"{domain}/{name}" for domain in names], object)[codes]
        return corrupted

    def _steps(self, start: int) -> list[range]:
        """Rows of each batch. No batch contains images under two corruptions."""
        n = len(self._set)
        total = n * (1 if self._corruptions is None else len(self._corruptions.domains))
        steps = []
        while start < total:
            end = min(start + self._batch_size, (start // n + 1) * n)
            steps.append(range(start, end))
            start = end
        return steps

    def _originals(self, steps: list[range], device: torch.device) -> Iterator[Tensor]:
        """Uncorrupted images of each batch: decoded once, if there is memory for all of them."""
        rows = [np.arange(step.start, step.stop) % len(self._set) for step in steps]
        repeated = len(steps) > 0 and steps[-1].stop - steps[0].start > len(self._set)
        decoded = (
            decode_all(self._set, self._preprocessing, device, n_jobs=self._n_jobs)
            if repeated
            else None
        )
        if decoded is not None:
            yield from (decoded[batch[0] : batch[-1] + 1] for batch in rows)
        else:
            yield from image_batches(
                self._set.images, rows, self._preprocessing, device=device, n_jobs=self._n_jobs
            )


def _names_and_codes(domains: Array | None) -> tuple[Array, IntArray]:
    """Different domains, and the index of each row's domain among them."""
    if domains is None:
        return np.empty(0), np.empty(0, np.int64)
    names, codes = np.unique(domains, return_inverse=True)
    return names, codes


def _required_preprocessing(network: Network) -> Preprocessing:
    if network.preprocessing is None:
        raise InputError(
            f"{network!r} has no preprocessing, which images need; pass "
            "Network(..., preprocessing=Preprocessing(side=...))."
        )
    return network.preprocessing


def _checked_columns(images: ImageSet, network: Network) -> IntArray | None:
    """Outputs of the network that are the classes of the images; None means all outputs."""
    known, columns = network.class_names, images.columns
    if columns is None or known == images.class_names:  # trained on these classes alone
        return None
    outside = (columns < 0) | (columns >= (len(known) if known else np.iinfo(np.int64).max))
    if outside.any() or (known and tuple(known[k] for k in columns) != images.class_names):
        raise InputError(
            "columns of the images are not the outputs of the network for their classes, e.g. "
            f"{columns[outside.argmax()]}; use images of the network's classes."
        )
    return columns


def _with_network_classes(images: ImageSet, network: Network) -> ImageSet:
    """Images with the class names and numbers of the network, if it has class names."""
    known = network.class_names
    if known is None or known == images.class_names or images.columns is not None:
        return images
    names = known if images.class_names is None else images.class_names
    unknown = [name for name in names if name not in known]
    if unknown:
        raise InputError(
            f"the images have the class {unknown[0]!r}, which the network does not know; it "
            f"knows {len(known)}: {few(known, 3)}."
        )
    number = np.array([known.index(name) for name in names])
    return ImageSet(
        images.images, None if images.labels is None else number[images.labels],
        class_names=known, domains=images.domains, groups=images.groups,
        provenance=images.provenance,
    )  # fmt: skip
