"""Sequences of images that are decoded when they are read."""

from __future__ import annotations

import io
import os
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from domaincal._optional import require
from domaincal._typing import Array, IntArray
from domaincal.errors import FileFormatError, InputError


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
    """Images in the files of a folder, in any format that Pillow reads.

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
        path = self.folder / self.names[index]
        return _decode(path, path)


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
        self._open: dict[int, zipfile.ZipFile] = {}
        self._process = os.getpid()

    def __len__(self) -> int:
        return len(self.members)

    def __getitem__(self, index: int) -> Array:
        if os.getpid() != self._process:  # a forked process must not share the file position
            self._open, self._process = {}, os.getpid()
        archive, name = self.members[index]
        try:
            if archive not in self._open:
                self._open[archive] = zipfile.ZipFile(self.archives[archive])
            content = self._open[archive].read(name)
        except (OSError, KeyError, zipfile.BadZipFile, zlib.error) as error:
            raise FileFormatError(
                f"{name} cannot be read from {self.archives[archive]} ({error}); the file is "
                "damaged or has changed: get it again."
            ) from error
        return _decode(io.BytesIO(content), f"{self.archives[archive]}:{name}")

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": {}}


def _decode(source: Any, name: object) -> Array:
    """Image as RGB of 8 bits."""
    module = require("PIL.Image", extra="torch", purpose="reading images")
    try:
        with module.open(source) as image:
            if image.mode.startswith(("I", "F")):  # Pillow would clip the values, not scale them
                raise InputError(
                    f"{name} has more than 8 bits per channel (mode {image.mode}); convert the "
                    "images to 8 bits first."
                )
            return np.asarray(image.convert("RGB"))
    except FileNotFoundError as error:
        raise InputError(f"the image {name} does not exist; get the whole data set.") from error
    except (OSError, SyntaxError) as error:
        raise FileFormatError(
            f"{name} cannot be decoded ({error}); repair or remove it."
        ) from error
