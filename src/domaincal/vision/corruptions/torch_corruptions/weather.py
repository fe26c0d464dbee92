"""Weather corruptions: snow, frost, fog, brightness."""

from __future__ import annotations

import functools
import importlib.resources
import math

import numpy as np
import torch
from torch import Tensor

from domaincal._optional import require
from domaincal._typing import Array
from domaincal.vision.corruptions.torch_corruptions.pixel_sampling import motion_blur
from domaincal.vision.corruptions.torch_corruptions.random_numbers import PerImageRandom
from domaincal.vision.corruptions.torch_corruptions.separable_filters import (
    apply_separable,
    zoom_matrix,
)

# Weights of red, green and blue in the brightness of a pixel.
_GREY = (0.299, 0.587, 0.114)
_FROST_FILES = ("frost1.png", "frost2.png", "frost3.png", "frost4.jpg", "frost5.jpg", "frost6.jpg")


def snow(
    x: Tensor,
    random: PerImageRandom,
    mean: float,
    deviation: float,
    zoom: float,
    threshold: float,
    radius: int,
    sigma: float,
    blend: float,
) -> Tensor:
    """Add flakes (enlarged noise above a threshold, blurred by motion) to a whitened image."""
    height, width = x.shape[-2:]
    flakes = random.normal(1, height, width).mul_(deviation).add_(mean)
    rows = zoom_matrix(height, zoom, x.device)
    flakes = apply_separable(flakes, rows, zoom_matrix(width, zoom, x.device))
    flakes = flakes.masked_fill(flakes < threshold, 0.0).clamp_(0, 1)
    degrees = random.uniform(1, stream=1)[:, 0] * 90 - 135
    flakes = motion_blur(flakes, radius, sigma, degrees).mul(255).round_()
    flakes = flakes[:, :, :height, :width]
    grey = (_GREY[0] * x[:, 0] + _GREY[1] * x[:, 1] + _GREY[2] * x[:, 2])[:, None]
    whitened = torch.maximum(x, grey * 1.5 + 127.5)
    return blend * x + (1 - blend) * whitened + flakes + flakes.flip(2, 3)


def fog(x: Tensor, random: PerImageRandom, strength: float, decay: float) -> Tensor:
    """Add a plasma fractal, then rescale to the former maximum."""
    height, width = x.shape[-2:]
    size = 2 ** math.ceil(math.log2(max(height, width)))
    plasma = _plasma(random, size, decay)[:, None, :height, :width]
    largest = x.amax(dim=(1, 2, 3), keepdim=True)
    return (x + plasma * (255 * strength)) * (largest / (largest + 255 * strength))


def _plasma(random: PerImageRandom, size: int, decay: float) -> Tensor:
    """Plasma fractal by the diamond-square algorithm on a torus, 0 to 1, (n, size, size)."""
    noise = random.uniform(size, size).mul_(2).sub_(1)
    plasma = torch.zeros_like(noise)
    step, amplitude = size, 100.0
    while step >= 2:
        half = step // 2
        scale = amplitude**2
        even, odd = slice(0, size, step), slice(half, size, step)
        corners = plasma[:, even, even]
        pairs = corners + corners.roll(-1, 1)
        squares = (pairs + pairs.roll(-1, 2)) / 4 + scale * noise[:, odd, odd]
        plasma[:, odd, odd] = squares
        across = squares + squares.roll(1, 1) + corners + corners.roll(-1, 2)
        plasma[:, even, odd] = across / 4 + scale * noise[:, even, odd]
        along = squares + squares.roll(1, 2) + corners + corners.roll(-1, 1)
        plasma[:, odd, even] = along / 4 + scale * noise[:, odd, even]
        step, amplitude = half, amplitude / decay
    plasma -= plasma.amin(dim=(1, 2), keepdim=True)
    return plasma.div_(plasma.amax(dim=(1, 2), keepdim=True))


def frost(
    x: Tensor,
    random: PerImageRandom,
    image_weight: float,
    frost_weight: float,
    scale: float,
    count: int,
) -> Tensor:
    """Add a random crop of a picture of frost."""
    n, _, height, width = x.shape
    pictures, table = frost_pictures(height, width, scale, count, x.device)
    drawn = random.uniform(3)
    which = (drawn[:, 0] * count).to(torch.int64)
    first, rows, columns = table[which].unbind(1)
    top = (drawn[:, 1] * (rows - height)).to(torch.int64)
    left = (drawn[:, 2] * (columns - width)).to(torch.int64)
    corner = first + top * columns + left
    down = torch.arange(height, device=x.device) * columns[:, None]
    index = (corner[:, None] + down)[:, :, None] + torch.arange(width, device=x.device)
    crop = pictures.index_select(0, index.reshape(-1)).reshape(n, height, width, 3)
    return image_weight * x + frost_weight * crop.permute(0, 3, 1, 2).to(x.dtype)


@functools.lru_cache(maxsize=16)
def frost_pictures(
    height: int, width: int, scale: float, count: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Pictures of frost, each large enough for a crop of the given height and width.

    Returns
    -------
    pixels : tensor of uint8, shape (n_pixels, 3)
        Pixels of all pictures, one picture after the other.
    table : tensor, shape (count, 3)
        First pixel, height and width of each picture.
    """
    cv2 = require("cv2", extra="corruptions", purpose="frost")
    # As in the published programs: bicubic for ImageNet, bilinear where pictures are shrunk.
    method = cv2.INTER_CUBIC if scale > 1 else cv2.INTER_LINEAR
    pixels, table, first = [], [], 0
    for picture in _decoded_pictures()[:count]:
        factor = max(scale, 1.1 * max(height / picture.shape[0], width / picture.shape[1]))
        size = [math.ceil(picture.shape[axis] * factor) for axis in (1, 0)]
        resized: Array = cv2.resize(picture, dsize=size, interpolation=method)
        pixels.append(resized[..., ::-1].reshape(-1, 3))  # OpenCV stores blue first
        table.append([first, size[1], size[0]])
        first += size[0] * size[1]
    return (
        torch.as_tensor(np.concatenate(pixels), device=device),
        torch.as_tensor(table, device=device),
    )


@functools.cache
def _decoded_pictures() -> tuple[Array, ...]:
    purpose = "the pictures of frost"
    package = require("imagecorruptions", extra="corruptions", purpose=purpose).__name__
    cv2 = require("cv2", extra="corruptions", purpose=purpose)
    pictures = []
    for name in _FROST_FILES:
        file = importlib.resources.files(package) / "frost" / name
        data = np.frombuffer(file.read_bytes(), np.uint8)
        pictures.append(cv2.imdecode(data, cv2.IMREAD_COLOR))
    return tuple(pictures)


def brightness(x: Tensor, random: PerImageRandom, added: float) -> Tensor:
    """Add to the value (the largest channel) of the HSV representation.

    With a constant hue and saturation, that multiplies all channels by the same factor.
    """
    del random
    value = x.amax(dim=1, keepdim=True)
    brighter = (value + 255 * added).clamp_(max=255)
    return torch.where(value > 0, x * (brighter / value.clamp(min=1)), brighter)
