"""Read pixels of images at shifted or fractional positions."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from torch import Tensor


def pixel_rows(x: Tensor) -> Tensor:
    """All pixels of all images, shape (n * height * width, channels), to select by one index."""
    return x.permute(0, 2, 3, 1).contiguous().reshape(-1, x.shape[1])


def first_pixels(x: Tensor) -> Tensor:
    """Row of the first pixel of each image in :func:`pixel_rows`, shape (n,)."""
    n, _, height, width = x.shape
    return torch.arange(n, device=x.device) * (height * width)


def motion_blur(x: Tensor, radius: int, sigma: float, degrees: Tensor) -> Tensor:
    """Mean of the image and its shifts along a line, with Gaussian weights.

    ``degrees`` contains one angle for each image. Outside the image its border is repeated. Shifts
    by more than the size of the image are left out, and their weights are not redistributed.
    """
    n, channels, height, width = x.shape
    steps = np.arange(2 * radius + 1)
    weights = np.exp(-(steps**2) / (2 * sigma**2))
    weights /= weights.sum()
    steps = steps[weights > 1e-7]  # the others add less than a hundredth of a grey level
    angle = torch.deg2rad(degrees.to(torch.float64))
    pixels = pixel_rows(x)
    blurred = pixels.new_zeros(n, height * width * channels)
    rows = torch.arange(height, device=x.device)
    columns = torch.arange(width, device=x.device)
    first = first_pixels(x)[:, None]
    for step in steps.tolist():
        down = torch.ceil(step * angle.sin() - 0.5).to(torch.int64)[:, None]
        right = torch.ceil(step * angle.cos() - 0.5).to(torch.int64)[:, None]
        inside = (down.abs() < height) & (right.abs() < width)
        source_row = (rows + down).clamp_(0, height - 1).mul_(width).add_(first)
        source_column = (columns + right).clamp_(0, width - 1)
        index = (source_row[:, :, None] + source_column[:, None, :]).reshape(-1)
        shifted = pixels.index_select(0, index).reshape(n, -1)
        blurred.addcmul_(shifted, inside.to(x.dtype) * float(weights[step]))
    return blurred.reshape(n, height, width, channels).permute(0, 3, 1, 2)


def interpolate(
    x: Tensor, y_at: Tensor, x_at: Tensor, *, border: Literal["reflect", "reflect-101"]
) -> Tensor:
    """Bilinear interpolation at positions in px, of shape (n, height, width).

    Outside the image it is mirrored: "reflect" repeats the pixels of the border, "reflect-101"
    does not.
    """
    n, channels, height, width = x.shape
    pixels = pixel_rows(x)
    first = first_pixels(x)[:, None, None]
    top, left = y_at.floor(), x_at.floor()
    down, right = y_at - top, x_at - left
    values = torch.zeros_like(pixels)
    for row, row_weight in ((0, 1 - down), (1, down)):
        source_row = _mirror(top.to(torch.int64) + row, height, border).mul_(width).add_(first)
        for column, column_weight in ((0, 1 - right), (1, right)):
            source_column = _mirror(left.to(torch.int64) + column, width, border)
            taken = pixels.index_select(0, (source_row + source_column).reshape(-1))
            values.addcmul_(taken, (row_weight * column_weight).reshape(-1, 1))
    return values.reshape(n, height, width, channels).permute(0, 3, 1, 2)


def _mirror(index: Tensor, size: int, border: str) -> Tensor:
    """Index in 0 to size - 1 of a position that may be outside the image."""
    last = 2 * size - 1 if border == "reflect" else 2 * size - 2
    index = index.remainder(2 * size if border == "reflect" else last)
    return torch.minimum(index, last - index)
