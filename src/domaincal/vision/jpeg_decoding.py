"""Decode JPEG files by simplejpeg: faster than by Pillow, to the same pixels."""

from __future__ import annotations

import functools
import re
from typing import Any

from domaincal._optional import require
from domaincal._typing import Array
from domaincal.errors import MissingDependencyError

# Modes of Pillow for the names of colour spaces in simplejpeg. The two convert CMYK differently.
_MODES = {"Gray": "L", "RGB": "RGB", "YCbCr": "RGB"}
# Markers of arithmetic coding, which Pillow does not decode in files of more than 64 KiB.
_ARITHMETIC_CODING = re.compile(rb"\xff[\xc9-\xcb]")


def jpeg_pixels(content: bytes, image: Any) -> Array | None:
    """Pixels of a JPEG file as RGB, uint8 of shape (height, width, 3).

    None if Pillow has to decode it: simplejpeg is not installed, would give other pixels, or finds
    some damage, of which Pillow ignores some and names the rest.

    Parameters
    ----------
    content : bytes
        The file.
    image : PIL.Image.Image
        The same file, opened in Pillow, after a check of its header.
    """
    module = _simplejpeg()
    if module is None or _ARITHMETIC_CODING.search(content):
        return None
    try:
        height, width, colours, _ = module.decode_jpeg_header(content)
        # The two read a damaged header differently; the memory was checked for Pillow's size.
        if (width, height, _MODES.get(colours)) != (*image.size, image.mode):
            return None
        pixels: Array = module.decode_jpeg(content, "RGB")
    except (ValueError, KeyError):  # damage or rare subsampling; no name for the subsampling 4:4:1
        return None
    return pixels


@functools.cache
def _simplejpeg() -> Any | None:
    """The package, if it decodes as the installed Pillow does.

    Both contain libjpeg-turbo. Versions 2 and 3 of it differ in progressive files without their
    last scans; 3.0 to 3.2 give equal pixels. With numpy 2, simplejpeg always has version 3.
    """
    try:
        module = require("simplejpeg", extra="torch", purpose="decoding JPEG files")
    except MissingDependencyError:
        return None
    features = require("PIL.features", extra="torch", purpose="reading images")
    version = features.version_feature("libjpeg_turbo") or ""
    return module if version.startswith("3.") else None
