"""The 15 corruptions for batches of images in torch, on any device.

Each is a function of images, random numbers and constants. Images are float32 of shape
(n, 3, height, width) in grey levels from 0 to 255; what is returned may lie outside.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from domaincal.vision.corruptions.torch_corruptions import blur, digital, jpeg, noise, weather
from domaincal.vision.corruptions.torch_corruptions.constants import constants_of
from domaincal.vision.corruptions.torch_corruptions.random_numbers import Random, salt_of

_FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    "gaussian_noise": noise.gaussian_noise,
    "shot_noise": noise.shot_noise,
    "impulse_noise": noise.impulse_noise,
    "defocus_blur": blur.defocus_blur,
    "glass_blur": blur.glass_blur,
    "motion_blur": blur.motion_blur,
    "zoom_blur": blur.zoom_blur,
    "snow": weather.snow,
    "frost": weather.frost,
    "fog": weather.fog,
    "brightness": weather.brightness,
    "contrast": digital.contrast,
    "elastic_transform": digital.elastic_transform,
    "pixelate": digital.pixelate,
    "jpeg_compression": jpeg.jpeg_compression,
}

# Values of pixels that are worked on at a time: memory stays below about 60 bytes for each. On a
# GPU more of them hide the time it takes to start a kernel; on a CPU fewer stay in its cache.
_VALUES = {"cpu": 1 << 20}
_VALUES_ELSEWHERE = 1 << 23


def corrupt_batch(images: Tensor, name: str, severity: int, seed: int, table: str) -> Tensor:
    """Corrupt images, uint8 of shape (n, height, width, 3), with the constants of a table."""
    function, constants = _FUNCTIONS[name], constants_of(table, name, severity)
    salt = salt_of(seed, name, severity)
    made = torch.empty_like(images, memory_format=torch.contiguous_format)
    values = _VALUES.get(images.device.type, _VALUES_ELSEWHERE)
    size = max(1, values // images[0].numel()) if len(images) else 1
    for start in range(0, len(images), size):
        part = images[start : start + size]
        levels = function(
            part.permute(0, 3, 1, 2).to(torch.float32, memory_format=torch.contiguous_format),
            Random(part, salt),
            *constants,
        )
        made[start : start + size] = _bytes(levels).permute(0, 2, 3, 1)
    return made


def _bytes(levels: Tensor) -> Tensor:
    """Cut off the fraction, as the published programs do.

    Whole numbers of which rounding took a little away are kept: flat parts of an image would
    otherwise lose a grey level on one device, or in one company, and not in another.
    """
    return levels.clamp(0, 255).add_(2.0**-10).to(torch.uint8)
