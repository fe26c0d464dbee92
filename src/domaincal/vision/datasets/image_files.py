"""Sequences of images that are decoded when they are read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from domaincal._typing import Array, IntArray
from domaincal.vision.datasets.zip_archive import ZipArchive
from domaincal.vision.image_decoding import decode_image, read_image


class Images(Protocol):
    """Sequence of images, each uint8 of shape (height, width, 3)."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Array: ...


class SelectedImages:
    """Some of the images of a sequence, in the given order."""

    def __init__(self, images: Images, rows: IntArray) -> None:
        self._images, self._rows = images, rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Array:
        return self._images[int(self._rows[index])]


class ImageFiles:
    """Images in the files of a folder: BMP, GIF, JPEG, PNG, PPM, TIFF or WebP, of 8 bits.

    Parameters
    ----------
    folder : path
    names : sequence of str
        Paths of the files, relative to the folder.

    Examples
    --------
    >>> import tempfile, domaincal as dc
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Image.new("RGB", (40, 30)).save(folder + "/night.png")
    ...     dc.vision.ImageFiles(folder, ["night.png"])[0].shape
    (30, 40, 3)
    """

    def __init__(self, folder: str | os.PathLike[str], names: Sequence[str]) -> None:
        self.folder, self.names = Path(folder), names

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> Array:
        return read_image(self.folder / self.names[index])


class ZippedImages:
    """Images in zip files, which are not unpacked. Each process opens the files anew.

    Parameters
    ----------
    archives : sequence of path
        The zip files.
    members : sequence of (int, str)
        Number of the zip file and name in it, for each image.

    Examples
    --------
    >>> import io, tempfile, zipfile, domaincal as dc
    >>> from PIL import Image
    >>> content = io.BytesIO()
    >>> Image.new("RGB", (40, 30)).save(content, "PNG")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with zipfile.ZipFile(folder + "/photos.zip", "w") as file:
    ...         file.writestr("night.png", content.getvalue())
    ...     dc.vision.ZippedImages([folder + "/photos.zip"], [(0, "night.png")])[0].shape
    (30, 40, 3)
    """

    def __init__(
        self, archives: Sequence[str | os.PathLike[str]], members: Sequence[tuple[int, str]]
    ) -> None:
        self.archives, self.members = archives, members
        self._open: dict[int, ZipArchive] = {}
        self._process = os.getpid()

    def __len__(self) -> int:
        return len(self.members)

    def __getitem__(self, index: int) -> Array:
        if os.getpid() != self._process:  # a forked process must not share the file position
            self._open, self._process = {}, os.getpid()
        number, name = self.members[index]
        if number not in self._open:
            self._open[number] = ZipArchive(self.archives[number])
        archive = self._open[number]
        size = archive.compressed_size(name)
        return decode_image(archive.read(name), f"{archive.path}:{name}", size)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": {}}
