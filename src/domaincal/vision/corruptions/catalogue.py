"""Names of the corruptions, their severities and constants."""

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
#: Published tables of constants; those of the package are the first.
CONSTANTS = ("imagenet", "tiny-imagenet", "cifar")
Constants = Literal["imagenet", "tiny-imagenet", "cifar"]
#: The domain of images as they are.
CLEAN = "clean"
SMALLEST_SIDE = 32


def check_corruption(name: str, severity: int) -> None:
    """Refuse what is not one of the 75."""
    check_option(name, "name", CORRUPTIONS)
    if type(severity) not in (int, np.int64) or severity not in SEVERITIES:
        raise InputError(f"severity must be 1, 2, 3, 4 or 5, got {severity!r}.")


def domain_name(name: str, severity: int) -> str:
    """The name of a domain, e.g. ``fog-3``."""
    return f"{name}-{severity}"
