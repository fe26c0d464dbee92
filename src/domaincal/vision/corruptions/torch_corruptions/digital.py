"""Contrast, distortion, and fewer bits."""

import functools

import numpy as np
import torch
from torch import Tensor

from domaincal._typing import Array
from domaincal.vision.corruptions.torch_corruptions import linear
from domaincal.vision.corruptions.torch_corruptions.random_numbers import Random


def contrast(x: Tensor, random: Random, factor: float) -> Tensor:
    """Pull towards the mean of the channel."""
    del random
    # Grey levels are whole numbers: their sum is exact, whatever its order.
    mean = x.sum(dim=(2, 3), keepdim=True, dtype=torch.float64) / (x.shape[2] * x.shape[3])
    mean = mean.to(x.dtype)
    return (x - mean) * factor + mean


def elastic_transform(
    x: Tensor, random: Random, alpha: float, sigma: float, shift: float
) -> Tensor:
    """Shift three points of the image at random, then every pixel by a smooth random field."""
    height, width = x.shape[-2:]
    if shift > 0:
        x = _affine(x, random.uniform(3, 2, stream=1).mul_(2).sub_(1), shift * height)
    if alpha == 0:
        return x
    field = random.uniform(2, height, width).mul_(2).sub_(1)
    sigmas = (sigma * height, sigma * width)
    field = linear.gaussian_blur(field, sigmas, mode="reflect", truncate=3) * (alpha * height)
    rows = torch.arange(height, device=x.device)[:, None]
    columns = torch.arange(width, device=x.device)
    return linear.read_between(x, field[:, 0] + rows, field[:, 1] + columns, border="reflect")


def _affine(x: Tensor, moves: Tensor, distance: float) -> Tensor:
    """Move three corners of the square in the middle by ``distance * moves`` (n, 3, (x, y))."""
    height, width = x.shape[-2:]
    half = min(height, width) // 3
    middle_x, middle_y = width // 2, height // 2
    moved = moves.to(torch.float64) * distance
    # Lower right, upper right, upper left: their differences are the columns of the matrix.
    lower, upper, left = moved.unbind(1)
    along_x = (upper - left) / (2 * half)
    along_y = (lower - upper) / (2 * half)
    a, c = 1 + along_x[:, 0], along_x[:, 1]
    b, d = along_y[:, 0], 1 + along_y[:, 1]
    # It takes the upper right corner to that corner + upper; we read where a pixel came from.
    corner = (middle_x + half, middle_y - half)
    off_x = torch.arange(width, device=x.device) - corner[0] - upper[:, :1]
    off_y = torch.arange(height, device=x.device) - corner[1] - upper[:, 1:]
    off_x, off_y = off_x[:, None, :], off_y[:, :, None]
    a, b, c, d = (value[:, None, None] for value in (a, b, c, d))
    scale = 1 / (a * d - b * c)
    x_at = (d * off_x - b * off_y) * scale + corner[0]
    y_at = (a * off_y - c * off_x) * scale + corner[1]
    return linear.read_between(x, y_at.to(x.dtype), x_at.to(x.dtype), border="reflect-101")


def pixelate(x: Tensor, random: Random, scale: float) -> Tensor:
    """Shrink by means over boxes, and enlarge by repeating pixels."""
    del random
    height, width = x.shape[-2:]
    # Along the width first, rounded, as Pillow does.
    columns, from_column = _boxes(width, int(width * scale), x.device)
    rows, from_row = _boxes(height, int(height * scale), x.device)
    small = linear.across(x, columns).add_(0.5).floor_()
    small = linear.down(small, rows).add_(0.5).floor_().to(x.dtype)
    return small.index_select(2, from_row).index_select(3, from_column)


@functools.lru_cache(maxsize=256)
def _boxes(size: int, small: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Means over whole pixels, shape (small, size), and the small pixel of each large one."""
    scale = size / small
    middle = (np.arange(small) + 0.5) * scale
    first, end = (middle - scale / 2 + 0.5).astype(int), (middle + scale / 2 + 0.5).astype(int)
    places = np.arange(size)
    inside = (places >= first[:, None]) & (places < end[:, None])
    away = (places - middle[:, None] + 0.5) * (1 / scale)
    inside &= (away > -0.5) & (away <= 0.5)
    # Steps are added up as Pillow does it: where pixels meet, the last bit decides.
    step = np.full(size, small / size)
    step[0] /= 2
    back = step.cumsum().astype(int)
    means: Array = inside / inside.sum(axis=1, keepdims=True)
    return linear.on_device(means, device), torch.as_tensor(back, device=device)
