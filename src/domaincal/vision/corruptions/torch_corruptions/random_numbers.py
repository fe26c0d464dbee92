"""Random numbers that depend only on an image and a position in it.

A number is the splitmix64 hash of the image's key and a counter. So it is the same on every device
and for every batch. A sequential generator cannot give that.
"""

from __future__ import annotations

import hashlib
import math

import torch
from torch import Tensor

# Constants of splitmix64 as signed integers, because torch does not multiply unsigned ones of 64
# bits. Both wrap around in the same way.
_GAMMA = 0x9E3779B97F4A7C15 - (1 << 64)
_FIRST = 0xBF58476D1CE4E5B9 - (1 << 64)
_SECOND = 0x94D049BB133111EB - (1 << 64)
# Distance between the streams of an image: more numbers than any image needs.
_STREAM = 1 << 40


class PerImageRandom:
    """Random numbers of n images, which depend on the pixels of each image.

    Parameters
    ----------
    images : tensor of uint8, shape (n, height, width, 3)
    salt : int
        Signed integer of 64 bits that the numbers also depend on; see :func:`stable_hash`.
    """

    def __init__(self, images: Tensor, salt: int) -> None:
        pixels = images.reshape(len(images), -1).to(torch.int64)
        weights = _mix(_counters(pixels.shape[1], 0, images.device))
        # A sum of integers that wraps around does not depend on the order: all devices agree.
        self._keys = _mix(pixels.mul_(weights).sum(dim=1) + salt)

    def uniform(self, *shape: int, stream: int = 0) -> Tensor:
        """Uniform numbers in the open interval (0, 1), shape (n, *shape)."""
        count = math.prod(shape)
        numbers = torch.cat(self._uniform_pairs((count + 1) // 2, stream), dim=1)
        return numbers[:, :count].reshape(-1, *shape)

    def normal(self, *shape: int, stream: int = 0) -> Tensor:
        """Standard normal numbers by the Box-Muller transform, shape (n, *shape)."""
        count = math.prod(shape)
        u, v = self._uniform_pairs((count + 1) // 2, stream)
        radius = u.log_().mul_(-2).sqrt_()
        angle = v.mul_(2 * math.pi)
        numbers = torch.cat([radius * angle.cos(), radius * angle.sin()], dim=1)
        return numbers[:, :count].reshape(-1, *shape)

    def _uniform_pairs(self, count: int, stream: int) -> tuple[Tensor, Tensor]:
        """Two uniform numbers from each of ``count`` hashes."""
        bits = _counters(count, stream * _STREAM, self._keys.device)
        bits = _mix(bits + self._keys[:, None])
        return _to_unit_interval(bits >> 41), _to_unit_interval(bits >> 9)


def stable_hash(*parts: object) -> int:
    """Hash of some values as a signed integer of 64 bits, the same in every process."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def _counters(count: int, first: int, device: torch.device) -> Tensor:
    return torch.arange(first + 1, first + 1 + count, device=device).mul_(_GAMMA)


def _mix(bits: Tensor) -> Tensor:
    """Apply the finaliser of splitmix64 in place.

    The masks turn torch's arithmetic shifts, which copy the sign, into logical ones.
    """
    bits ^= (bits >> 30).bitwise_and_((1 << 34) - 1)
    bits *= _FIRST
    bits ^= (bits >> 27).bitwise_and_((1 << 37) - 1)
    bits *= _SECOND
    bits ^= (bits >> 31).bitwise_and_((1 << 33) - 1)
    return bits


def _to_unit_interval(bits: Tensor) -> Tensor:
    """Midpoints of 2**23 equal parts of (0, 1); each is exact in float32."""
    return bits.bitwise_and_((1 << 23) - 1).to(torch.float32).add_(0.5).mul_(2.0**-23)
