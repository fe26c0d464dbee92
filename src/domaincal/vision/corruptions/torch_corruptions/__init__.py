"""The 15 corruptions for batches of images in torch, on any device.

Each corruption is a function of images, random numbers and constants. Images are float32 of shape
(n, 3, height, width) in grey levels from 0 to 255; the results may lie outside that range.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from domaincal.vision.corruptions.torch_corruptions import blur, digital, jpeg, noise, weather
from domaincal.vision.corruptions.torch_corruptions.constants import published_constants
from domaincal.vision.corruptions.torch_corruptions.random_numbers import (
    PerImageRandom,
    stable_hash,
)

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

#: Number of pixel values that are processed at a time, by type of device. Each takes up to about 60
#: bytes of memory. Large chunks hide the launch time of kernels on a GPU; small ones fit into the
#: cache of a CPU.
CHUNK_VALUES = {"cpu": 1 << 20, "cuda": 1 << 23}


def corrupt_batch(
    images: Tensor, name: str, severity: int, random_state: int, table: str
) -> Tensor:
    """Corrupt images, uint8 of shape (n, height, width, 3), with the constants of a table."""
    function, constants = _FUNCTIONS[name], published_constants(table, name, severity)
    salt = stable_hash(random_state, name, severity)
    corrupted = torch.empty_like(images, memory_format=torch.contiguous_format)
    n_values = CHUNK_VALUES[images.device.type]
    size = max(1, n_values // images[0].numel()) if len(images) else 1
    for start in range(0, len(images), size):
        chunk = images[start : start + size]
        levels = function(
            chunk.permute(0, 3, 1, 2).to(torch.float32, memory_format=torch.contiguous_format),
            PerImageRandom(chunk, salt),
            *constants,
        )
        corrupted[start : start + size] = _to_uint8(levels).permute(0, 2, 3, 1)
    return corrupted


def _to_uint8(levels: Tensor) -> Tensor:
    """Round grey levels down, as the published programs do.

    The small offset keeps integers that rounding errors have moved just below themselves.
    Otherwise flat parts of an image would lose a grey level on some devices or in some batches.
    """
    return levels.clamp(0, 255).add_(2.0**-10).to(torch.uint8)
