"""Random numbers that depend on an image and a place in it, on nothing else.

A number is the hash (splitmix64) of the image's key and a counter. So it is the same on every
device, for any company in the batch and for any division into batches, which a generator that
hands out one number after the other cannot give.
"""

import hashlib
import math

import torch
from torch import Tensor

# Of splitmix64, as signed numbers, since torch multiplies those; they wrap around alike.
_GAMMA = 0x9E3779B97F4A7C15 - (1 << 64)
_FIRST = 0xBF58476D1CE4E5B9 - (1 << 64)
_SECOND = 0x94D049BB133111EB - (1 << 64)
# Streams of one image are this far apart: more numbers than any image takes.
_STREAM = 1 << 40


class Random:
    """Random numbers of n images.

    Parameters
    ----------
    images : tensor of uint8, shape (n, height, width, 3)
    salt : int
        What else the numbers depend on, 64 bits; see :func:`salt_of`.
    """

    def __init__(self, images: Tensor, salt: int) -> None:
        pixels = images.reshape(len(images), -1).to(torch.int64)
        weights = _mixed(_counters(pixels.shape[1], 0, images.device))
        # A sum of integers that wraps around has no order: any device gives the same.
        self._keys = _mixed(pixels.mul_(weights).sum(dim=1) + salt)

    def uniform(self, *shape: int, stream: int = 0) -> Tensor:
        """Between 0 and 1, both excluded; shape (n, *shape)."""
        count = math.prod(shape)
        both = torch.cat(self._halves((count + 1) // 2, stream), dim=1)
        return both[:, :count].reshape(-1, *shape)

    def normal(self, *shape: int, stream: int = 0) -> Tensor:
        """Standard normal numbers, by Box and Muller; shape (n, *shape)."""
        count = math.prod(shape)
        u, v = self._halves((count + 1) // 2, stream)
        radius = u.log_().mul_(-2).sqrt_()
        angle = v.mul_(2 * math.pi)
        both = torch.cat([radius * angle.cos(), radius * angle.sin()], dim=1)
        return both[:, :count].reshape(-1, *shape)

    def _halves(self, count: int, stream: int) -> tuple[Tensor, Tensor]:
        """Two uniform numbers out of each of ``count`` hashes."""
        bits = _counters(count, stream * _STREAM, self._keys.device)
        bits = _mixed(bits + self._keys[:, None])
        return _unit(bits >> 41), _unit(bits >> 9)


def salt_of(*parts: object) -> int:
    """One signed number of 64 bits for some values."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def _counters(count: int, first: int, device: torch.device) -> Tensor:
    return torch.arange(first + 1, first + 1 + count, device=device).mul_(_GAMMA)


def _mixed(bits: Tensor) -> Tensor:
    """The finisher of splitmix64, in place. Shifts of torch keep the sign, so it is masked."""
    bits ^= (bits >> 30).bitwise_and_((1 << 34) - 1)
    bits *= _FIRST
    bits ^= (bits >> 27).bitwise_and_((1 << 37) - 1)
    bits *= _SECOND
    bits ^= (bits >> 31).bitwise_and_((1 << 33) - 1)
    return bits


def _unit(bits: Tensor) -> Tensor:
    """The middles of 2**23 equal parts of (0, 1): all of them are exact in float32."""
    return bits.bitwise_and_((1 << 23) - 1).to(torch.float32).add_(0.5).mul_(2.0**-23)
