"""Separable filters (Gaussian blur, zoom) as products with two matrices.

A separable operation on an image X of shape (height, width) is ``A X B'``. The matrices are the
results of scipy's filters on the identity, so that borders and the rounding of sizes are scipy's.
They are cached on their device.
"""

from __future__ import annotations

import functools
import math
from typing import Literal

import numpy as np
import torch
from scipy import ndimage
from torch import Tensor

from domaincal._typing import Array

Border = Literal["nearest", "reflect"]


def apply_separable(x: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """``rows X columns'`` of every image and channel, as float32."""
    return multiply_right(multiply_left(rows, x), columns).to(torch.float32)


def multiply_left(rows: Tensor, x: Tensor) -> Tensor:
    """``rows X`` of every image and channel, as float64.

    There is one product for each image, all of the same size, rather than a large one: the sums of
    an image then have the same order in every batch. float64 is not affected by autocast, nor by
    the settings for TF32 and bfloat16.
    """
    flat = x.reshape(-1, *x.shape[-2:]).to(torch.float64)
    product = torch.bmm(rows.expand(len(flat), -1, -1), flat)
    return product.reshape(*x.shape[:-2], *product.shape[-2:])


def multiply_right(x: Tensor, columns: Tensor) -> Tensor:
    """``X columns'`` of every image and channel, as float64; see :func:`multiply_left`."""
    flat = x.reshape(-1, *x.shape[-2:]).to(torch.float64)
    product = torch.bmm(flat, columns.T.expand(len(flat), -1, -1))
    return product.reshape(*x.shape[:-2], *product.shape[-2:])


def gaussian_blur(
    x: Tensor, sigma: tuple[float, float], *, mode: Border, truncate: float
) -> Tensor:
    """Gaussian blur with ``sigma`` px along the height and the width."""
    height, width = x.shape[-2:]
    rows = _gaussian_matrix(height, sigma[0], mode, truncate, x.device)
    columns = _gaussian_matrix(width, sigma[1], mode, truncate, x.device)
    return apply_separable(x, rows, columns)


@functools.lru_cache(maxsize=256)
def _gaussian_matrix(
    size: int, sigma: float, mode: Border, truncate: float, device: torch.device
) -> Tensor:
    matrix = np.eye(size)
    if sigma > 0:
        matrix = ndimage.gaussian_filter1d(matrix, sigma, axis=0, mode=mode, truncate=truncate)
    return to_device(matrix, device)


@functools.lru_cache(maxsize=1024)
def zoom_matrix(size: int, factor: float, device: torch.device) -> Tensor:
    """Matrix that crops the central ``size / factor`` px and enlarges them.

    The result has ``size`` rows or slightly more.
    """
    kept = math.ceil(size / factor)
    start = (size - kept) // 2
    crop = np.eye(size)[start : start + kept]
    return to_device(ndimage.zoom(crop, (factor, 1), order=1), device)


def to_device(values: Array, device: torch.device) -> Tensor:
    """Array as a float64 tensor on a device."""
    return torch.as_tensor(values.astype(np.float64), device=device)
