"""Blurs and zooms as matrices, and reading an image between and beside its pixels.

A separable operation on an image X of (height, width) is ``A X B'``. The matrices are what scipy
does to the identity, so borders and rounding of sizes are scipy's. They are kept on their device.
"""

import functools
import math
from typing import Literal

import numpy as np
import torch
from scipy import ndimage
from torch import Tensor

from domaincal._typing import Array

Border = Literal["nearest", "reflect"]


def separable(x: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """``rows X columns'`` of every image and channel, as float32."""
    return across(down(x, rows), columns).to(torch.float32)


def down(x: Tensor, rows: Tensor) -> Tensor:
    """``rows X``, as float64.

    One product for each image, all of the same size, rather than a large one for all of them:
    the sums of an image are then done in the same order whatever its company. In float64, which
    neither autocast nor the settings for TF32 and bfloat16 make coarse.
    """
    flat = x.reshape(-1, *x.shape[-2:]).to(torch.float64)
    made = torch.bmm(rows.expand(len(flat), -1, -1), flat)
    return made.reshape(*x.shape[:-2], *made.shape[-2:])


def across(x: Tensor, columns: Tensor) -> Tensor:
    """``X columns'``, as float64; like :func:`down`."""
    flat = x.reshape(-1, *x.shape[-2:]).to(torch.float64)
    made = torch.bmm(flat, columns.T.expand(len(flat), -1, -1))
    return made.reshape(*x.shape[:-2], *made.shape[-2:])


def gaussian_blur(
    x: Tensor, sigma: tuple[float, float], *, mode: Border, truncate: float
) -> Tensor:
    """Blur with ``sigma`` px along height and width."""
    height, width = x.shape[-2:]
    rows = _gaussian_matrix(height, sigma[0], mode, truncate, x.device)
    columns = _gaussian_matrix(width, sigma[1], mode, truncate, x.device)
    return separable(x, rows, columns)


@functools.lru_cache(maxsize=256)
def _gaussian_matrix(
    size: int, sigma: float, mode: Border, truncate: float, device: torch.device
) -> Tensor:
    eye = np.eye(size)
    if sigma > 0:
        eye = ndimage.gaussian_filter1d(eye, sigma, axis=0, mode=mode, truncate=truncate)
    return on_device(eye, device)


@functools.lru_cache(maxsize=1024)
def zoom_matrix(size: int, factor: float, device: torch.device) -> Tensor:
    """Cut out the middle, ``size / factor`` of it, and enlarge that to ``size`` or a bit more."""
    kept = math.ceil(size / factor)
    start = (size - kept) // 2
    eye = np.eye(size)[start : start + kept]
    return on_device(ndimage.zoom(eye, (factor, 1), order=1), device)


def on_device(values: Array, device: torch.device) -> Tensor:
    """As float64."""
    return torch.as_tensor(values.astype(np.float64), device=device)


def pixels_of(x: Tensor) -> Tensor:
    """All pixels of all images, shape (n * height * width, channels): one index takes a pixel."""
    return x.permute(0, 2, 3, 1).contiguous().reshape(-1, x.shape[1])


def motion_blur(x: Tensor, radius: int, sigma: float, degrees: Tensor) -> Tensor:
    """The mean of the image and its shifts along a line, with weights that fall as a Gaussian.

    ``degrees`` has one angle for each image. Beside the image its border is repeated. A shift by
    more than the image ends the line, and its weight is lost.
    """
    n, channels, height, width = x.shape
    steps = np.arange(2 * radius + 1)
    weights = np.exp(-(steps**2) / (2 * sigma**2))
    weights /= weights.sum()
    steps = steps[weights > 1e-7]  # the others together are not a hundredth of a grey level
    angle = torch.deg2rad(degrees.to(torch.float64))
    pixels = pixels_of(x)
    made = pixels.new_zeros(n, height * width * channels)
    rows = torch.arange(height, device=x.device)
    columns = torch.arange(width, device=x.device)
    first = torch.arange(n, device=x.device)[:, None] * (height * width)
    for step in steps.tolist():
        down = torch.ceil(step * angle.sin() - 0.5).to(torch.int64)[:, None]
        right = torch.ceil(step * angle.cos() - 0.5).to(torch.int64)[:, None]
        inside = (down.abs() < height) & (right.abs() < width)
        from_row = (rows + down).clamp_(0, height - 1).mul_(width).add_(first)
        from_column = (columns + right).clamp_(0, width - 1)
        index = (from_row[:, :, None] + from_column[:, None, :]).reshape(-1)
        shifted = pixels.index_select(0, index).reshape(n, -1)
        made.addcmul_(shifted, inside.to(x.dtype) * float(weights[step]))
    return made.reshape(n, height, width, channels).permute(0, 3, 1, 2)


def read_between(
    x: Tensor, y_at: Tensor, x_at: Tensor, *, border: Literal["reflect", "reflect-101"]
) -> Tensor:
    """Bilinear interpolation at places of shape (n, height, width), in px.

    Beside the image it is mirrored: "reflect" repeats the pixels of the border, "reflect-101"
    does not.
    """
    n, channels, height, width = x.shape
    pixels = pixels_of(x)
    first = torch.arange(n, device=x.device)[:, None, None] * (height * width)
    top, left = y_at.floor(), x_at.floor()
    down, right = y_at - top, x_at - left
    made = torch.zeros_like(pixels)
    for row, row_weight in ((0, 1 - down), (1, down)):
        from_row = _mirrored(top.to(torch.int64) + row, height, border).mul_(width).add_(first)
        for column, column_weight in ((0, 1 - right), (1, right)):
            from_column = _mirrored(left.to(torch.int64) + column, width, border)
            taken = pixels.index_select(0, (from_row + from_column).reshape(-1))
            made.addcmul_(taken, (row_weight * column_weight).reshape(-1, 1))
    return made.reshape(n, height, width, channels).permute(0, 3, 1, 2)


def _mirrored(index: Tensor, size: int, border: str) -> Tensor:
    """Places in 0 to size - 1."""
    last = 2 * size - 1 if border == "reflect" else 2 * size - 2
    index = index.remainder(2 * size if border == "reflect" else last)
    return torch.minimum(index, last - index)
