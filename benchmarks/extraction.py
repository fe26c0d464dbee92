"""``python -m benchmarks.extraction``: images per second of extraction, next to the network alone.

ResNet-50 at 64 px (small stem) and at 224 px, random weights. The network alone sees random
tensors that are on its device already; extraction reads JPEG files, decodes and cuts them in
processes, and writes a store; corrupted, every image is shown in 16 domains. The first shard warms
both up. One table, in Markdown.
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
from domaincal.vision import Corruptions, Network, create_network, extract
from domaincal.vision.corruptions.catalogue import (CORRUPTIONS)
from domaincal.vision.datasets.image_set import ImageFiles
from domaincal.vision.image_batches import fastest_convolutions

# Different files: the same ones are read again and again, from the page cache.
_FILES = 500
CLASSES = [str(k) for k in range(200)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seconds", type=float, default=5.0, help="of the network alone")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    on_gpu = options.device.startswith("cuda")
    name = torch.cuda.get_device_name() if on_gpu else platform.processor() or "cpu"
    precision = "float16" if on_gpu else "float32"
    print(f"{name}, {options.jobs} processes decode, {precision}, torch {torch.__version__}\n")
    print("| side | batch | network alone | extraction of JPEG files | of 16 domains of an image |")
    print("| --- | --- | --- | --- | --- |")
    batches = {64: 500, 224: 250} if on_gpu else {64: 16, 224: 16}
    for (side, batch), constants in zip(
        batches.items(), ("tiny-imagenet", "imagenet"), strict=True
    ):
        network = create_network(
            "resnet-50", class_names=CLASSES, side=side, stem="small" if side == 64 else "standard"
        )
        with fastest_convolutions():  # as extraction has them
            alone = _alone(network, side, batch, options.device, precision, options.seconds)
        n_images = int(min(max(alone * 8, 1000), 200_000)) // batch * batch
        with tempfile.TemporaryDirectory() as folder:
            files = _files(Path(folder), side, n_images)
            plain = _rate(network, files, folder + "/plain", batch, options)
            few = files.select(slice(0, max(batch, n_images // 16 // batch * batch)))
            corruptions = Corruptions(constants, names=CORRUPTIONS, severities=[3])
            corrupted = _rate(network, few, folder + "/corrupted", batch, options, corruptions)
        print(
            f"| {side} px | {batch} | {alone:,.0f}/s | {plain:,.0f}/s ({plain / alone:.0%}) "
            f"| {corrupted:,.0f}/s ({corrupted / alone:.0%}) |",
            flush=True,
        )


def _alone(
    network: Network, side: int, batch: int, device: str, precision: str, seconds: float
) -> float:
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


def _rate(network, files, out, batch, options, corruptions=None) -> float:
    """After what starts the processes and warms up the network: a tenth of the rows."""
    marks: list[tuple[float, int]] = []

    def track(steps):
        for step in steps:
            yield step
            if not marks and step.stop > 0.1 * steps[-1].stop:
                if options.device.startswith("cuda"):
                    torch.cuda.synchronize()
                marks.append((time.perf_counter(), step.stop))

    done = extract(
        network, files, out, corruptions=corruptions, batch_size=batch, device=options.device,
        n_jobs=options.jobs, track=track,
    )  # fmt: skip
    started, n = marks[0]
    return (done.n_rows - n) / (time.perf_counter() - started)


def _files(folder: Path, side: int, n_images: int) -> dc.vision.ImageSet:
    """Photo-like files: smooth noise of all sizes, a little larger than the network wants."""
    random = np.random.default_rng(0)
    size = side if side == 64 else side * 4 // 3
    for k in range(_FILES):
        layers = [
            np.asarray(
                Image.fromarray(random.integers(0, 256, (2**j, 2**j, 3)).astype(np.uint8)).resize(
                    (size, size), Image.Resampling.BICUBIC
                ),
                float,
            )
            for j in range(1, 7)
        ]
        pixels = np.average(layers, axis=0, weights=[2.0**-j for j in range(6)])
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{k}.jpg", quality=90)
    names = list(itertools.islice(itertools.cycle(f"{k}.jpg" for k in range(_FILES)), n_images))
    return dc.vision.ImageSet(
        ImageFiles(folder, names), np.arange(n_images) % 200, class_names=CLASSES,
        groups=np.arange(n_images),
    )  # fmt: skip


def _wait(tensor: torch.Tensor) -> None:
    if tensor.is_cuda:
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
