"""Images with labels and domains, decoded when they are asked for."""

import hashlib
import io
import os
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from domaincal._optional import require
from domaincal._typing import Array, ArrayLike, IntArray
from domaincal._validation import (
    check_class_names,
    check_count,
    check_domains,
    check_labels,
)
from domaincal.data.splits import drawn
from domaincal.errors import FileFormatError, InputError

# Images that a fingerprint decodes, spread evenly.
_LOOKED_AT = 32


class Images(Protocol):
    """Images by number: uint8 of shape (height, width, 3)."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Array: ...


class ImageSet:
    """Images, their labels and domains: what a network is trained on, or shown.

    Data sets are classes of this kind, whose docstrings are their cards.

    Parameters
    ----------
    images : sequence of arrays of uint8, shape (height, width, 3)
        Decoded when they are asked for: :class:`ImageFiles`, :class:`ZippedImages`, or an array.
    labels : array of class indices, shape (n,), optional
        Without them, a network can be shown the images, not trained on them.
    class_names : sequence of str, optional
        Of the classes that the labels number. Images without labels need none: their classes are
        those that the network knows.
    domains : array of integers or strings, shape (n,), optional
    groups : array of integers or strings, shape (n,), optional
        Rows of one group show the same thing, e.g. an image under several corruptions.
    columns : array of integers, optional
        Which outputs of a network are these classes, where networks of this data set know more.
    provenance : mapping, optional

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
        self.domains = _names(domains, n, "domains")
        self.groups = _names(groups, n, "groups")
        if columns is not None:
            n_classes = _n_classes(self.class_names, "columns")
            self.columns = np.asarray(columns, np.int64)
            if self.columns.shape != (n_classes,):
                raise InputError(
                    f"columns has the shape {self.columns.shape}, but there are {n_classes} "
                    "classes; pass one output of the network for each."
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

    def select(self, rows: Any) -> "ImageSet":
        """Some of the images: a slice, numbers or a mask."""
        chosen = np.arange(len(self))[rows]
        return ImageSet(
            Chosen(self.images, chosen),
            None if self.labels is None else self.labels[chosen],
            class_names=self.class_names,
            domains=None if self.domains is None else self.domains[chosen],
            groups=None if self.groups is None else self.groups[chosen],
            columns=self.columns,
            provenance=self.provenance,
        )

    def draw_domains(self, n_ind: int, *, seed: int) -> tuple[list[Any], list[Any]]:
        """InD domains, drawn at random, and the others, which are OOD; both sorted.

        The same as those of an experiment's partition with ``random_ind`` and this seed.
        """
        check_count(n_ind, "n_ind")
        check_count(seed, "seed", minimum=0)
        names = [] if self.domains is None else np.unique(self.domains).tolist()
        if n_ind >= len(names):
            raise InputError(
                f"n_ind={n_ind}, but there are {len(names)} domains; lower it, so that one is left "
                "as OOD."
            )
        return drawn(names, n_ind, seed)

    def description(self) -> dict[str, Any]:
        """What a network that has learned from them, and rows of them, say of these images."""
        known = {
            key if key.startswith("data ") else f"data {key}": value
            for key, value in self.provenance.items()
        }
        return {**known, "data": type(self).__name__, "images": self.fingerprint()}

    def fingerprint(self) -> str:
        """Short text that tells these images from others: from what is known, and from a few."""
        digest = hashlib.sha256(repr(self.class_names).encode())
        for name in ("labels", "domains", "groups"):
            values = getattr(self, name)
            if values is None:
                continue
            digest.update(name.encode())
            if values.dtype.kind == "U":  # as texts: their arrays may be wider than they are
                digest.update("\0".join(values.tolist()).encode())
            else:
                digest.update(values.astype(np.int64).tobytes())
        seen = np.unique(np.linspace(0, len(self) - 1, min(len(self), _LOOKED_AT)).astype(int))
        for image in (self.images[int(row)] for row in seen):
            digest.update(repr(image.shape).encode() + np.ascontiguousarray(image).tobytes())
        return f"{len(self)} images, sha256 {digest.hexdigest()[:16]}"


class Chosen:
    """Some of the images of a sequence, in the given order."""

    def __init__(self, images: Images, rows: IntArray) -> None:
        self._images, self._rows = images, rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Array:
        return self._images[int(self._rows[index])]


class ImageFiles:
    """Images in files, of any format that Pillow reads."""

    def __init__(self, folder: str | os.PathLike[str], names: Sequence[str]) -> None:
        self.folder, self.names = Path(folder), names

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> Array:
        path = self.folder / self.names[index]
        return _decoded(path, path)


class ZippedImages:
    """Images in zip files, read from there: members are pairs of a zip file's number and a name.

    Every process that reads opens the files anew.
    """

    def __init__(self, archives: Sequence[Path], members: Sequence[tuple[int, str]]) -> None:
        self.archives, self.members = archives, members
        self._open: dict[int, zipfile.ZipFile] = {}
        self._process = os.getpid()

    def __len__(self) -> int:
        return len(self.members)

    def __getitem__(self, index: int) -> Array:
        if os.getpid() != self._process:  # a forked reader must not share the place in a file
            self._open, self._process = {}, os.getpid()
        archive, name = self.members[index]
        try:
            if archive not in self._open:
                self._open[archive] = zipfile.ZipFile(self.archives[archive])
            content = self._open[archive].read(name)
        except (OSError, KeyError, zipfile.BadZipFile, zlib.error) as error:
            raise FileFormatError(
                f"{name} cannot be read from {self.archives[archive]} ({error}); the file is "
                "damaged or no longer what it was: get it again."
            ) from error
        return _decoded(io.BytesIO(content), f"{self.archives[archive]}:{name}")

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": {}}


def _decoded(source: Any, name: object) -> Array:
    """RGB of 8 bits."""
    module = require("PIL.Image", extra="torch", purpose="reading images")
    try:
        with module.open(source) as image:
            if image.mode.startswith(("I", "F")):  # Pillow would clip it, not scale it
                raise InputError(
                    f"{name} has more than 8 bits a channel (mode {image.mode}); bring the images "
                    "to 8 bits first."
                )
            return np.asarray(image.convert("RGB"))
    except FileNotFoundError as error:
        raise InputError(f"there is no image {name}; it is missing from the data set.") from error
    except (OSError, SyntaxError) as error:
        raise FileFormatError(f"{name} cannot be decoded ({error}); mend or remove it.") from error


def _n_classes(class_names: Sequence[str] | None, needed_by: str) -> int:
    if class_names is None:
        raise InputError(
            f"class_names is None, but there are {needed_by}; name the classes that they number."
        )
    return len(class_names)


def _names(values: ArrayLike | None, n: int, name: str) -> Array | None:
    if values is None:
        return None
    codes, names = check_domains(values, n_rows=n, needed_by="ImageSet", name=name)
    return names[codes] if names.dtype.kind in "iu" else names.astype(str)[codes]
