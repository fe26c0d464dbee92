"""Blur corruptions: defocus, glass, motion, zoom."""

from __future__ import annotations

import functools
import math

import numpy as np
import torch
from scipy import ndimage
from torch import Tensor
from torch.nn import functional

from domaincal._typing import Array
from domaincal.vision.corruptions.torch_corruptions import pixel_sampling
from domaincal.vision.corruptions.torch_corruptions.random_numbers import PerImageRandom
from domaincal.vision.corruptions.torch_corruptions.separable_filters import (
    apply_separable,
    gaussian_blur,
    to_device,
    zoom_matrix,
)


def defocus_blur(x: Tensor, random: PerImageRandom, radius: float, alias: float) -> Tensor:
    """Mean over a disk with a smoothed rim."""
    del random
    kernel = _disk_kernel(radius, alias)
    half = len(kernel) // 2
    n, channels, height, width = x.shape
    padded = functional.pad(x, (0, 0, half, half), mode="reflect")
    padded = padded.reshape(-1, height + 2 * half, width).to(torch.float64)
    blurred = padded.new_zeros(len(padded), height, width)
    for row, band in enumerate(_band_matrices(radius, alias, width, x.device)):
        # One matrix product for each row of the kernel: convolutions on a GPU round to ten bits.
        blurred.baddbmm_(padded[:, row : row + height], band.expand(len(blurred), -1, -1))
    return blurred.to(x.dtype).reshape(n, channels, height, width)


@functools.cache
def _disk_kernel(radius: float, alias: float) -> Array:
    """Kernel of a disk, without rows and columns of zeros."""
    half, ends = (8, 1) if radius <= 8 else (int(radius), 2)
    line = np.arange(-half, half + 1)
    disk = (line**2 + line[:, None] ** 2 <= radius**2).astype(np.float64)
    disk /= disk.sum()
    smooth = np.exp(-(np.arange(-ends, ends + 1) ** 2) / (2 * alias**2))
    smooth /= smooth.sum()
    for axis in (0, 1):  # "mirror" is reflect-101 of OpenCV
        disk = ndimage.correlate1d(disk, smooth, axis=axis, mode="mirror")
    cut = 0
    while disk[cut].max() < 1e-7:
        cut += 1
    return disk[cut : len(disk) - cut, cut : len(disk) - cut]


@functools.lru_cache(maxsize=64)
def _band_matrices(radius: float, alias: float, width: int, device: torch.device) -> Tensor:
    """Transposed matrix for each row of the kernel that applies it along the width."""
    eye = np.eye(width)
    bands = [
        ndimage.correlate1d(eye, row, axis=0, mode="mirror").T
        for row in _disk_kernel(radius, alias)
    ]
    return to_device(np.stack(bands), device)


def glass_blur(x: Tensor, random: PerImageRandom, sigma: float, reach: int, times: int) -> Tensor:
    """Blur, replace pixels by nearby ones, blur again."""
    n, channels, height, width = x.shape
    blurred = gaussian_blur(x, (sigma, sigma), mode="nearest", truncate=4)
    blurred = blurred.clamp_(0, 255).add_(2.0**-10).floor_()
    source = torch.arange(height * width, device=x.device).expand(n, -1)
    for time in range(times):
        shifts = [
            (random.uniform(height, width, stream=2 * time + axis) * (2 * reach)).to(torch.int64)
            - reach
            for axis in (0, 1)
        ]
        source = source.gather(1, glass_sources(shifts[0], shifts[1], reach))
    index = source + pixel_sampling.first_pixels(x)[:, None]
    moved = pixel_sampling.pixel_rows(blurred).index_select(0, index.reshape(-1))
    moved = moved.reshape(n, height, width, channels).permute(0, 3, 1, 2)
    return gaussian_blur(moved, (sigma, sigma), mode="nearest", truncate=4)


def glass_sources(down: Tensor, right: Tensor, reach: int) -> Tensor:
    """Original pixel that each pixel shows after a pass of glass blur.

    The published code visits the pixels from the last to the first. A visited pixel becomes a copy
    of the pixel that is (down, right) away. (The code means to swap the two, but overwrites one of
    them before it reads it.) That pixel may be a copy itself if it was visited before. So each
    pixel points to another pixel or to an original. Pointer doubling follows these chains to their
    ends, with the same result as visiting the pixels one by one.

    Parameters
    ----------
    down, right : tensor of int64, shape (n, height, width)
        Shifts from -reach to reach - 1; those of pixels at the border are not used.

    Returns
    -------
    tensor of int64, shape (n, height * width)
        Index into the pixels of an image.
    """
    height, width = down.shape[1:]
    count = height * width
    here = torch.arange(count, device=down.device).reshape(height, width)
    rows, columns = here // width, here % width
    visited = (rows > reach) & (rows <= height - reach)
    visited &= (columns > reach) & (columns <= width - reach)
    there = torch.where(visited, here + down * width + right, here)
    copied = visited.reshape(-1)[there] & (there > here)
    # Originals have the numbers from count on.
    pointer = torch.where(copied, there, there + count).reshape(len(down), count)
    for _ in range(math.ceil(math.log2(count))):
        beyond = pointer.gather(1, pointer.clamp(max=count - 1))
        pointer = torch.where(pointer < count, beyond, pointer)
    return pointer - count


def motion_blur(x: Tensor, random: PerImageRandom, radius: int, sigma: float) -> Tensor:
    """Blur along a line with an angle between -45 and 45 degrees."""
    degrees = random.uniform(1)[:, 0] * 90 - 45
    return pixel_sampling.motion_blur(x, radius, sigma, degrees)


def zoom_blur(x: Tensor, random: PerImageRandom, stop: float, step: float) -> Tensor:
    """Mean of the image and its enlargements."""
    del random
    height, width = x.shape[-2:]
    factors = np.arange(1, stop, step).tolist()
    total = 2 * x  # the image, and its enlargement by a factor of 1
    for factor in factors[1:]:
        rows = zoom_matrix(height, factor, x.device)[:height]
        columns = zoom_matrix(width, factor, x.device)[:width]
        layer = apply_separable(x, rows, columns)
        total[:, :, : layer.shape[2], : layer.shape[3]] += layer
    return total.div_(len(factors) + 1)
