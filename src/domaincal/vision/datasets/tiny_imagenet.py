"""Tiny-ImageNet, from its folder or straight from zip files of it."""

import os
import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, Protocol

import numpy as np

from domaincal._validation import check_option
from domaincal._wording import few
from domaincal.errors import FileFormatError, InputError
from domaincal.vision.corruptions.catalogue import CLEAN
from domaincal.vision.datasets.folder_layout import entries, incomplete
from domaincal.vision.datasets.image_set import ImageFiles, Images, ImageSet, ZippedImages

_FOLDER = "tiny-imagenet-200"
_N_CLASSES = 200
_ANNOTATIONS = "val/val_annotations.txt"
_EXPECTED = {
    "train": f"{_FOLDER}/train/<wnid>/images/*.JPEG, there or in .zip files,",
    "val": f"{_FOLDER}/val/images/*.JPEG and {_ANNOTATIONS}, there or in .zip files,",
}
_TRAINING_IMAGE = re.compile(r"train/(n[0-9]{8})/images/([^/]+\.JPEG)")
_VALIDATION_IMAGE = re.compile(r"val/images/([^/]+\.JPEG)")


class TinyImageNet(ImageSet):
    """Tiny-ImageNet: 200 classes of ImageNet at 64 px.

    Input
        Colour photos of 64 x 64 px (a few of them grey), JPEG.
    Label
        One of 200 WordNet ids such as ``n01443537``, numbered in the order of the alphabet,
        whichever of the files are there; ``wnids.txt`` names the same ids in another order.
    Domain
        The validation images are of the domain ``clean``, the training images of none.
    Group
        The name of the image's file.
    Size
        100,000 training images, 500 of each class, and 10,000 validation images, 50 of each. Fewer
        training images are read as they are, as long as every class has some. The labels of the
        official test images are not public: they are not read.
    Layout
        ``tiny-imagenet-200/`` with ``train/<wnid>/images/*.JPEG``, ``val/images/*.JPEG``,
        ``val/val_annotations.txt`` and ``wnids.txt``; or zip files that together hold that.
    Known flaws
        Seven validation images are also in the training set.
    Citation
        Y. Le and X. Yang, "Tiny ImageNet Visual Recognition Challenge", Stanford CS 231N, 2015;
        the photos are of ImageNet (J. Deng et al., CVPR 2009), whose terms hold.

    Parameters
    ----------
    folder : path
        ``tiny-imagenet-200``, the folder it is in, a folder of zip files, or one zip file.
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
        tree = _tree(Path(folder))
        classes = _classes(tree)
        rows = _training_rows(tree, classes) if split == "train" else _validation_rows(tree)
        if not rows:
            raise _lacking(Path(folder), split)
        number = {wnid: k for k, wnid in enumerate(classes)}
        unknown = sorted({wnid for wnid, _, _ in rows} - set(number))
        if unknown:
            raise FileFormatError(
                f"wnids.txt in {folder} does not name {few(unknown)}, of which there are images; "
                "get the official file."
            )
        super().__init__(
            tree.images([name for _, _, name in rows]),
            np.array([number[wnid] for wnid, _, _ in rows]),
            class_names=classes,
            domains=np.full(len(rows), CLEAN) if split == "val" else None,
            groups=np.array([image for _, image, _ in rows]),
            provenance={"data set": "Tiny-ImageNet", "split": split},
        )


class _Tree(Protocol):
    """The files of the data set; names are relative to tiny-imagenet-200."""

    place: Path

    def training_images(self) -> Iterator[tuple[str, str, str]]:
        """Class, image and name of each."""
        ...

    def validation_images(self) -> Iterator[tuple[str, str]]:
        """Image and name of each."""
        ...

    def text(self, name: str) -> str | None:
        """What a text file says, if it is there."""
        ...

    def images(self, names: Sequence[str]) -> Images: ...


class _FolderTree:
    def __init__(self, place: Path) -> None:
        self.place = place

    def training_images(self) -> Iterator[tuple[str, str, str]]:
        for wnid in self._names("train", files=False):
            if re.fullmatch("n[0-9]{8}", wnid):
                for image in self._names(f"train/{wnid}/images"):
                    yield wnid, image, f"train/{wnid}/images/{image}"

    def validation_images(self) -> Iterator[tuple[str, str]]:
        for image in self._names("val/images"):
            yield image, f"val/images/{image}"

    def text(self, name: str) -> str | None:
        path = self.place / name
        return path.read_text() if path.is_file() else None

    def images(self, names: Sequence[str]) -> Images:
        return ImageFiles(self.place, names)

    def _names(self, name: str, *, files: bool = True) -> list[str]:
        path = self.place / name
        if not path.is_dir():
            return []
        found = entries(path)[int(files)]
        return [image for image in found if image.endswith(".JPEG")] if files else found


class _ZipTree:
    def __init__(self, place: Path, archives: Sequence[Path]) -> None:
        self.place, self._archives = place, archives
        self._members: dict[str, tuple[int, str]] = {}
        for number, archive in enumerate(archives):
            try:
                with zipfile.ZipFile(archive) as file:
                    names = file.namelist()
            except (zipfile.BadZipFile, OSError) as error:
                raise FileFormatError(
                    f"{archive} cannot be read as a .zip file ({error}); get it again."
                ) from error
            for name in names:  # what two files hold counts once
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
        with zipfile.ZipFile(self._archives[number]) as file:
            return file.read(member).decode()

    def images(self, names: Sequence[str]) -> Images:
        return ZippedImages(self._archives, [self._members[name] for name in names])


def _tree(place: Path) -> _Tree:
    if place.is_file():
        return _ZipTree(place, [place])
    if not place.is_dir():
        raise InputError(
            f"folder={str(place)!r} is not there; give the folder {_FOLDER}, or the one in which "
            "it or its .zip files are."
        )
    for folder in (place, place / _FOLDER):
        if (folder / "train").is_dir() or (folder / "val").is_dir():
            return _FolderTree(folder)
    archives = sorted(path for path in place.iterdir() if path.suffix.lower() == ".zip")
    if not archives:
        raise incomplete(place, f"{_FOLDER}/train, {_FOLDER}/val or .zip files that hold them")
    return _ZipTree(place, archives)


def _classes(tree: _Tree) -> list[str]:
    """All classes, sorted: those of wnids.txt, else those seen, if none can be missing."""
    text = tree.text("wnids.txt")
    if text is not None:
        classes = sorted(text.split())
        if not classes or not all(re.fullmatch("n[0-9]{8}", wnid) for wnid in classes):
            raise FileFormatError(
                f"wnids.txt in {tree.place} must hold WordNet ids such as n01443537, got "
                f"{few(classes) or 'nothing'}."
            )
        return classes
    seen = {wnid for wnid, _, _ in tree.training_images()} | set(_annotations(tree).values())
    if seen and len(seen) != _N_CLASSES:
        raise InputError(
            f"there is no wnids.txt in {tree.place}, and images of {len(seen)} instead of "
            f"{_N_CLASSES} classes, so that their numbers are unknown; add {_FOLDER}/wnids.txt."
        )
    return sorted(seen)


def _training_rows(tree: _Tree, classes: Iterable[str]) -> list[tuple[str, str, str]]:
    rows = sorted(tree.training_images())
    missing = sorted(set(classes) - {wnid for wnid, _, _ in rows})
    if rows and missing:
        raise InputError(
            f"train/<wnid>/images in {tree.place} has no image of {len(missing)} classes: "
            f"{few(missing)}; add them."
        )
    return rows


def _validation_rows(tree: _Tree) -> list[tuple[str, str, str]]:
    class_of = _annotations(tree)
    name_of = dict(tree.validation_images())
    for known, other, cure in (
        (set(class_of), set(name_of), f"get the images that {_ANNOTATIONS} names"),
        (set(name_of), set(class_of), f"get the whole {_ANNOTATIONS}, which does not name them"),
    ):
        if known - other:
            raise InputError(
                f"val/images and {_ANNOTATIONS} in {tree.place} differ in {len(known - other)} "
                f"images: {few(sorted(known - other))}; {cure}."
            )
    return [(wnid, image, name_of[image]) for image, wnid in class_of.items()]


def _annotations(tree: _Tree) -> dict[str, str]:
    """Class of each validation image, in the order of the file."""
    rows = [line.split() for line in (tree.text(_ANNOTATIONS) or "").splitlines() if line.strip()]
    wrong = next((row for row in rows if len(row) < 2), None)
    if wrong is not None:
        raise FileFormatError(
            f"{_ANNOTATIONS} in {tree.place} has the line {' '.join(wrong)!r}; every line must "
            "begin with an image and its class."
        )
    return {image: wnid for image, wnid, *_ in rows}


def _lacking(place: Path, split: str) -> InputError:
    if place.is_file():
        return InputError(f"expected {_EXPECTED[split]} in {place}, which holds none of it.")
    return incomplete(place, _EXPECTED[split], "get the missing part")
