"""Resize, crop and normalise images for a network."""

from __future__ import annotations

import functools
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from domaincal._optional import require
from domaincal._typing import Array
from domaincal._validation import check_count, check_option
from domaincal.errors import InputError
from domaincal.vision.networks.header import MAX_SIDE

# Smallest fraction of an image that is kept: another one is resized to side / crop px.
_MIN_CROP = 0.25
# Longer images are cropped while they are resized, so that they take no more memory than others.
_LONG = 8


@dataclass(frozen=True)
class Preprocessing:
    """Parameters that turn an image of any size into the input of a network.

    Pillow resizes the shorter side to ``side / crop`` px and crops the central ``side x side`` px,
    both in 8 bits. The mean is subtracted and the standard deviation divided out on the network's
    device. An image that already has the right size is not resized.

    Attributes
    ----------
    side : int
        Side of the network's input in px, at most 4096.
    crop : float
        Fraction of the shorter side that is kept, from 0.25 to 1.
    interpolation : {"bilinear", "bicubic"}
    mean, std : (red, green, blue)
        Mean and standard deviation of pixels in [0, 1].

    Examples
    --------
    >>> import numpy as np
    >>> Preprocessing(side=64).resize_and_crop(np.zeros((100, 80, 3), np.uint8)).shape
    (64, 64, 3)
    """

    side: int = 224
    crop: float = 1.0
    interpolation: Literal["bilinear", "bicubic"] = "bicubic"
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: tuple[float, float, float] = (0.229, 0.224, 0.225)

    def __post_init__(self) -> None:
        check_side(self.side)
        check_option(self.interpolation, "interpolation", ("bilinear", "bicubic"))
        for name, values in (("mean", self.mean), ("std", self.std)):
            if np.shape(values) != (3,) or not np.isfinite(np.array(values, float)).all():
                raise InputError(
                    f"{name} must be three numbers, for red, green and blue, got {values!r}."
                )
        if min(self.std) <= 0:
            raise InputError(f"std must be above 0, got {self.std!r}; pixels are divided by it.")
        if not _MIN_CROP <= self.crop <= 1:
            raise InputError(f"crop must be in [{_MIN_CROP}, 1], got {self.crop!r}.")

    @classmethod
    def from_timm(cls, config: dict[str, Any], *, side: int | None = None) -> Preprocessing:
        """Preprocessing of a network of timm. With another ``side``, images are not cropped."""
        default_side = int(config["input_size"][-1])
        known = config["interpolation"] in ("bilinear", "bicubic")
        return cls(
            side=side or default_side,
            crop=float(config["crop_pct"]) if side in (None, default_side) else 1.0,
            interpolation=config["interpolation"] if known else "bicubic",
            mean=tuple(config["mean"]),
            std=tuple(config["std"]),
        )

    def resize_and_crop(self, image: Array) -> Array:
        """Resize and crop an image, uint8 of shape (height, width, 3), to (side, side, 3)."""
        height, width = image.shape[:2]
        if (height, width) == (self.side, self.side):
            return image
        module = require("PIL.Image", extra="torch", purpose="resizing images")
        shorter, target = min(height, width), int(self.side / self.crop)
        size = (target * width // shorter, target * height // shorter)
        method = getattr(module.Resampling, self.interpolation.upper())
        left, top = (round((length - self.side) / 2) for length in size)
        crop = (left, top, left + self.side, top + self.side)
        if max(size) > _LONG * target:
            scale = (width / size[0], height / size[1]) * 2
            box = tuple(a * b for a, b in zip(crop, scale, strict=True))
            return np.asarray(
                module.fromarray(image).resize((self.side, self.side), method, box=box)
            )
        return np.asarray(module.fromarray(image).resize(size, method).crop(crop))

    def normalise(self, images: Tensor) -> Tensor:
        """Normalise images, uint8 of shape (n, side, side, 3), to float32 (n, 3, side, side)."""
        mean, std = _on_device((self.mean, self.std), images.device) * 255
        # Channels stay last in memory, the layout of the fast convolutions.
        normalised: Tensor = (images.float() - mean) / std
        return normalised.permute(0, 3, 1, 2)

    def to_dict(self) -> dict[str, Any]:
        """Fields as JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Preprocessing:
        """Preprocessing from the result of :meth:`to_dict`; all fields must be present."""
        missing = [f.name for f in fields(cls) if f.name not in values]
        if missing:
            raise ValueError(f"the preprocessing has no {missing[0]!r}")
        return cls(**{**values, "mean": tuple(values["mean"]), "std": tuple(values["std"])})


def check_side(side: int) -> None:
    """Raise an error unless the side of images is a whole number from 1 to ``MAX_SIDE``."""
    check_count(side, "side", minimum=1)
    if side > MAX_SIDE:
        raise InputError(f"side must be at most {MAX_SIDE} px, got {side}.")


@functools.lru_cache(maxsize=16)
def _on_device(values: tuple[tuple[float, ...], ...], device: torch.device) -> Tensor:
    """Values as a cached tensor: sending them with every batch would make a GPU wait."""
    with torch.inference_mode(False):  # later callers may need gradients
        return torch.tensor(values, device=device)
