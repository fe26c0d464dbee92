"""Corrupt images as ImageNet-C does, whether they are arrays or tensors."""

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
    images: "Tensor", name: str, severity: int, seed: int = 0, *, constants: Constants = "imagenet"
) -> "Tensor": ...
@overload
def corrupt(
    images: ArrayLike, name: str, severity: int, seed: int = 0, *, constants: Constants = "imagenet"
) -> Array: ...
def corrupt(
    images: "ArrayLike | Tensor",
    name: str,
    severity: int,
    seed: int = 0,
    *,
    constants: Constants = "imagenet",
) -> "Array | Tensor":
    """Corrupt images as ImageNet-C, Tiny-ImageNet-C or CIFAR-10-C do.

    The random numbers of an image depend on the seed, the corruption, the severity and the pixels
    of that image, and on nothing else: neither on its place among the others, nor on how the work
    is spread over processes or devices.

    Arrays with ImageNet's constants go through the package ``imagecorruptions``, one image at a
    time. While that runs, numpy's global random state is in use (it is as it was when this
    returns), so corrupt in processes rather than in threads. Tensors, and arrays with other
    constants, are corrupted in batches by torch: the same corruptions, with other random numbers.
    There, a device or a batch of another size may round a pixel to the next grey level.

    Parameters
    ----------
    images : array or tensor of uint8, shape (n, height, width, 3)
        Sides of at least 32 px. A tensor is on the CPU or on a CUDA device.
    name : str
        One of the 15 corruptions: gaussian_noise, shot_noise, impulse_noise, defocus_blur,
        glass_blur, motion_blur, zoom_blur, snow, frost, fog, brightness, contrast,
        elastic_transform, pixelate, jpeg_compression.
    severity : int
        From 1 to 5.
    seed : int, default 0
    constants : {"imagenet", "tiny-imagenet", "cifar"}, default "imagenet"
        How strong a severity is: as published for images of 224, 64 or 32 px (elastic_transform of
        "imagenet": as in the package). Images of any size can be corrupted with each.

    Returns
    -------
    array or tensor of uint8, of the same shape, on the same device

    Examples
    --------
    >>> import numpy as np, domaincal as dc
    >>> grey = np.full((2, 32, 32, 3), 128, np.uint8)
    >>> bright = dc.vision.corrupt(grey, "brightness", 3)
    >>> bright.shape, int(bright[0, 0, 0, 0])
    ((2, 32, 32, 3), 204)
    """
    torch = sys.modules.get("torch")  # who has a tensor has loaded it
    is_tensor = torch is not None and isinstance(images, torch.Tensor)
    pixels: Any = images if is_tensor else np.asarray(images)
    if (
        str(pixels.dtype) not in ("uint8", "torch.uint8")
        or pixels.ndim != 4
        or pixels.shape[3] != 3
    ):
        raise InputError(
            "images must be uint8 of shape (n, height, width, 3), got "
            f"{pixels.dtype} of shape {tuple(pixels.shape)}; repeat the channel of grey images "
            "three times, put a single image into a list, and the channels of a tensor last."
        )
    if min(pixels.shape[1:3]) < SMALLEST_SIDE:
        raise InputError(
            f"images are {pixels.shape[1]} x {pixels.shape[2]} px; corruptions need sides of at "
            f"least {SMALLEST_SIDE} px: enlarge them."
        )
    if is_tensor and pixels.device.type not in ("cpu", "cuda"):
        raise InputError(
            f"images are on the device {str(pixels.device)!r}; move them to the CPU or to CUDA."
        )
    check_corruption(name, severity)
    check_count(seed, "seed", minimum=0)
    check_option(constants, "constants", CONSTANTS)
    if constants == "imagenet" and not is_tensor:
        return corrupt_images(pixels, name, severity, seed)
    torch = require("torch", extra="torch", purpose=f"corrupting with the constants of {constants}")
    from domaincal.vision.corruptions.torch_corruptions import corrupt_batch

    if is_tensor:
        return corrupt_batch(pixels, name, int(severity), seed, constants)
    tensor = torch.from_numpy(np.require(pixels, requirements=["C", "W"]))
    made: Array = corrupt_batch(tensor, name, int(severity), seed, constants).numpy()
    return made
