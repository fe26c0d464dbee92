"""Noise corruptions: Gaussian, shot, impulse."""

from __future__ import annotations

import functools

import numpy as np
import torch
from scipy import stats
from torch import Tensor

from domaincal.vision.corruptions.torch_corruptions.random_numbers import PerImageRandom


def gaussian_noise(x: Tensor, random: PerImageRandom, scale: float) -> Tensor:
    """``x + scale z`` with standard normal z."""
    return random.normal(*x.shape[1:]).mul_(255 * scale).add_(x)


def shot_noise(x: Tensor, random: PerImageRandom, rate: float) -> Tensor:
    """``k / rate`` with a Poisson count k of mean ``rate x``.

    A pixel has 256 values, so that a table of the distribution functions makes inversion sampling
    exact. The table is one sorted array, with row v between v and v + 1: one search finds the row
    and the column.
    """
    edges, levels = _poisson_table(int(rate), x.device)
    position = random.uniform(*x.shape[1:]).to(torch.float64).add_(x)
    count = torch.searchsorted(edges, position, right=True)
    return levels[count.sub_(x.to(torch.int64).mul_(len(levels)))]


def impulse_noise(x: Tensor, random: PerImageRandom, amount: float) -> Tensor:
    """Set each channel of a pixel to 0 or 255, each with probability ``amount / 2``."""
    u = random.uniform(*x.shape[1:])
    return x.masked_fill(u <= amount, 0.0).masked_fill_(u <= amount / 2, 255.0)


@functools.lru_cache(maxsize=32)
def _poisson_table(rate: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Edges v + P(count <= k | v), and the grey level of each count k; 255 for k >= rate."""
    values = np.arange(256)[:, None]
    below = stats.poisson.cdf(np.arange(rate), values * rate / 255)
    edges = np.hstack([values + below, values + 1.0])
    levels = np.arange(rate + 1) / rate * 255
    return (
        torch.as_tensor(edges.ravel(), device=device),
        torch.as_tensor(levels.astype(np.float32), device=device),
    )
