"""Images with labels, domains and groups."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from domaincal._typing import Array, ArrayLike, IntArray
from domaincal._validation import (
    check_class_names,
    check_count,
    check_domains,
    check_labels,
    check_names,
)
from domaincal.data.splits import draw_names
from domaincal.errors import InputError
from domaincal.vision.datasets.image_files import Images, SelectedImages

# Number of images, evenly spread, that a fingerprint decodes.
_FINGERPRINT_IMAGES = 32


class ImageSet:
    """Images with labels, domains and groups, to train a network or to show to it.

    Data sets are subclasses, whose docstrings describe the data.

    Parameters
    ----------
    images : sequence of arrays of uint8, shape (height, width, 3)
        :class:`ImageFiles`, :class:`ZippedImages` or an array. Files are decoded when they are
        read.
    labels : array of class indices, shape (n,), optional
        Needed for training only.
    class_names : sequence of str, optional
        Names of the classes; needed with labels or columns.
    domains : array of integers or strings, shape (n,), optional
    groups : array of integers or strings, shape (n,), optional
        Rows of a group show the same thing, e.g. an image under several corruptions.
    columns : array of integers, optional
        Outputs of a network that are these classes, if networks for this data set have more.
    provenance : mapping, optional
        Origin of the images, as JSON values.

    Examples
    --------
    >>> import numpy as np, domaincal as dc
    >>> grey = np.full((4, 8, 8, 3), 128, np.uint8)
    >>> names, domains = ["cat", "dog"], ["a", "a", "b", "b"]
    >>> images = dc.vision.ImageSet(grey, [0, 1, 1, 0], class_names=names, domains=domains)
    >>> images, images.select([0, 2]).domains.tolist()
    (ImageSet(4 images, 2 classes, 2 domains), ['a', 'b'])
    >>> dc.vision.ImageSet(grey, domains=list("cccc"))
    ImageSet(4 images, 1 domains, no labels)
    """

    def __init__(
        self,
        images: Images,
        labels: ArrayLike | None = None,
        *,
        class_names: Sequence[str] | None = None,
        domains: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        columns: ArrayLike | None = None,
        provenance: Mapping[str, Any] | None = None,
    ) -> None:
        n = len(images)
        if n == 0:
            raise InputError("images is empty; check the selection that made it.")
        self.images = images
        self.class_names: tuple[str, ...] | None = None
        self.labels: IntArray | None = None
        self.columns: IntArray | None = None
        if class_names is not None:
            self.class_names = check_class_names(class_names, n_classes=len(class_names))
        if labels is not None:
            n_classes = _n_classes(self.class_names, "labels")
            self.labels = check_labels(labels, n_rows=n, n_classes=n_classes).astype(np.int64)
        self.domains = _checked_names(domains, n, "domains")
        self.groups = _checked_names(groups, n, "groups")
        if columns is not None:
            n_classes = _n_classes(self.class_names, "columns")
            self.columns = np.asarray(columns, np.int64)
            if self.columns.shape != (n_classes,):
                raise InputError(
                    f"columns has the shape {self.columns.shape}, but there are {n_classes} "
                    "classes; pass one output of the network for each class."
                )
        self.provenance = dict(provenance or {})

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        parts = [f"{len(self)} images"]
        if self.class_names is not None:
            parts.append(f"{len(self.class_names)} classes")
        for name in ("domains", "groups"):
            values = getattr(self, name)
            if values is not None:
                parts.append(f"{len(np.unique(values))} {name}")
        if self.labels is None:
            parts.append("no labels")
        return f"{type(self).__name__}({', '.join(parts)})"

    def select(self, rows: Any) -> ImageSet:
        """Image set of some rows, given by a slice, row numbers or a boolean mask."""
        numbers = np.arange(len(self))[rows]
        return ImageSet(
            SelectedImages(self.images, numbers),
            None if self.labels is None else self.labels[numbers],
            class_names=self.class_names,
            domains=None if self.domains is None else self.domains[numbers],
            groups=None if self.groups is None else self.groups[numbers],
            columns=self.columns,
            provenance=self.provenance,
        )

    def draw_domains(self, n_ind: int, *, random_state: int) -> tuple[list[Any], list[Any]]:
        """InD domains, drawn at random, and the other domains, which are OOD; both sorted.

        They are the domains of an experiment's partition with ``random_ind`` and the same seed.
        """
        check_count(n_ind, "n_ind")
        check_count(random_state, "random_state", minimum=0)
        names = [] if self.domains is None else np.unique(self.domains).tolist()
        if n_ind >= len(names):
            raise InputError(
                f"n_ind={n_ind}, but there are {len(names)} domains; lower it, so that at least "
                "one domain is OOD."
            )
        return draw_names(names, n_ind, random_state)

    def description(self) -> dict[str, Any]:
        """Provenance of the images, for the files of networks and rows made from them."""
        known = {
            key if key.startswith("data ") else f"data {key}": value
            for key, value in self.provenance.items()
        }
        return {**known, "data": type(self).__name__, "images": self.fingerprint()}

    def fingerprint(self) -> str:
        """Number of images, and a hash of labels, domains, groups and a few images."""
        digest = hashlib.sha256(repr(self.class_names).encode())
        for name in ("labels", "domains", "groups"):
            values = getattr(self, name)
            if values is None:
                continue
            digest.update(name.encode())
            if values.dtype.kind in "OU":  # names
                digest.update("\0".join(values.tolist()).encode())
            else:
                digest.update(values.astype(np.int64).tobytes())
        n = min(len(self), _FINGERPRINT_IMAGES)
        rows = np.unique(np.linspace(0, len(self) - 1, n).astype(int))
        for image in (self.images[int(row)] for row in rows):
            digest.update(repr(image.shape).encode() + np.ascontiguousarray(image).tobytes())
        return f"{len(self)} images, sha256 {digest.hexdigest()[:16]}"


def repeated_name(name: str, n: int) -> Array:
    """Array of n times the same name, which takes memory once."""
    return np.full(n, name, dtype=object)


def _n_classes(class_names: Sequence[str] | None, needed_by: str) -> int:
    if class_names is None:
        raise InputError(
            f"class_names is None, but {needed_by} are given; pass the names of the classes."
        )
    return len(class_names)


def _checked_names(values: ArrayLike | None, n: int, name: str) -> Array | None:
    """Domains or groups as an array of integers, or of Python strings that equal rows share."""
    if values is None:
        return None
    codes, names = check_domains(values, n_rows=n, needed_by="ImageSet", name=name)
    if names.dtype.kind not in "iu":
        texts = [str(text) for text in names]
        check_names(texts, name)
        names = np.array(texts, dtype=object)
    rows: Array = names[codes]
    return rows
