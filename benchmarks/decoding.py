"""``python -m benchmarks.decoding``: images per CPU second of decoding JPEG files, on one core.

The files are those of benchmarks.extraction with grain, which gives them as many bits per pixel as
photographs have. Both decoders read the same files in turn; rates and ratios are medians over the
rounds. The last columns include the resizing and cropping to the side of a network, by Pillow.
Prints a table in Markdown.
"""

import os
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from unittest import mock

import numpy as np
from PIL import Image, features

from benchmarks.extraction import smooth_noise
from domaincal.vision import ImageFiles
from domaincal.vision.networks.preprocessing import Preprocessing

_FILES, _ROUNDS = 100, 15
# Standard deviation of the brightness of a pixel.
_GRAIN = 10.0
# Sides of the files and of the network's input.
_SIDES = ((64, 64), (224, 224), (298, 224), (500, 224))


def main() -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    turbo = features.version_feature("libjpeg_turbo")
    print(f"Pillow {version('pillow')} (libjpeg-turbo {turbo}), ", end="")
    print(f"simplejpeg {version('simplejpeg')}\n")
    decoders = "Pillow | simplejpeg | ratio"
    print(f"| file | bits/px | {decoders} | resized to | {decoders} |")
    print(f"| --- | --- |{' --- |' * 7}")
    for size, side in _SIDES:
        with tempfile.TemporaryDirectory() as folder:
            files, bits = _image_files(Path(folder), size)
            decoded = _rates(files, lambda image: image)
            resized = _rates(files, Preprocessing(side=side).resize_and_crop)
        cells = [f"{size} px", f"{bits:.1f}", *decoded, f"{side} px", *resized]
        print(f"| {' | '.join(cells)} |", flush=True)


def _rates(files: ImageFiles, use: Callable[[np.ndarray], object]) -> list[str]:
    """Images per second by Pillow and by simplejpeg, and their ratio."""
    seconds = np.empty((_ROUNDS + 1, 2))
    for row in seconds:
        with mock.patch("domaincal.vision.image_decoding.jpeg_pixels", return_value=None):
            row[0] = _seconds(files, use)
        row[1] = _seconds(files, use)
    pillow, simplejpeg = _FILES / np.median(seconds[1:], axis=0)  # the first round is a warm-up
    ratio = np.median(seconds[1:, 0] / seconds[1:, 1])
    return [f"{pillow:,.0f}/s", f"{simplejpeg:,.0f}/s", f"{ratio:.2f}"]


def _seconds(files: ImageFiles, use: Callable[[np.ndarray], object]) -> float:
    """CPU time, which other programs on the machine change less than the time of the clock."""
    started = time.process_time()
    for k in range(_FILES):
        use(files[k])
    return time.process_time() - started


def _image_files(folder: Path, size: int) -> tuple[ImageFiles, float]:
    """JPEG files of smooth noise with grain, and their mean number of bits for a pixel."""
    rng = np.random.default_rng(0)
    names = [f"{k}.jpg" for k in range(_FILES)]
    for name in names:
        pixels = smooth_noise(rng, size) + rng.normal(0, _GRAIN, (size, size, 1))
        image = Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))
        image.save(folder / name, quality=90)
    n_bytes = sum((folder / name).stat().st_size for name in names)
    return ImageFiles(folder, names), 8 * n_bytes / (_FILES * size**2)


if __name__ == "__main__":
    main()
