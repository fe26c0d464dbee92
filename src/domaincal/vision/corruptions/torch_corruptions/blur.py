"""Blurs."""

import functools
import math

import numpy as np
import torch
from scipy import ndimage
from torch import Tensor
from torch.nn import functional

from domaincal._typing import Array
from domaincal.vision.corruptions.torch_corruptions import linear
from domaincal.vision.corruptions.torch_corruptions.random_numbers import Random


def defocus_blur(x: Tensor, random: Random, radius: float, alias: float) -> Tensor:
    """The mean over a disk, whose rim is smoothed."""
    del random
    kernel = _disk(radius, alias)
    half = len(kernel) // 2
    n, channels, height, width = x.shape
    padded = functional.pad(x, (0, 0, half, half), mode="reflect")
    padded = padded.reshape(-1, height + 2 * half, width).to(torch.float64)
    made = padded.new_zeros(len(padded), height, width)
    for row, band in enumerate(_bands(radius, alias, width, x.device)):
        # A matrix for each row of the kernel: convolutions on a GPU round to ten bits.
        made.baddbmm_(padded[:, row : row + height], band.expand(len(made), -1, -1))
    return made.to(x.dtype).reshape(n, channels, height, width)


@functools.cache
def _disk(radius: float, alias: float) -> Array:
    """The kernel, without rows and columns of zeros."""
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
def _bands(radius: float, alias: float, width: int, device: torch.device) -> Tensor:
    """For each row of the kernel, the transposed matrix that applies it along the width."""
    eye = np.eye(width)
    bands = [ndimage.correlate1d(eye, row, axis=0, mode="mirror").T for row in _disk(radius, alias)]
    return linear.on_device(np.stack(bands), device)


def glass_blur(x: Tensor, random: Random, sigma: float, reach: int, times: int) -> Tensor:
    """Blur, take pixels from nearby, blur."""
    n, channels, height, width = x.shape
    blurred = linear.gaussian_blur(x, (sigma, sigma), mode="nearest", truncate=4)
    blurred = blurred.clamp_(0, 255).add_(2.0**-10).floor_()
    source = torch.arange(height * width, device=x.device).expand(n, -1)
    for time in range(times):
        shifts = [
            (random.uniform(height, width, stream=2 * time + axis) * (2 * reach)).to(torch.int64)
            - reach
            for axis in (0, 1)
        ]
        source = source.gather(1, sources(shifts[0], shifts[1], reach))
    first = torch.arange(n, device=x.device)[:, None] * (height * width)
    moved = linear.pixels_of(blurred).index_select(0, (source + first).reshape(-1))
    moved = moved.reshape(n, height, width, channels).permute(0, 3, 1, 2)
    return linear.gaussian_blur(moved, (sigma, sigma), mode="nearest", truncate=4)


def sources(down: Tensor, right: Tensor, reach: int) -> Tensor:
    """Where each pixel comes from, after all have been visited from the last to the first.

    A pixel that is visited becomes a copy of one nearby, (down, right) away. (The published code
    means to swap the two, but overwrites one of them before it is read.) One that was visited
    before is a copy itself; so each pixel points to another, or to an original, and following the
    pointers to their ends, twice as far each time, gives what visiting one by one gives.

    Parameters
    ----------
    down, right : tensor of int64, shape (n, height, width)
        From -reach to reach - 1; those of pixels beside the border are not used.

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
    # Originals are numbered from count on.
    pointer = torch.where(copied, there, there + count).reshape(len(down), count)
    for _ in range(math.ceil(math.log2(count))):
        beyond = pointer.gather(1, pointer.clamp(max=count - 1))
        pointer = torch.where(pointer < count, beyond, pointer)
    return pointer - count


def motion_blur(x: Tensor, random: Random, radius: int, sigma: float) -> Tensor:
    """Along a line of -45 to 45 degrees."""
    degrees = random.uniform(1)[:, 0] * 90 - 45
    return linear.motion_blur(x, radius, sigma, degrees)


def zoom_blur(x: Tensor, random: Random, stop: float, step: float) -> Tensor:
    """The mean of the image and its enlargements."""
    del random
    height, width = x.shape[-2:]
    factors = np.arange(1, stop, step).tolist()
    made = 2 * x  # itself, and its enlargement by 1
    for factor in factors[1:]:
        rows = linear.zoom_matrix(height, factor, x.device)[:height]
        columns = linear.zoom_matrix(width, factor, x.device)[:width]
        layer = linear.separable(x, rows, columns)
        made[:, :, : layer.shape[2], : layer.shape[3]] += layer
    return made.div_(len(factors) + 1)
