"""The 15 corruptions of ImageNet-C at five severities, as domains of any images."""

import contextlib
import functools
import hashlib
import io
import sys
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from domaincal._errors import InputError
from domaincal._optional import require
from domaincal._typing import Array, ArrayLike
from domaincal._validation import check_count, check_option

if TYPE_CHECKING:
    from torch import Tensor

#: Corruptions by kind, as the benchmark groups them.
KINDS = {
    "noise": ("gaussian_noise", "shot_noise", "impulse_noise"),
    "blur": ("defocus_blur", "glass_blur", "motion_blur", "zoom_blur"),
    "weather": ("snow", "frost", "fog", "brightness"),
    "digital": ("contrast", "elastic_transform", "pixelate", "jpeg_compression"),
}
CORRUPTIONS = tuple(name for names in KINDS.values() for name in names)
SEVERITIES = (1, 2, 3, 4, 5)
#: Published tables of constants; those of the package are the first.
CONSTANTS = ("imagenet", "tiny-imagenet", "cifar")
Constants = Literal["imagenet", "tiny-imagenet", "cifar"]
#: The domain of images as they are.
CLEAN = "clean"
SMALLEST_SIDE = 32

# These take a seed of their own; the others follow numpy's global state.
_WITH_SEED = ("impulse_noise", "glass_blur")


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
    >>> bright = dc.corrupt(grey, "brightness", 3)
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
        return _by_the_package(pixels, name, severity, seed)
    torch = require("torch", extra="torch", purpose=f"corrupting with the constants of {constants}")
    from domaincal.datasets.batched import corrupt_batch

    if is_tensor:
        return corrupt_batch(pixels, name, int(severity), seed, constants)
    tensor = torch.from_numpy(np.require(pixels, requirements=["C", "W"]))
    made: Array = corrupt_batch(tensor, name, int(severity), seed, constants).numpy()
    return made


def _by_the_package(pixels: Array, name: str, severity: int, seed: int) -> Array:
    out = np.empty_like(pixels)
    with _package() as apply:
        for index, image in enumerate(pixels):
            state = _seed_of(image, name, severity, seed)
            np.random.seed(state)  # noqa: NPY002  what the package follows; restored at the end
            own = {"seed": state} if name in _WITH_SEED else {}
            out[index] = apply(
                np.ascontiguousarray(image), severity=severity, corruption_name=name, **own
            )
    return out


def check_corruption(name: str, severity: int) -> None:
    """Refuse what is not one of the 75."""
    check_option(name, "name", CORRUPTIONS)
    if type(severity) not in (int, np.int64) or severity not in SEVERITIES:
        raise InputError(f"severity must be 1, 2, 3, 4 or 5, got {severity!r}.")


def domain_name(name: str, severity: int) -> str:
    """The name of a domain, e.g. ``fog-3``."""
    return f"{name}-{severity}"


def _seed_of(image: Array, name: str, severity: int, seed: int) -> int:
    """One number for an image under a corruption."""
    digest = hashlib.blake2b(image.tobytes(), digest_size=8).digest()
    parts = [seed, zlib.crc32(name.encode()), severity, int.from_bytes(digest, "little")]
    return int(np.random.SeedSequence(parts).generate_state(1)[0])


@contextlib.contextmanager
def _package() -> Iterator[Any]:
    """The package's function, without what it does to the rest of the process."""
    package = require("imagecorruptions", extra="corruptions", purpose="corrupting images")
    module: Any = require("imagecorruptions.corruptions", extra="corruptions", purpose="corrupting")
    if not hasattr(package, "corrupt"):
        raise InputError(
            "the installed package imagecorruptions has no function corrupt; install ours with: "
            "pip install 'domaincal[corruptions]'"
        )
    state = np.random.get_state()  # noqa: NPY002
    cv2 = module.cv2
    threads = cv2.getNumThreads()
    module.cv2 = _DecodedOnce(cv2)
    cv2.setNumThreads(1)  # processes own the cores
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # it prints what it catches
            yield package.corrupt
    finally:
        cv2.setNumThreads(threads)
        module.cv2 = cv2
        np.random.set_state(state)  # noqa: NPY002


class _DecodedOnce:
    """OpenCV, but that a picture is decoded once: frost reads one of 1 MB for every image."""

    def __init__(self, cv2: Any) -> None:
        self._cv2 = cv2

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cv2, name)

    def imread(self, path: Any) -> Array:
        return _decoded(self._cv2, str(path))


@functools.cache
def _decoded(cv2: Any, path: str) -> Array:
    picture: Array = cv2.imread(path)
    picture.setflags(write=False)
    return picture
