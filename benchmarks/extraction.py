"""``python -m benchmarks.extraction``: images per second of extraction and of the network alone.

ResNet-50 at 64 px (small stem) and at 224 px, with random weights. The network alone gets random
tensors that are already on its device. Extraction reads JPEG files, decodes and crops them in
worker processes, and writes a store; with corruptions, every image is shown in 16 domains. The
first tenth of the rows is a warm-up. Prints a table in Markdown.
"""

import argparse
import itertools
import os
import platform
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image

import domaincal as dc
from domaincal.vision import Corruptions, ImageFiles, Network, create_network, extract
from domaincal.vision.corruptions.catalogue import CORRUPTIONS
from domaincal.vision.networks.devices import fastest_convolutions

# Number of different files; they are read repeatedly, from the page cache.
_FILES = 500
CLASSES = [str(k) for k in range(200)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seconds", type=float, default=5.0, help="time for the network alone")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    on_gpu = options.device.startswith("cuda")
    name = torch.cuda.get_device_name() if on_gpu else platform.processor() or "cpu"
    precision = "float16" if on_gpu else "float32"
    print(f"{name}, {options.jobs} decoding processes, {precision}, torch {torch.__version__}\n")
    print("| side | batch | network alone | extraction | extraction in 16 domains |")
    print("| --- | --- | --- | --- | --- |")
    batches = {64: 500, 224: 250} if on_gpu else {64: 16, 224: 16}
    for (side, batch), constants in zip(
        batches.items(), ("tiny-imagenet", "imagenet"), strict=True
    ):
        network = create_network(
            "resnet-50", class_names=CLASSES, side=side, stem="small" if side == 64 else "standard"
        )
        with fastest_convolutions():  # as in extraction
            alone = _network_rate(network, side, batch, options.device, precision, options.seconds)
        n_images = int(min(max(alone * 8, 1000), 200_000)) // batch * batch
        with tempfile.TemporaryDirectory() as folder:
            files = _image_files(Path(folder), side, n_images)
            plain = _extraction_rate(network, files, folder + "/plain", batch, options)
            few = files.select(slice(0, max(batch, n_images // 16 // batch * batch)))
            corruptions = Corruptions(constants, names=CORRUPTIONS, severities=[3])
            corrupted = _extraction_rate(
                network, few, folder + "/corrupted", batch, options, corruptions
            )
        print(
            f"| {side} px | {batch} | {alone:,.0f}/s | {plain:,.0f}/s ({plain / alone:.0%}) "
            f"| {corrupted:,.0f}/s ({corrupted / alone:.0%}) |",
            flush=True,
        )


def _network_rate(
    network: Network, side: int, batch: int, device: str, precision: str, seconds: float
) -> float:
    """Images per second of the network alone."""
    network.to(torch.device(device))
    images = torch.randn(batch, side, side, 3, device=device).permute(0, 3, 1, 2)
    dtype = getattr(torch, precision)
    for _ in range(3):
        _wait(network.outputs(images, dtype)[0])
    started, n = time.perf_counter(), 0
    while time.perf_counter() - started < seconds:
        for _ in range(5):
            logits, _ = network.outputs(images, dtype)
        _wait(logits)
        n += 5 * batch
    return n / (time.perf_counter() - started)


def _extraction_rate(network, files, output, batch, options, corruptions=None) -> float:
    """Images per second of extraction, after the first tenth of the rows."""
    marks: list[tuple[float, int]] = []

    def track(steps):
        for step in steps:
            yield step
            if not marks and step.stop > 0.1 * steps[-1].stop:
                if options.device.startswith("cuda"):
                    torch.cuda.synchronize()
                marks.append((time.perf_counter(), step.stop))

    extraction = extract(
        network, files, output, corruptions=corruptions, batch_size=batch, device=options.device,
        n_jobs=options.jobs, track=track,
    )  # fmt: skip
    started, n = marks[0]
    return (extraction.n_rows - n) / (time.perf_counter() - started)


def _image_files(folder: Path, side: int, n_images: int) -> dc.vision.ImageSet:
    """JPEG files of smooth noise, at 224 px larger than the network's input."""
    rng = np.random.default_rng(0)
    size = side if side == 64 else side * 4 // 3
    for k in range(_FILES):
        pixels = smooth_noise(rng, size)
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{k}.jpg", quality=90)
    names = list(itertools.islice(itertools.cycle(f"{k}.jpg" for k in range(_FILES)), n_images))
    return dc.vision.ImageSet(
        ImageFiles(folder, names), np.arange(n_images) % 200, class_names=CLASSES,
        groups=np.arange(n_images),
    )  # fmt: skip


def smooth_noise(rng: np.random.Generator, size: int) -> np.ndarray:
    """Noise at several scales, float64 of shape (size, size, 3) in 0..255."""
    layers = [
        np.asarray(
            Image.fromarray(rng.integers(0, 256, (2**j, 2**j, 3)).astype(np.uint8)).resize(
                (size, size), Image.Resampling.BICUBIC
            ),
            float,
        )
        for j in range(1, 7)
    ]
    return np.average(layers, axis=0, weights=[2.0**-j for j in range(6)])


def _wait(tensor: torch.Tensor) -> None:
    """Wait until the GPU has finished."""
    if tensor.is_cuda:
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
