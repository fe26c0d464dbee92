"""JPEG compression with the arithmetic of libjpeg: 4:2:0, standard tables, smooth chroma."""

from __future__ import annotations

import functools

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from domaincal.vision.corruptions.torch_corruptions.random_numbers import PerImageRandom
from domaincal.vision.corruptions.torch_corruptions.separable_filters import (
    apply_separable,
    to_device,
)

# Quantisation tables of annex K of the standard.
_LUMINANCE = (
    (16, 11, 10, 16, 24, 40, 51, 61),
    (12, 12, 14, 19, 26, 58, 60, 55),
    (14, 13, 16, 24, 40, 57, 69, 56),
    (14, 17, 22, 29, 51, 87, 80, 62),
    (18, 22, 37, 56, 68, 109, 103, 77),
    (24, 35, 55, 64, 81, 104, 113, 92),
    (49, 64, 78, 87, 103, 121, 120, 101),
    (72, 92, 95, 98, 112, 100, 103, 99),
)
_CHROMINANCE = (
    (17, 18, 24, 47, 99, 99, 99, 99),
    (18, 21, 26, 66, 99, 99, 99, 99),
    (24, 26, 56, 99, 99, 99, 99, 99),
    (47, 66, 99, 99, 99, 99, 99, 99),
    (99, 99, 99, 99, 99, 99, 99, 99),
    (99, 99, 99, 99, 99, 99, 99, 99),
    (99, 99, 99, 99, 99, 99, 99, 99),
    (99, 99, 99, 99, 99, 99, 99, 99),
)
# Offset that rounds halves up even if rounding errors have made them slightly smaller.
_HALF = 0.5 + 2.0**-12


def jpeg_compression(x: Tensor, random: PerImageRandom, quality: int) -> Tensor:
    """Compress and decompress the images."""
    del random
    height, width = x.shape[-2:]
    red, green, blue = x.unbind(1)
    luma = _round(0.299 * red + 0.587 * green + 0.114 * blue)
    chroma = torch.stack([
        _round(-0.168735892 * red - 0.331264108 * green + 0.5 * blue + 128),
        _round(0.5 * red - 0.418687589 * green - 0.081312411 * blue + 128),
    ], dim=1)  # fmt: skip
    luma = _quantise(_pad(luma[:, None], 16, 16), quality, chroma=False)[:, 0, :height, :width]
    small = _halve(_pad(chroma, 2, 16))
    small = _quantise(_pad(small, 8, 8), quality, chroma=True)
    small = small[:, :, : (height + 1) // 2, : (width + 1) // 2]
    blue_part, red_part = (_double(small)[:, :, :height, :width] - 128).unbind(1)
    return torch.stack([
        luma + _round(1.402 * red_part),
        luma + _round(-0.344136286 * blue_part - 0.714136286 * red_part),
        luma + _round(1.772 * blue_part),
    ], dim=1)  # fmt: skip


def _round(x: Tensor) -> Tensor:
    return (x + _HALF).floor_()


def _pad(x: Tensor, rows: int, columns: int) -> Tensor:
    """Repeat the last row and column until the sides are multiples of ``rows`` and ``columns``."""
    height, width = x.shape[-2:]
    return functional.pad(x, (0, -width % columns, 0, -height % rows), mode="replicate")


def _halve(x: Tensor) -> Tensor:
    """Means of 2 x 2 pixels; halves are rounded down and up in turn, to avoid a drift."""
    sums = x[:, :, ::2, ::2] + x[:, :, 1::2, ::2] + x[:, :, ::2, 1::2] + x[:, :, 1::2, 1::2]
    bias = torch.arange(sums.shape[-1], device=x.device) % 2 + 1
    return ((sums + bias) / 4).floor_()


def _double(x: Tensor) -> Tensor:
    """Enlarge by 2: along each axis, 3/4 of the pixel and 1/4 of its neighbour."""
    n, channels, height, width = x.shape
    edged = functional.pad(x, (0, 0, 1, 1), mode="replicate")
    rows = torch.stack([3 * x + edged[:, :, :-2], 3 * x + edged[:, :, 2:]], dim=3)
    rows = rows.reshape(n, channels, 2 * height, width)
    edged = functional.pad(rows, (1, 1, 0, 0), mode="replicate")
    left = (3 * rows + edged[..., :-2] + 8).div_(16).floor_()
    right = (3 * rows + edged[..., 2:] + 7).div_(16).floor_()
    return torch.stack([left, right], dim=4).reshape(n, channels, 2 * height, 2 * width)


def _quantise(x: Tensor, quality: int, *, chroma: bool) -> Tensor:
    """Round the cosine coefficients of 8 x 8 blocks to multiples of the table's entries."""
    height, width = x.shape[-2:]
    rows, columns = _cosine_matrix(height, x.device), _cosine_matrix(width, x.device)
    table = _quantisation_table(quality, chroma, x.device).repeat(height // 8, width // 8)
    # libjpeg stores the coefficients in eighths when it quantises them.
    eighths = _round(apply_separable(x - 128, rows, columns).mul_(8))
    counts = (eighths.abs() / (8 * table)).add_(_HALF).floor_()
    decoded = apply_separable(counts.mul_(table).mul_(eighths.sign()), rows.T, columns.T)
    return _round(decoded.add_(128)).clamp_(0, 255)


@functools.lru_cache(maxsize=64)
def _cosine_matrix(size: int, device: torch.device) -> Tensor:
    """Matrix of the cosine transform of each block of 8 pixels."""
    k = np.arange(8)
    block = np.cos(np.pi * (2 * k + 1) * k[:, None] / 16) / 2
    block[0] /= np.sqrt(2)
    return to_device(np.kron(np.eye(size // 8), block), device)


@functools.lru_cache(maxsize=64)
def _quantisation_table(quality: int, chroma: bool, device: torch.device) -> Tensor:
    scale = 5000 // quality if quality < 50 else 200 - 2 * quality
    base = np.array(_CHROMINANCE if chroma else _LUMINANCE)
    return to_device(np.clip((base * scale + 50) // 100, 1, 255), device)
