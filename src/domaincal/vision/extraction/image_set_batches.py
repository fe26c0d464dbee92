"""Where the batches of an extraction come from: a set of images, or a loader of the user's."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from domaincal._tensors import host_array
from domaincal._typing import Array, IntArray, Track
from domaincal._validation import check_domains
from domaincal._wording import few
from domaincal.errors import InputError
from domaincal.io import Store
from domaincal.vision.corruptions.catalogue import SMALLEST_SIDE
from domaincal.vision.corruptions.corruption_set import Corruptions
from domaincal.vision.datasets.image_set import ImageSet
from domaincal.vision.image_batches import decoded, image_batches
from domaincal.vision.networks.network import Network
from domaincal.vision.networks.preprocessing import Preprocessing


class Batch(NamedTuple):
    """Images as a network takes them, on its device, and what is known of them."""

    images: Tensor
    labels: Array | None
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
        self._set = _as_known(images, network)
        self._preprocessing = _preprocessing_of(network)
        if corruptions is not None and self._preprocessing.side < SMALLEST_SIDE:
            raise InputError(
                f"{network.name} takes images of {self._preprocessing.side} px, and corruptions "
                f"need sides of at least {SMALLEST_SIDE} px; train one for larger images."
            )
        self._corruptions = corruptions
        self._batch_size = batch_size
        self._n_jobs = n_jobs
        self.class_names = self._set.class_names
        self.columns = _columns(images, network)
        self.provenance = {
            **images.description(),
            "columns": None if self.columns is None else self.columns.tolist(),
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
            images, labels = originals, self._set.labels
            domains, groups = self._set.domains, self._set.groups
            if corruptions is not None:
                images = corruptions.apply(originals, domain)
                domains = self._corrupted_domains(corruptions.domains[domain])
                groups = np.arange(n) if groups is None else groups
            yield Batch(
                self._preprocessing.normalise(images),
                None if labels is None else labels[here],
                None if domains is None else domains[here],
                None if groups is None else groups[here],
            )

    def _corrupted_domains(self, name: str) -> Array:
        """The corruption is the domain; where images are of several, one of each for it."""
        own = self._set.domains
        if own is None or len(np.unique(own)) == 1:
            return np.repeat(name, len(self._set))
        return np.array([f"{domain}/{name}" for domain in own])

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
            yield from image_batches(
                self._set.images, rows, self._preprocessing, device=device, n_jobs=self._n_jobs
            )


class LoaderRows:
    """Batches of a loader: tuples of images, labels (or None) and, if known, domains and groups.

    Those of rows that are in the store are loaded, compared with it, as far as there is more than
    images, and not shown to the network.
    """

    class_names: tuple[str, ...] | None = None
    columns: IntArray | None = None

    def __init__(self, loader: Iterable[Any], store: Store) -> None:
        self._loader = loader
        self._store = store
        self.provenance: dict[str, Any] = {"data": type(loader).__name__}

    def batches(self, start: int, device: torch.device, track: Track) -> Iterator[Batch]:
        """Batches from row ``start`` on."""
        known = _columns_of(self._store) if start else {}
        before: dict[str, Array | None] = {}
        seen = 0
        for given in track(self._loader):
            images, own = _parts(given)
            _require_alike(before, own)
            n, there = len(images), min(max(start - seen, 0), len(images))
            for name, values in known.items() if there else ():
                self._compare(name, own[name], values, slice(seen, seen + there))
            before = own
            seen += n
            if there < n:
                left = {k: None if v is None else v[there:] for k, v in own.items()}
                yield Batch(torch.as_tensor(images)[there:].to(device), **left)
        if seen < start or seen == 0:
            raise InputError(
                f"the loader gives {seen} rows, and {self._store.path} has {start}; load the same "
                "images, or choose another folder."
                if start
                else "the loader gives no batch; a generator can be used once, a DataLoader often."
            )

    def _compare(self, name: str, own: Array | None, known: Array | None, rows: slice) -> None:
        """Refuse other labels, domains or groups than the store has in these rows."""
        if own is None or known is None:
            if own is not known:
                gives, has = ("no ", "some") if own is None else ("", "none")
                raise InputError(
                    f"the loader gives {gives}{name}, and {self._store.path} has {has}; load the "
                    "same images, or choose another folder."
                )
        elif not np.array_equal(own[: rows.stop - rows.start], known[rows]):
            raise InputError(
                f"the loader gives other {name} than {self._store.path} has from row {rows.start} "
                "on; load the same images in the same order (shuffle=False), or choose another "
                "folder."
            )


def _columns_of(store: Store) -> dict[str, Array | None]:
    return {"labels": store.labels(), "domains": store.domains(), "groups": store.groups()}


def _parts(given: Any) -> tuple[Any, dict[str, Array | None]]:
    """Images of a loader's batch, and what is known of them."""
    if not isinstance(given, tuple | list) or not 2 <= len(given) <= 4:
        what = type(given).__name__ + (
            f" of {len(given)}" if isinstance(given, tuple | list) else ""
        )
        raise InputError(
            f"the loader gives a {what}; it must give (images, labels), (images, labels, domains) "
            "or (images, labels, domains, groups), where labels may be None."
        )
    images, *others = given
    if isinstance(images, list | tuple) or len(images) == 0:
        what = f"a {type(images).__name__} of images" if len(images) else "a batch without images"
        raise InputError(f"the loader gives {what}; it must give one tensor of them all.")
    own: dict[str, Array | None] = dict.fromkeys(("labels", "domains", "groups"))
    for name, values in zip(own, others, strict=False):
        if values is None:
            continue
        if len(values) != len(images):
            raise InputError(
                f"the loader gives {len(images)} images and {len(values)} {name} in one batch; "
                "give one of each for every image."
            )
        if name == "labels":
            labels = host_array(values)
            own[name] = labels[:, 0] if labels.shape == (len(images), 1) else labels
        else:
            codes, names = check_domains(values, n_rows=len(images), needed_by="extract", name=name)
            own[name] = names[codes]
    return images, own


def _require_alike(before: dict[str, Array | None], now: dict[str, Array | None]) -> None:
    """Refuse a batch with other parts than the one before."""
    for name, values in before.items():
        if (values is None) != (now[name] is None):
            one, other = (f"no {name}", name) if values is None else (name, f"no {name}")
            raise InputError(
                f"the loader gives {one} in one batch and {other} in another; give the same of "
                "every image."
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
    known, columns = network.class_names, images.columns
    if columns is None or known == images.class_names:  # trained on just these: no other outputs
        return None
    outside = (columns < 0) | (columns >= (len(known) if known else np.iinfo(np.int64).max))
    if outside.any() or (known and tuple(known[k] for k in columns) != images.class_names):
        raise InputError(
            f"columns of the images are no outputs of the network that are their classes, e.g. "
            f"{columns[outside.argmax()]}; show it images of its classes."
        )
    return columns


def _as_known(images: ImageSet, network: Network) -> ImageSet:
    """The images with the classes of the network, where it says which it knows."""
    known = network.class_names
    if known is None or known == images.class_names or images.columns is not None:
        return images
    names = known if images.class_names is None else images.class_names
    strangers = [name for name in names if name not in known]
    if strangers:
        raise InputError(
            f"the images are of the class {strangers[0]!r}, which the network does not know; it "
            f"knows {len(known)}: {few(known, 3)}."
        )
    number = np.array([known.index(name) for name in names])
    return ImageSet(
        images.images, None if images.labels is None else number[images.labels],
        class_names=known, domains=images.domains, groups=images.groups,
        provenance=images.provenance,
    )  # fmt: skip
