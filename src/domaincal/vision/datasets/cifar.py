"""CIFAR-10 and CIFAR-100, from the official binary files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from domaincal._files import open_file
from domaincal._typing import Array
from domaincal._validation import check_option
from domaincal.errors import FileFormatError
from domaincal.vision.corruptions.catalogue import CLEAN
from domaincal.vision.datasets.folder_layout import incomplete, read_text, require_folder
from domaincal.vision.datasets.image_set import ImageSet, repeated_name

_SIDE = 32
_PIXELS = 3 * _SIDE * _SIDE


class _Cifar(ImageSet):
    """Base class of both: records of labels and pixels, one colour plane after the other."""

    _title: ClassVar[str]
    _folder: ClassVar[str]
    _files: ClassVar[dict[str, tuple[str, ...]]]
    _names: ClassVar[str]
    _n_labels: ClassVar[int]

    def __init__(
        self, folder: str | os.PathLike[str], split: Literal["test", "train"] = "test"
    ) -> None:
        check_option(split, "split", ("test", "train"))
        path = require_folder(folder, f"{self._folder} or its parent")
        if (path / self._folder).is_dir():
            path = path / self._folder
        needed = (*self._files[split], self._names)
        if not all((path / name).is_file() for name in needed):
            raise incomplete(
                path, ", ".join(needed), f"unpack the binary version of {self._title} there"
            )
        records = np.concatenate([self._records(path / name) for name in self._files[split]])
        class_names = read_text(path / self._names).split()
        labels = records[:, self._n_labels - 1].astype(np.int64)
        if labels.max() >= len(class_names):
            raise FileFormatError(
                f"{path} has images of the class {labels.max()}, but {self._names} lists "
                f"{len(class_names)} classes; get the official files."
            )
        planes = records[:, self._n_labels :].reshape(-1, 3, _SIDE, _SIDE)
        super().__init__(
            np.ascontiguousarray(planes.transpose(0, 2, 3, 1)),
            labels,
            class_names=class_names,
            domains=repeated_name(CLEAN, len(labels)) if split == "test" else None,
            groups=[f"{split}-{k}" for k in range(len(labels))],
            provenance={"data set": self._title, "split": split},
        )

    def _records(self, path: Path) -> Array:
        size = self._n_labels + _PIXELS
        with open_file(path) as file:
            content = np.frombuffer(file.read(), np.uint8)
        if len(content) == 0 or len(content) % size:
            raise FileFormatError(
                f"{path} has {len(content)} bytes, but must consist of images of {size} bytes; it "
                "is truncated or not the binary version: get it again."
            )
        return content.reshape(-1, size)


class Cifar10(_Cifar):
    """CIFAR-10: small photos of 10 classes.

    Input
        Colour photos of 32 x 32 px, in memory.
    Label
        airplane, automobile, bird, cat, deer, dog, frog, horse, ship, truck.
    Domain
        The test images have the domain ``clean``; the training images have none.
    Group
        ``test-0``, ``test-1``, ..., in the order of the file.
    Size
        50,000 training and 10,000 test images.
    Layout
        ``cifar-10-batches-bin/`` with ``data_batch_1.bin`` to ``data_batch_5.bin``,
        ``test_batch.bin`` and ``batches.meta.txt``: the "binary version".
    Citation
        A. Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009.

    Parameters
    ----------
    folder : path
        ``cifar-10-batches-bin``, or its parent.
    split : {"test", "train"}, default "test"

    Examples
    --------
    >>> import tempfile, domaincal as dc
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open(folder + "/batches.meta.txt", "w") as file:
    ...         _ = file.write("airplane automobile bird")
    ...     with open(folder + "/test_batch.bin", "wb") as file:
    ...         _ = file.write(bytes([2]) + bytes(3072))
    ...     images = dc.vision.Cifar10(folder)
    >>> images, images.class_names[images.labels[0]], images.images[0].shape
    (Cifar10(1 images, 3 classes, 1 domains, 1 groups), 'bird', (32, 32, 3))
    """

    _title = "CIFAR-10"
    _folder = "cifar-10-batches-bin"
    _files: ClassVar[dict[str, tuple[str, ...]]] = {
        "train": tuple(f"data_batch_{k}.bin" for k in range(1, 6)),
        "test": ("test_batch.bin",),
    }
    _names = "batches.meta.txt"
    _n_labels = 1


class Cifar100(_Cifar):
    """CIFAR-100: small photos of 100 classes.

    Input
        Colour photos of 32 x 32 px, in memory.
    Label
        The 100 fine classes, apple to worm; the 20 coarse classes are not read.
    Domain
        The test images have the domain ``clean``; the training images have none.
    Group
        ``test-0``, ``test-1``, ..., in the order of the file.
    Size
        50,000 training and 10,000 test images.
    Layout
        ``cifar-100-binary/`` with ``train.bin``, ``test.bin`` and ``fine_label_names.txt``: the
        "binary version".
    Citation
        A. Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009.

    Parameters
    ----------
    folder : path
        ``cifar-100-binary``, or its parent.
    split : {"test", "train"}, default "test"

    Examples
    --------
    >>> import tempfile, domaincal as dc
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open(folder + "/fine_label_names.txt", "w") as file:
    ...         _ = file.write("apple baby")
    ...     with open(folder + "/test.bin", "wb") as file:
    ...         _ = file.write(bytes([14, 1]) + bytes(3072))
    ...     images = dc.vision.Cifar100(folder)
    >>> images.class_names[images.labels[0]]
    'baby'
    """

    _title = "CIFAR-100"
    _folder = "cifar-100-binary"
    _files: ClassVar[dict[str, tuple[str, ...]]] = {"train": ("train.bin",), "test": ("test.bin",)}
    _names = "fine_label_names.txt"
    _n_labels = 2  # the first one is the coarse class
