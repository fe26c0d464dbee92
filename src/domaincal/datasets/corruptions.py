"""The 15 corruptions of ImageNet-C at five severities, as domains of any images."""

import contextlib
import functools
import hashlib
import io
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from domaincal._errors import InputError
from domaincal._optional import require
from domaincal._typing import Array, ArrayLike
from domaincal._validation import check_count, check_option

#: Corruptions by kind, as the benchmark groups them.
KINDS = {
    "noise": ("gaussian_noise", "shot_noise", "impulse_noise"),
    "blur": ("defocus_blur", "glass_blur", "motion_blur", "zoom_blur"),
    "weather": ("snow", "frost", "fog", "brightness"),
    "digital": ("contrast", "elastic_transform", "pixelate", "jpeg_compression"),
}
CORRUPTIONS = tuple(name for names in KINDS.values() for name in names)
SEVERITIES = (1, 2, 3, 4, 5)
#: The domain of images as they are.
CLEAN = "clean"
SMALLEST_SIDE = 32

# These take a seed of their own; the others follow numpy's global state.
_WITH_SEED = ("impulse_noise", "glass_blur")


def corrupt(images: ArrayLike, name: str, severity: int, seed: int = 0) -> Array:
    """Corrupt images as ImageNet-C does.

    The random numbers of an image depend on the seed, the corruption, the severity and the pixels
    of that image, and on nothing else: neither on its place among the others, nor on how the work
    is spread over processes. Numpy's global random state is as it was when this returns; until
    then it is in use, so corrupt in processes rather than in threads.

    Parameters
    ----------
    images : array of uint8, shape (n, height, width, 3)
        Sides of at least 32 px.
    name : str
        One of the 15 corruptions: gaussian_noise, shot_noise, impulse_noise, defocus_blur,
        glass_blur, motion_blur, zoom_blur, snow, frost, fog, brightness, contrast,
        elastic_transform, pixelate, jpeg_compression.
    severity : int
        From 1 to 5, with ImageNet-C's constants, which are meant for images of 224 px.
    seed : int, default 0

    Returns
    -------
    array of uint8, of the same shape

    Examples
    --------
    >>> import numpy as np, domaincal as dc
    >>> grey = np.full((2, 32, 32, 3), 128, np.uint8)
    >>> bright = dc.corrupt(grey, "brightness", 3)
    >>> bright.shape, int(bright[0, 0, 0, 0])
    ((2, 32, 32, 3), 204)
    """
    pixels = np.asarray(images)
    if pixels.dtype != np.uint8 or pixels.ndim != 4 or pixels.shape[3] != 3:
        raise InputError(
            "images must be uint8 of shape (n, height, width, 3), got "
            f"{pixels.dtype} of shape {pixels.shape}; repeat the channel of grey images three "
            "times, and put a single image into a list."
        )
    if min(pixels.shape[1:3]) < SMALLEST_SIDE:
        raise InputError(
            f"images are {pixels.shape[1]} x {pixels.shape[2]} px; corruptions need sides of at "
            f"least {SMALLEST_SIDE} px: enlarge them."
        )
    check_corruption(name, severity)
    check_count(seed, "seed", minimum=0)
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
