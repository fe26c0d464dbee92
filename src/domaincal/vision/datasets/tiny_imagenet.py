"""Tiny-ImageNet, from its folder or directly from zip files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Literal, Protocol

import numpy as np

from domaincal._files import decoding
from domaincal._validation import check_option
from domaincal._wording import few
from domaincal.errors import FileFormatError, InputError
from domaincal.vision.corruptions.catalogue import CLEAN
from domaincal.vision.datasets.folder_layout import (
    NOT_TEXT,
    incomplete,
    list_folder,
    missing_path,
    read_text,
)
from domaincal.vision.datasets.image_files import ImageFiles, Images, ZippedImages
from domaincal.vision.datasets.image_set import ImageSet, repeated_name
from domaincal.vision.datasets.zip_archive import ZipArchive

_FOLDER = "tiny-imagenet-200"
_N_CLASSES = 200
_ANNOTATIONS = "val/val_annotations.txt"
_EXPECTED = {
    "train": f"{_FOLDER}/train/<wnid>/images/*.JPEG, unpacked or in .zip files,",
    "val": f"{_FOLDER}/val/images/*.JPEG and {_ANNOTATIONS}, unpacked or in .zip files,",
}
_TRAINING_IMAGE = re.compile(r"train/(n[0-9]{8})/images/([^/]+\.JPEG)")
_VALIDATION_IMAGE = re.compile(r"val/images/([^/]+\.JPEG)")
# Memory of the words of a text, in multiples of its size.
_WORDS = 40


class TinyImageNet(ImageSet):
    """Tiny-ImageNet: 200 classes of ImageNet at 64 px.

    Input
        Colour photos of 64 x 64 px (a few of them grey), JPEG.
    Label
        One of 200 WordNet ids such as ``n01443537``, numbered in alphabetical order, even if some
        files are missing; ``wnids.txt`` lists the same ids in another order.
    Domain
        The validation images have the domain ``clean``; the training images have none.
    Group
        Name of the image file.
    Size
        100,000 training images, 500 of each class, and 10,000 validation images, 50 of each class.
        Some training images may be missing, as long as every class has at least one. The official
        test images are not read, because their labels are not public.
    Layout
        ``tiny-imagenet-200/`` with ``train/<wnid>/images/*.JPEG``, ``val/images/*.JPEG``,
        ``val/val_annotations.txt`` and ``wnids.txt``; or zip files that together contain it.
    Known flaws
        Seven validation images are also in the training set.
    Licence
        The terms of ImageNet (J. Deng et al., CVPR 2009), from which the photos are taken.
    Citation
        Y. Le and X. Yang, "Tiny ImageNet Visual Recognition Challenge", Stanford CS 231N, 2015.

    Parameters
    ----------
    folder : path
        ``tiny-imagenet-200``, its parent, a folder of zip files, or one zip file.
    split : {"val", "train"}, default "val"

    Examples
    --------
    >>> import tempfile, zipfile, domaincal as dc
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with zipfile.ZipFile(folder + "/val.zip", "w") as file:
    ...         file.writestr("tiny-imagenet-200/wnids.txt", "n02124075 n01443537")
    ...         file.writestr(
    ...             "tiny-imagenet-200/val/val_annotations.txt",
    ...             "val_0.JPEG n01443537 0 0 62 62",
    ...         )
    ...         file.writestr("tiny-imagenet-200/val/images/val_0.JPEG", b"...")
    ...     images = dc.vision.TinyImageNet(folder, "val")
    >>> images, images.labels.tolist(), images.domains.tolist()
    (TinyImageNet(1 images, 2 classes, 1 domains, 1 groups), [0], ['clean'])
    """

    def __init__(
        self, folder: str | os.PathLike[str], split: Literal["val", "train"] = "val"
    ) -> None:
        check_option(split, "split", ("val", "train"))
        files = _open_files(Path(folder))
        classes = _read_classes(files)
        rows = _training_rows(files, classes) if split == "train" else _validation_rows(files)
        if not rows:
            raise _missing_files(Path(folder), split)
        number = {wnid: k for k, wnid in enumerate(classes)}
        unknown = sorted({wnid for wnid, _, _ in rows} - set(number))
        if unknown:
            raise FileFormatError(
                f"wnids.txt in {folder} does not contain the classes {few(unknown)}, but there are "
                "images of them; get the official file."
            )
        super().__init__(
            files.images([name for _, _, name in rows]),
            np.array([number[wnid] for wnid, _, _ in rows]),
            class_names=classes,
            domains=repeated_name(CLEAN, len(rows)) if split == "val" else None,
            groups=[image for _, image, _ in rows],
            provenance={"data set": "Tiny-ImageNet", "split": split},
        )


class _Files(Protocol):
    """Files of the data set; their names are relative to tiny-imagenet-200."""

    path: Path

    def training_images(self) -> Iterator[tuple[str, str, str]]:
        """Yield the class, the base name and the name of each training image."""
        ...

    def validation_images(self) -> Iterator[tuple[str, str]]:
        """Yield the base name and the name of each validation image."""
        ...

    def text(self, name: str) -> str | None:
        """Content of a text file; None if it does not exist."""
        ...

    def images(self, names: Sequence[str]) -> Images:
        """Images of the given names."""
        ...


class _UnpackedFiles:
    """Files in a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def training_images(self) -> Iterator[tuple[str, str, str]]:
        for wnid in self._names("train", files=False):
            if re.fullmatch("n[0-9]{8}", wnid):
                for image in self._names(f"train/{wnid}/images"):
                    yield wnid, image, f"train/{wnid}/images/{image}"

    def validation_images(self) -> Iterator[tuple[str, str]]:
        for image in self._names("val/images"):
            yield image, f"val/images/{image}"

    def text(self, name: str) -> str | None:
        path = self.path / name
        return read_text(path) if path.exists() else None

    def images(self, names: Sequence[str]) -> Images:
        return ImageFiles(self.path, names)

    def _names(self, name: str, *, files: bool = True) -> list[str]:
        path = self.path / name
        if not path.is_dir():
            return []
        found = list_folder(path)[int(files)]
        return [image for image in found if image.endswith(".JPEG")] if files else found


class _ZippedFiles:
    """Files in zip archives."""

    def __init__(self, path: Path, archives: Sequence[Path]) -> None:
        self.path, self._archives = path, archives
        self._members: dict[str, tuple[int, str]] = {}
        for number, archive in enumerate(archives):
            with closing(ZipArchive(archive)) as file:
                names = file.names()
            for name in names:  # the first archive that contains a file counts
                self._members.setdefault(name.removeprefix(f"{_FOLDER}/"), (number, name))

    def training_images(self) -> Iterator[tuple[str, str, str]]:
        for name in self._members:
            found = _TRAINING_IMAGE.fullmatch(name)
            if found:
                yield found[1], found[2], name

    def validation_images(self) -> Iterator[tuple[str, str]]:
        for name in self._members:
            found = _VALIDATION_IMAGE.fullmatch(name)
            if found:
                yield found[1], name

    def text(self, name: str) -> str | None:
        if name not in self._members:
            return None
        number, member = self._members[name]
        with closing(ZipArchive(self._archives[number])) as file:
            content = file.read(member, copies=_WORDS)
        with decoding(f"{self._archives[number]}:{member}", NOT_TEXT):
            return content.decode()

    def images(self, names: Sequence[str]) -> Images:
        return ZippedImages(self._archives, [self._members[name] for name in names])


def _open_files(path: Path) -> _Files:
    if path.is_file():
        return _ZippedFiles(path, [path])
    if not path.is_dir():
        raise InputError(
            f"folder={str(path)!r} {missing_path(path)}; give the folder {_FOLDER}, its parent, or "
            "the folder of its .zip files."
        )
    for folder in (path, path / _FOLDER):
        if (folder / "train").is_dir() or (folder / "val").is_dir():
            return _UnpackedFiles(folder)
    archives = sorted(file for file in path.iterdir() if file.suffix.lower() == ".zip")
    if not archives:
        raise incomplete(path, f"{_FOLDER}/train, {_FOLDER}/val or .zip files that contain them")
    return _ZippedFiles(path, archives)


def _read_classes(files: _Files) -> list[str]:
    """Sorted classes: those of wnids.txt, or those of the images if all 200 occur."""
    text = files.text("wnids.txt")
    if text is not None:
        classes = sorted(text.split())
        if not classes or not all(re.fullmatch("n[0-9]{8}", wnid) for wnid in classes):
            raise FileFormatError(
                f"wnids.txt in {files.path} must contain WordNet ids such as n01443537, got "
                f"{few(classes) or 'nothing'}."
            )
        return classes
    seen = {wnid for wnid, _, _ in files.training_images()} | set(_annotations(files).values())
    if seen and len(seen) != _N_CLASSES:
        raise InputError(
            f"{files.path} has no wnids.txt, and images of {len(seen)} instead of {_N_CLASSES} "
            f"classes, so that their numbers are unknown; add {_FOLDER}/wnids.txt."
        )
    return sorted(seen)


def _training_rows(files: _Files, classes: Iterable[str]) -> list[tuple[str, str, str]]:
    """Class, base name and name of each training image."""
    rows = sorted(files.training_images())
    missing = sorted(set(classes) - {wnid for wnid, _, _ in rows})
    if rows and missing:
        raise InputError(
            f"train/<wnid>/images in {files.path} has no image of {len(missing)} classes: "
            f"{few(missing)}; add them."
        )
    return rows


def _validation_rows(files: _Files) -> list[tuple[str, str, str]]:
    """Class, base name and name of each validation image."""
    class_of = _annotations(files)
    name_of = dict(files.validation_images())
    for known, other, cure in (
        (set(class_of), set(name_of), f"get the images that {_ANNOTATIONS} lists"),
        (set(name_of), set(class_of), f"get the whole {_ANNOTATIONS}, which does not list them"),
    ):
        if known - other:
            raise InputError(
                f"val/images and {_ANNOTATIONS} in {files.path} differ in {len(known - other)} "
                f"images: {few(sorted(known - other))}; {cure}."
            )
    return [(wnid, image, name_of[image]) for image, wnid in class_of.items()]


def _annotations(files: _Files) -> dict[str, str]:
    """Class of each validation image, in the order of the file."""
    text = files.text(_ANNOTATIONS) or ""
    rows = [line.split() for line in text.splitlines() if line.strip()]
    short = next((row for row in rows if len(row) < 2), None)
    if short is not None:
        raise FileFormatError(
            f"{_ANNOTATIONS} in {files.path} has the line {' '.join(short)!r}; every line must "
            "begin with an image and its class."
        )
    return {image: wnid for image, wnid, *_ in rows}


def _missing_files(path: Path, split: str) -> InputError:
    if path.is_file():
        return InputError(f"expected {_EXPECTED[split]} in {path}, which contains none of it.")
    return incomplete(path, _EXPECTED[split], "get the missing part")
