"""What a network expects of images: the side, the part that it sees, the mean and the spread."""

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


@dataclass(frozen=True)
class Preprocessing:
    """From an image of any size to what a network takes.

    The shorter side is brought to ``side / crop`` px and the middle ``side x side`` px are cut out,
    in 8 bits, as Pillow does it; the mean and the spread are taken out on the network's device. An
    image that has the right size already is taken as it is.

    Attributes
    ----------
    side : int
    crop : float
        Part of the shorter side that is seen.
    interpolation : {"bilinear", "bicubic"}
    mean, std : (red, green, blue)
        Of pixels in [0, 1].

    Examples
    --------
    >>> import numpy as np
    >>> Preprocessing(side=64).cut(np.zeros((100, 80, 3), np.uint8)).shape
    (64, 64, 3)
    """

    side: int = 224
    crop: float = 1.0
    interpolation: Literal["bilinear", "bicubic"] = "bicubic"
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: tuple[float, float, float] = (0.229, 0.224, 0.225)

    def __post_init__(self) -> None:
        check_count(self.side, "side", minimum=1)
        check_option(self.interpolation, "interpolation", ("bilinear", "bicubic"))
        for name, values in (("mean", self.mean), ("std", self.std)):
            if np.shape(values) != (3,) or not np.isfinite(np.array(values, float)).all():
                raise InputError(
                    f"{name} must be three numbers, of red, green and blue, got {values!r}."
                )
        if min(self.std) <= 0:
            raise InputError(f"std must be above 0, got {self.std!r}; pixels are divided by it.")
        if not 0 < self.crop <= 1:
            raise InputError(f"crop must be in (0, 1], got {self.crop!r}.")

    @classmethod
    def of_timm(cls, config: dict[str, Any], *, side: int | None = None) -> "Preprocessing":
        """As a network of timm's says, but for images of another size, which are seen whole."""
        own = int(config["input_size"][-1])
        usual = config["interpolation"] in ("bilinear", "bicubic")
        return cls(
            side=side or own,
            crop=float(config["crop_pct"]) if side in (None, own) else 1.0,
            interpolation=config["interpolation"] if usual else "bicubic",
            mean=tuple(config["mean"]),
            std=tuple(config["std"]),
        )

    def cut(self, image: Array) -> Array:
        """One image, uint8 of shape (height, width, 3), as uint8 of shape (side, side, 3)."""
        height, width = image.shape[:2]
        if (height, width) == (self.side, self.side):
            return image
        module = require("PIL.Image", extra="torch", purpose="resizing images")
        shorter, target = min(height, width), int(self.side / self.crop)
        size = (target * width // shorter, target * height // shorter)
        resized = module.fromarray(image).resize(
            size, getattr(module.Resampling, self.interpolation.upper())
        )
        left, top = (round((length - self.side) / 2) for length in size)
        return np.asarray(resized.crop((left, top, left + self.side, top + self.side)))

    def normalise(self, images: Tensor) -> Tensor:
        """From uint8 of shape (n, side, side, 3) to float32 of shape (n, 3, side, side)."""
        mean, std = _on_device((self.mean, self.std), images.device) * 255
        # Channels stay last in memory: that is what fast convolutions read.
        normal: Tensor = (images.float() - mean) / std
        return normal.permute(0, 3, 1, 2)

    def to_dict(self) -> dict[str, Any]:
        """For a file."""
        return asdict(self)

    @classmethod
    def from_dict(cls, written: dict[str, Any]) -> "Preprocessing":
        """What :meth:`to_dict` wrote."""
        missing = [f.name for f in fields(cls) if f.name not in written]
        if missing:  # a default would be a guess
            raise ValueError(f"the preprocessing has no {missing[0]!r}")
        return cls(**{**written, "mean": tuple(written["mean"]), "std": tuple(written["std"])})


@functools.lru_cache(maxsize=16)
def _on_device(values: tuple[tuple[float, ...], ...], device: torch.device) -> Tensor:
    """Sent once: a GPU that is sent numbers with every batch waits for each."""
    with torch.inference_mode(False):  # kept for whoever comes next
        return torch.tensor(values, device=device)
