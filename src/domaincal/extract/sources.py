"""Where the batches of an extraction come from: a set of images, or a loader of the user's."""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from domaincal._errors import InputError
from domaincal._typing import Array, IntArray, Track
from domaincal.datasets.image_sets import ImageSet
from domaincal.extract.batches import decoded, image_batches
from domaincal.extract.corruptions import Corruptions
from domaincal.extract.networks import Network
from domaincal.extract.preprocessing import Preprocessing


class Batch(NamedTuple):
    """Images as a network takes them, on its device, and what is known of them."""

    images: Tensor
    labels: Array
    domains: Array | None
    groups: Array | None


class RowSource(Protocol):
    """Rows in an order that is the same in every call."""

    #: What tells these rows from others.
    provenance: dict[str, Any]
    class_names: tuple[str, ...] | None
    columns: IntArray | None

    def batches(self, start: int, device: torch.device, track: Track) -> Iterator[Batch]:
        """Batches from row ``start`` on."""
        ...


class ImageRows:
    """The images of a set; with corruptions, all images of one domain after those of another."""

    def __init__(
        self,
        images: ImageSet,
        network: Network,
        corruptions: Corruptions | None,
        *,
        batch_size: int,
        n_jobs: int,
    ) -> None:
        self._set = images
        self._preprocessing = _preprocessing_of(network)
        self._corruptions = corruptions
        self._batch_size = batch_size
        self._n_jobs = n_jobs
        self.class_names: tuple[str, ...] | None = images.class_names
        self.columns = _columns(images, network)
        self.provenance = {
            **{f"data {key}": value for key, value in images.provenance.items()},
            "data": type(images).__name__,
            "images": _digest(images),
            "preprocessing": self._preprocessing.to_dict(),
            "corruptions": None if corruptions is None else corruptions.to_dict(),
        }

    def batches(self, start: int, device: torch.device, track: Track) -> Iterator[Batch]:
        """Batches from row ``start`` on."""
        steps = self._steps(start)
        corruptions, n = self._corruptions, len(self._set)
        for step, originals in zip(track(steps), self._originals(steps, device), strict=True):
            domain, first = divmod(step.start, n)
            here = slice(first, first + len(step))
            images, domains, groups = originals, self._set.domains, self._set.groups
            if corruptions is not None:
                images = corruptions.apply(originals, domain)
                domains = np.repeat(corruptions.domains[domain], n)
                groups = np.arange(n) if groups is None else groups
            yield Batch(
                self._preprocessing.normalise(images),
                self._set.labels[here],
                None if domains is None else domains[here],
                None if groups is None else groups[here],
            )

    def _steps(self, start: int) -> list[range]:
        """Rows of each batch; none has images of two domains."""
        n = len(self._set)
        total = n * (1 if self._corruptions is None else len(self._corruptions.domains))
        steps = []
        while start < total:
            end = min(start + self._batch_size, (start // n + 1) * n)
            steps.append(range(start, end))
            start = end
        return steps

    def _originals(self, steps: list[range], device: torch.device) -> Iterator[Tensor]:
        """Images of each batch, before corruptions: decoded once, if there is room for all."""
        rows = [np.arange(step.start, step.stop) % len(self._set) for step in steps]
        several = len(steps) > 0 and steps[-1].stop - steps[0].start > len(self._set)
        kept = (
            decoded(self._set, self._preprocessing, device, n_jobs=self._n_jobs)
            if several
            else None
        )
        if kept is not None:
            yield from (kept[own[0] : own[-1] + 1] for own in rows)
        else:
            loaded = image_batches(self._set.images, rows, self._preprocessing, n_jobs=self._n_jobs)
            yield from (images.to(device, non_blocking=True) for images in loaded)


class LoaderRows:
    """Batches of a loader: tuples of images, labels and, if known, domains and groups."""

    class_names: tuple[str, ...] | None = None
    columns: IntArray | None = None

    def __init__(self, loader: Iterable[Any]) -> None:
        self._loader = loader
        self.provenance: dict[str, Any] = {"data": type(loader).__name__}

    def batches(self, start: int, device: torch.device, track: Track) -> Iterator[Batch]:
        """Batches from row ``start`` on; those before are loaded, and not shown to the network."""
        seen = 0
        for given in self._loader:
            if not isinstance(given, tuple | list) or not 2 <= len(given) <= 4:
                raise InputError(
                    f"the loader gives {type(given).__name__}; it must give tuples (images, "
                    "labels), (images, labels, domains) or (images, labels, domains, groups)."
                )
            images, labels, domains, groups = (*given, None, None)[:4]
            left = slice(max(0, start - seen), None)
            seen += len(images)
            if seen > start:
                yield Batch(
                    torch.as_tensor(images)[left].to(device),
                    np.asarray(labels)[left],
                    None if domains is None else np.asarray(domains)[left],
                    None if groups is None else np.asarray(groups)[left],
                )


def _preprocessing_of(network: Network) -> Preprocessing:
    if network.preprocessing is None:
        raise InputError(
            f"{network!r} does not say what it expects of images; pass "
            "Network(..., preprocessing=Preprocessing(side=...))."
        )
    return network.preprocessing


def _columns(images: ImageSet, network: Network) -> IntArray | None:
    """Outputs of the network that are the classes of the set; None for all."""
    if network.class_names is not None and network.class_names == images.class_names:
        return None
    if network.class_names is not None and images.columns is None:
        raise InputError(
            f"the network knows {len(network.class_names)} classes "
            f"({', '.join(network.class_names[:3])}, ...) and the images have "
            f"{len(images.class_names)} others ({', '.join(images.class_names[:3])}, ...); show it "
            "images of its classes."
        )
    return images.columns


def _digest(images: ImageSet) -> str:
    """Tells one set of images from another by what is known of them without decoding."""
    digest = hashlib.sha256(repr(images.class_names).encode())
    for values in (images.labels, images.domains, images.groups):
        if values is not None:
            digest.update(repr((values.dtype, values.shape)).encode())
            digest.update(np.ascontiguousarray(values).tobytes())
    return f"{len(images)} images, sha256 {digest.hexdigest()[:16]}"
