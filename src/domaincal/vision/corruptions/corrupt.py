"""Corrupt arrays or tensors of images as ImageNet-C does."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from domaincal._optional import require
from domaincal._typing import Array, ArrayLike
from domaincal._validation import check_count, check_option
from domaincal.errors import InputError
from domaincal.vision.corruptions.catalogue import (
    CONSTANTS,
    SMALLEST_SIDE,
    Constants,
    check_corruption,
)
from domaincal.vision.corruptions.numpy_corruptions import corrupt_images

if TYPE_CHECKING:
    from torch import Tensor


@overload
def corrupt(
    images: Tensor,
    name: str,
    severity: int,
    random_state: int = 0,
    *,
    constants: Constants = "imagenet",
) -> Tensor: ...
@overload
def corrupt(
    images: ArrayLike,
    name: str,
    severity: int,
    random_state: int = 0,
    *,
    constants: Constants = "imagenet",
) -> Array: ...
def corrupt(
    images: ArrayLike | Tensor,
    name: str,
    severity: int,
    random_state: int = 0,
    *,
    constants: Constants = "imagenet",
) -> Array | Tensor:
    """Corrupt images as in ImageNet-C, Tiny-ImageNet-C or CIFAR-10-C.

    The random numbers of an image depend only on the seed, the corruption, the severity and the
    pixels of that image. They do not depend on the other images of the batch, nor on the number of
    processes or the device.

    Arrays with ImageNet's constants are corrupted by the package ``imagecorruptions``, one image at
    a time. It draws from numpy's global random state, which is restored afterwards; threads take
    turns, so run it in several processes. Tensors, and arrays with other constants, are
    corrupted in batches by torch: the same corruptions with other random numbers. There, another
    device or batch size may round a pixel to the next grey level.

    Parameters
    ----------
    images : array or tensor of uint8, shape (n, height, width, 3)
        Images with sides of at least 32 px. A tensor is on the CPU or on a CUDA device.
    name : str
        One of the 15 corruptions: gaussian_noise, shot_noise, impulse_noise, defocus_blur,
        glass_blur, motion_blur, zoom_blur, snow, frost, fog, brightness, contrast,
        elastic_transform, pixelate, jpeg_compression.
    severity : int
        Strength of the corruption, from 1 to 5.
    random_state : int, default 0
        Seed of the random numbers.
    constants : {"imagenet", "tiny-imagenet", "cifar"}, default "imagenet"
        Table of constants that says how strong a severity is. The tables were published for images
        of 224, 64 and 32 px, but each works with images of any size. elastic_transform of
        "imagenet" is that of the package ``imagecorruptions``.

    Returns
    -------
    array or tensor of uint8
        Corrupted images, of the same shape and on the same device.

    Examples
    --------
    >>> import numpy as np, domaincal as dc
    >>> grey = np.full((2, 32, 32, 3), 128, np.uint8)
    >>> bright = dc.vision.corrupt(grey, "brightness", 3)
    >>> bright.shape, int(bright[0, 0, 0, 0])
    ((2, 32, 32, 3), 204)
    """
    torch = sys.modules.get("torch")  # a caller who has a tensor has imported torch
    is_tensor = torch is not None and isinstance(images, torch.Tensor)
    pixels: Any = images if is_tensor else np.asarray(images)
    _check_images(pixels, is_tensor=is_tensor)
    check_corruption(name, severity)
    check_count(random_state, "random_state", minimum=0)
    check_option(constants, "constants", CONSTANTS)
    if constants == "imagenet" and not is_tensor:
        return corrupt_images(pixels, name, severity, random_state)
    torch = require("torch", extra="torch", purpose=f"corrupting with the constants of {constants}")
    from domaincal.vision.corruptions.torch_corruptions import corrupt_batch

    if is_tensor:
        return corrupt_batch(pixels, name, int(severity), random_state, constants)
    tensor = torch.from_numpy(np.require(pixels, requirements=["C", "W"]))
    corrupted: Array = corrupt_batch(tensor, name, int(severity), random_state, constants).numpy()
    return corrupted


def _check_images(pixels: Any, *, is_tensor: bool) -> None:
    """Raise an error unless the images are uint8, have three channels, and are large enough."""
    is_uint8 = str(pixels.dtype) in ("uint8", "torch.uint8")
    if not is_uint8 or pixels.ndim != 4 or pixels.shape[3] != 3:
        raise InputError(
            "images must be uint8 of shape (n, height, width, 3), got "
            f"{pixels.dtype} of shape {tuple(pixels.shape)}; repeat the channel of grey images "
            "three times, pass a single image as [image], and move the channels of a tensor last."
        )
    if min(pixels.shape[1:3]) < SMALLEST_SIDE:
        raise InputError(
            f"images are {pixels.shape[1]} x {pixels.shape[2]} px, but corruptions need sides of "
            f"at least {SMALLEST_SIDE} px; enlarge them."
        )
    if is_tensor and pixels.device.type not in ("cpu", "cuda"):
        raise InputError(
            f"images are on the device {str(pixels.device)!r}; move them to the CPU or to CUDA."
        )
