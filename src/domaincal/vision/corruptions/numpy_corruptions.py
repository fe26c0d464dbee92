"""Corruptions of numpy images by the package imagecorruptions, one image at a time."""

import contextlib
import functools
import hashlib
import io
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from domaincal._optional import require
from domaincal._typing import Array
from domaincal.errors import InputError

# These take a seed of their own; the others follow numpy's global state.
_WITH_SEED = ("impulse_noise", "glass_blur")


def corrupt_images(pixels: Array, name: str, severity: int, seed: int) -> Array:
    """Images under a corruption, with ImageNet-C's constants."""
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
    module.cv2 = _CachedImread(cv2)
    cv2.setNumThreads(1)  # processes own the cores
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # it prints what it catches
            yield package.corrupt
    finally:
        cv2.setNumThreads(threads)
        module.cv2 = cv2
        np.random.set_state(state)  # noqa: NPY002


class _CachedImread:
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
