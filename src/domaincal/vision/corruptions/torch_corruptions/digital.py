"""Digital corruptions: contrast, elastic transform, pixelate. JPEG is in ``jpeg.py``."""

from __future__ import annotations

import functools

import numpy as np
import torch
from torch import Tensor

from domaincal._typing import Array
from domaincal.vision.corruptions.torch_corruptions.pixel_sampling import interpolate
from domaincal.vision.corruptions.torch_corruptions.random_numbers import PerImageRandom
from domaincal.vision.corruptions.torch_corruptions.separable_filters import (
    gaussian_blur,
    multiply_left,
    multiply_right,
    to_device,
)


def contrast(x: Tensor, random: PerImageRandom, factor: float) -> Tensor:
    """Move every pixel towards the mean of its channel."""
    del random
    # Grey levels are integers, so that their sum is exact in any order.
    mean = x.sum(dim=(2, 3), keepdim=True, dtype=torch.float64) / (x.shape[2] * x.shape[3])
    mean = mean.to(x.dtype)
    return (x - mean) * factor + mean


def elastic_transform(
    x: Tensor, random: PerImageRandom, alpha: float, sigma: float, shift: float
) -> Tensor:
    """Apply a random affine map, then shift every pixel by a smooth random field."""
    height, width = x.shape[-2:]
    if shift > 0:
        x = move_corners(x, random.uniform(3, 2, stream=1).mul_(2).sub_(1), shift * height)
    if alpha == 0:
        return x
    field = random.uniform(2, height, width).mul_(2).sub_(1)
    sigmas = (sigma * height, sigma * width)
    field = gaussian_blur(field, sigmas, mode="reflect", truncate=3) * (alpha * height)
    rows = torch.arange(height, device=x.device)[:, None]
    columns = torch.arange(width, device=x.device)
    return interpolate(x, field[:, 0] + rows, field[:, 1] + columns, border="reflect")


def move_corners(x: Tensor, moves: Tensor, distance: float) -> Tensor:
    """Affine map that moves three corners of a central square.

    The moves are ``distance * moves``; ``moves`` has the shape (n, 3 corners, (x, y)).
    """
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
    # The map takes the upper right corner to corner + upper; its inverse gives the source pixels.
    corner = (middle_x + half, middle_y - half)
    off_x = torch.arange(width, device=x.device) - corner[0] - upper[:, :1]
    off_y = torch.arange(height, device=x.device) - corner[1] - upper[:, 1:]
    off_x, off_y = off_x[:, None, :], off_y[:, :, None]
    a, b, c, d = (value[:, None, None] for value in (a, b, c, d))
    scale = 1 / (a * d - b * c)
    x_at = (d * off_x - b * off_y) * scale + corner[0]
    y_at = (a * off_y - c * off_x) * scale + corner[1]
    return interpolate(x, y_at.to(x.dtype), x_at.to(x.dtype), border="reflect-101")


def pixelate(x: Tensor, random: PerImageRandom, scale: float) -> Tensor:
    """Shrink by averaging over boxes, and enlarge by repeating pixels."""
    del random
    height, width = x.shape[-2:]
    # Pillow shrinks the width first, and rounds in between.
    columns, source_column = _box_matrix(width, int(width * scale), x.device)
    rows, source_row = _box_matrix(height, int(height * scale), x.device)
    small = multiply_right(x, columns).add_(0.5).floor_()
    small = multiply_left(rows, small).add_(0.5).floor_().to(x.dtype)
    return small.index_select(2, source_row).index_select(3, source_column)


@functools.lru_cache(maxsize=256)
def _box_matrix(size: int, small: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Matrix of box means, shape (small, size), and the small pixel of each large pixel."""
    scale = size / small
    middle = (np.arange(small) + 0.5) * scale
    first, end = (middle - scale / 2 + 0.5).astype(int), (middle + scale / 2 + 0.5).astype(int)
    positions = np.arange(size)
    inside = (positions >= first[:, None]) & (positions < end[:, None])
    away = (positions - middle[:, None] + 0.5) * (1 / scale)
    inside &= (away > -0.5) & (away <= 0.5)
    # Add up the steps as Pillow does: where boxes meet, the last bit decides.
    step = np.full(size, small / size)
    step[0] /= 2
    source = step.cumsum().astype(int)
    means: Array = inside / inside.sum(axis=1, keepdims=True)
    return to_device(means, device), torch.as_tensor(source, device=device)
