"""Batches of a user's loader, such as a torch DataLoader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch

from domaincal._tensors import host_array
from domaincal._typing import Array, IntArray, Track
from domaincal._validation import check_domains
from domaincal.errors import InputError
from domaincal.io import Store
from domaincal.vision.extraction.batch_source import Batch


class LoaderBatches:
    """Batches of a loader: tuples of images, labels (or None) and optionally domains and groups.

    Rows that the store already has are loaded and their labels, domains and groups are compared
    with the store, but they are not shown to the network.
    """

    class_names: tuple[str, ...] | None = None
    columns: IntArray | None = None

    def __init__(self, loader: Iterable[Any], store: Store) -> None:
        self._loader = loader
        self._store = store
        self.provenance: dict[str, Any] = {"data": type(loader).__name__}

    def batches(self, start: int, device: torch.device, track: Track) -> Iterator[Batch]:
        """Yield the batches from row ``start`` on."""
        stored = _annotations(self._store) if start else {}
        previous: dict[str, Array | None] = {}
        n_seen = 0
        for item in track(self._loader):
            images, given = _split_item(item)
            _require_same_arrays(previous, given)
            n, n_stored = len(images), min(max(start - n_seen, 0), len(images))
            for name, values in stored.items() if n_stored else ():
                self._compare(name, given[name], values, slice(n_seen, n_seen + n_stored))
            previous = given
            n_seen += n
            if n_stored < n:
                rest = {k: None if v is None else v[n_stored:] for k, v in given.items()}
                yield Batch(torch.as_tensor(images)[n_stored:].to(device), **rest)
        if n_seen < start:
            raise InputError(
                f"the loader gives {n_seen} rows, but {self._store.path} has {start}; load the "
                "same images, or choose another folder."
            )
        if n_seen == 0:
            raise InputError(
                "the loader gives no batch; a generator can be used only once, so pass a "
                "DataLoader or a list."
            )

    def _compare(self, name: str, given: Array | None, stored: Array | None, rows: slice) -> None:
        """Raise an error if the labels, domains or groups of these rows differ from the store."""
        if given is None or stored is None:
            if given is not stored:
                gives, has = ("no ", "some") if given is None else ("", "none")
                raise InputError(
                    f"the loader gives {gives}{name}, but {self._store.path} has {has}; load the "
                    "same images, or choose another folder."
                )
        elif not np.array_equal(given[: rows.stop - rows.start], stored[rows]):
            raise InputError(
                f"the {name} of the loader differ from those of {self._store.path} from row "
                f"{rows.start} on; load the same images in the same order (shuffle=False), or "
                "choose another folder."
            )


def _annotations(store: Store) -> dict[str, Array | None]:
    return {"labels": store.labels(), "domains": store.domains(), "groups": store.groups()}


def _split_item(item: Any) -> tuple[Any, dict[str, Array | None]]:
    """Images of a loader's batch, and their labels, domains and groups."""
    if not isinstance(item, tuple | list) or not 2 <= len(item) <= 4:
        length = f" of {len(item)}" if isinstance(item, tuple | list) else ""
        raise InputError(
            f"the loader gives a {type(item).__name__}{length}; it must give (images, labels), "
            "(images, labels, domains) or (images, labels, domains, groups), where labels may be "
            "None."
        )
    images, *others = item
    if isinstance(images, list | tuple):
        raise InputError(
            f"the loader gives a {type(images).__name__} of images; it must give one tensor."
        )
    if len(images) == 0:
        raise InputError("the loader gives a batch without images; leave out empty batches.")
    given: dict[str, Array | None] = dict.fromkeys(("labels", "domains", "groups"))
    for name, values in zip(given, others, strict=False):
        if values is not None:
            given[name] = _checked_annotation(name, values, len(images))
    return images, given


def _checked_annotation(name: str, values: Any, n_images: int) -> Array:
    """Labels, domains or groups of a batch as an array."""
    if len(values) != n_images:
        raise InputError(
            f"the loader gives {n_images} images and {len(values)} {name} in one batch; give "
            "one for every image."
        )
    if name == "labels":
        labels = host_array(values)
        return labels[:, 0] if labels.shape == (n_images, 1) else labels
    codes, names = check_domains(values, n_rows=n_images, needed_by="extract", name=name)
    return names[codes]


def _require_same_arrays(previous: dict[str, Array | None], given: dict[str, Array | None]) -> None:
    """Raise an error if a batch has labels, domains or groups, and the previous one has not."""
    for name, values in previous.items():
        if (values is None) != (given[name] is None):
            one, other = (f"no {name}", name) if values is None else (name, f"no {name}")
            raise InputError(
                f"the loader gives {one} in one batch and {other} in another; give the same for "
                "every image."
            )
