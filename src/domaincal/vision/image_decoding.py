"""Decode images: the formats that are read, and the memory that an image may take."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from domaincal._files import decoding, open_file
from domaincal._memory import FREE_MEMORY, TIMES_FILE_SIZE, MemoryLimit
from domaincal._optional import require
from domaincal._typing import Array
from domaincal.errors import FileFormatError, InputError
from domaincal.vision.jpeg_decoding import jpeg_pixels

#: Formats that are read, by their names in Pillow. Others can cost more: EPS starts Ghostscript.
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")

# Memory that every image may take: blank pages of 70 megapixels have small files.
_FREE_FOR_PIXELS = 5 << 27
# Memory for a pixel: 4 bytes in Pillow and 3 in the array, with some space for strips of rows.
_PIXEL_BYTES = 8
# Memory for a pixel in decoders that hold the whole image themselves.
_DECODER_BYTES = 8
# Pixels that are converted at a time: a large image as a whole would take 14 bytes for a pixel.
_STRIP_PIXELS = 1 << 22
_TILE_WIDTH, _TILE_LENGTH = 322, 323  # tags of TIFF
_CURE = "repair or remove it"


def read_image(path: Path) -> Array:
    """Image of a file as RGB, uint8 of shape (height, width, 3)."""
    content = _read(path)
    return decode_image(content, str(path), len(content))


def decode_image(content: bytes, name: str, size: int) -> Array:
    """Image as RGB, uint8 of shape (height, width, 3); see :func:`_decode_header`."""
    with _decode_header(content, name, size) as image:
        pixels = jpeg_pixels(content, image) if image.format == "JPEG" else None
        return _pillow_pixels(image) if pixels is None else pixels


@contextmanager
def open_image(path: Path) -> Iterator[Any]:
    """Open the image of a file in Pillow; see :func:`_decode_header`."""
    content = _read(path)
    with _decode_header(content, str(path), len(content)) as image:
        yield image


def _read(path: Path) -> bytes:
    """Content of a file: Pillow asks a file for as many bytes as a damaged header says."""
    try:
        file = open_file(path)
    except FileNotFoundError as error:
        raise InputError(f"the image {path} does not exist; get the whole data set.") from error
    with file:
        return file.read()


@contextmanager
def _decode_header(content: bytes, name: str, size: int) -> Iterator[Any]:
    """Open an image that takes ``size`` bytes of a file in Pillow, after a check of its header.

    Whatever is wrong, also in the pixels that are decoded later, is a FileFormatError.
    """
    module: Any = require("PIL.Image", extra="torch", purpose="reading images")
    with decoding(name, _CURE):
        try:
            opened = module.open(io.BytesIO(content), formats=FORMATS)
        except module.UnidentifiedImageError as error:
            raise FileFormatError(
                f"{name} is not an image that can be read ({', '.join(FORMATS)}); {_CURE}."
            ) from error
        with opened as image:
            _check_header(image, name, size)
            yield image


def _pillow_pixels(image: Any) -> Array:
    """Pixels of an opened image, decoded by Pillow, as RGB, uint8 of shape (height, width, 3)."""
    image.load()  # which may turn the image, and change its size
    width, height = image.size
    rows = max(1, _STRIP_PIXELS // width)
    if height <= rows:
        return np.asarray(image.convert("RGB"))
    pixels = np.empty((height, width, 3), np.uint8)
    for top in range(0, height, rows):
        bottom = min(top + rows, height)
        pixels[top:bottom] = np.asarray(image.crop((0, top, width, bottom)).convert("RGB"))
    return pixels


def require_memory(
    needed: int, name: str, size: int, cure: str, *, free: int = FREE_MEMORY
) -> None:
    """Check the memory for an image, or a member of a zip file, of ``size`` bytes.

    The rule is that of :class:`MemoryLimit`; ``free`` is what every file may take.
    """
    if needed > free:  # hardly ever
        limit = MemoryLimit(Path(name), size, max(free, TIMES_FILE_SIZE * size))
        limit.require(needed, cure)


def _check_header(image: Any, name: str, size: int) -> None:
    """Raise an error if the image has more than 8 bits per channel, or too many pixels."""
    if image.mode.startswith(("I", "F")):  # Pillow would clip the values, not scale them
        raise InputError(
            f"{name} has more than 8 bits per channel (mode {image.mode}); convert the images to "
            "8 bits first."
        )
    n_pixels, n_bytes = image.width * image.height, _PIXEL_BYTES
    if image.format == "TIFF":  # a tile may be larger than the image
        tags = image.tag_v2
        n_pixels = max(n_pixels, int(tags.get(_TILE_WIDTH, 0)) * int(tags.get(_TILE_LENGTH, 0)))
    if image.format in ("TIFF", "WEBP") or image.info.get("progressive"):
        n_bytes += _DECODER_BYTES
    require_memory(
        n_pixels * n_bytes, name, size,
        f"its {image.width} x {image.height} px are suspiciously many: make it smaller, {_CURE}",
        free=_FREE_FOR_PIXELS,
    )  # fmt: skip
