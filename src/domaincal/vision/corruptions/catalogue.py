"""Names of the corruptions, their severities, and the published tables of constants."""

from __future__ import annotations

from typing import Literal

import numpy as np

from domaincal._validation import check_option
from domaincal.errors import InputError

#: Corruptions by family, as in ImageNet-C.
FAMILIES = {
    "noise": ("gaussian_noise", "shot_noise", "impulse_noise"),
    "blur": ("defocus_blur", "glass_blur", "motion_blur", "zoom_blur"),
    "weather": ("snow", "frost", "fog", "brightness"),
    "digital": ("contrast", "elastic_transform", "pixelate", "jpeg_compression"),
}
CORRUPTIONS = tuple(name for names in FAMILIES.values() for name in names)
SEVERITIES = (1, 2, 3, 4, 5)
#: Published tables of constants. The package imagecorruptions has the first one only.
CONSTANTS = ("imagenet", "tiny-imagenet", "cifar")
Constants = Literal["imagenet", "tiny-imagenet", "cifar"]
#: Name of the domain of uncorrupted images.
CLEAN = "clean"
#: Shortest side in px of an image that can be corrupted.
SMALLEST_SIDE = 32


def check_corruption(name: str, severity: int) -> None:
    """Raise an error unless ``name`` is a corruption and ``severity`` is one of 1 to 5."""
    check_option(name, "name", CORRUPTIONS)
    if type(severity) not in (int, np.int64) or severity not in SEVERITIES:
        raise InputError(f"severity must be 1, 2, 3, 4 or 5, got {severity!r}.")


def domain_name(name: str, severity: int) -> str:
    """Name of a corrupted domain, e.g. ``fog-3``."""
    return f"{name}-{severity}"
