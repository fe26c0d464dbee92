"""Noise of single pixels."""

import functools

import numpy as np
import torch
from scipy import stats
from torch import Tensor

from domaincal.vision.corruptions.torch_corruptions.random_numbers import Random


def gaussian_noise(x: Tensor, random: Random, scale: float) -> Tensor:
    """``x + scale z``, z standard normal."""
    return random.normal(*x.shape[1:]).mul_(255 * scale).add_(x)


def shot_noise(x: Tensor, random: Random, rate: float) -> Tensor:
    """``k / rate``, k of Poisson's distribution with mean ``rate x``.

    A pixel has 256 values, so the distributions are a table, and inverting it is exact. Rows of the
    table lie one behind the other, row v between v and v + 1: one search finds row and column.
    """
    edges, levels = _poisson_table(int(rate), x.device)
    place = random.uniform(*x.shape[1:]).to(torch.float64).add_(x)
    count = torch.searchsorted(edges, place, right=True)
    return levels[count.sub_(x.to(torch.int64).mul_(len(levels)))]


def impulse_noise(x: Tensor, random: Random, amount: float) -> Tensor:
    """Black or white, each with probability ``amount / 2``; every channel on its own."""
    u = random.uniform(*x.shape[1:])
    return x.masked_fill(u <= amount, 0.0).masked_fill_(u <= amount / 2, 255.0)


@functools.lru_cache(maxsize=32)
def _poisson_table(rate: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Edges v + P(count <= k | v), and the grey level of each count k; k >= rate is white."""
    values = np.arange(256)[:, None]
    below = stats.poisson.cdf(np.arange(rate), values * rate / 255)
    edges = np.hstack([values + below, values + 1.0])
    levels = np.arange(rate + 1) / rate * 255
    return (
        torch.as_tensor(edges.ravel(), device=device),
        torch.as_tensor(levels.astype(np.float32), device=device),
    )
