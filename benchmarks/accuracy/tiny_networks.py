"""Train small networks on Tiny-ImageNet on the CPU, and write their rows on Tiny-ImageNet-C.

    python -m benchmarks.accuracy.tiny_networks DATA OUT [--network NAME --epochs N --threads N]

DATA is the folder or the zip files of Tiny-ImageNet. OUT gets one ``tiny-NETWORK.npz`` for each
network: logits, features, labels and domains of 1,000 random validation images in 76 domains. A
file that exists is kept.
"""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

import domaincal as dc
from domaincal.vision import Corruptions, Network, TinyImageNet, create_network, extract, train

#: Networks by their names in timm, and epochs, which take about 25 minutes with one thread.
EPOCHS = {"regnetx_004": 10, "resnetv2_18": 7}
SIDE = 64
N_IMAGES = 1000
N_THREADS = 2
SEED = 0


def main() -> None:
    """Make the files that are not there yet."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path, help="folder of Tiny-ImageNet")
    parser.add_argument("out", type=Path, help="folder of the results")
    parser.add_argument("--network", choices=EPOCHS, help="only this network")
    parser.add_argument("--epochs", type=int, metavar="N", help="instead of 10 and 7")
    parser.add_argument("--threads", type=int, default=N_THREADS, metavar="N")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name in EPOCHS if arguments.network is None else [arguments.network]:
        epochs = arguments.epochs or EPOCHS[name]
        path = arguments.out / f"tiny-{name}.npz"
        if not path.exists():
            network = _trained(name, epochs, arguments.data, arguments.threads)
            rows = _rows(network, arguments.data, arguments.threads)
            dc.write(rows, path)
            print(f"{path}: {_accuracies(rows)}", flush=True)


def _trained(name: str, epochs: int, data: Path, n_threads: int) -> Network:
    """Network that is trained on all training images, in bfloat16."""
    images = TinyImageNet(data, "train")
    network = create_network(name, class_names=images.class_names, side=SIDE, random_state=SEED)
    module = network.module.to(memory_format=torch.channels_last)
    # domaincal trains in float32 on the CPU, which takes twice as long.
    module.forward = torch.autocast("cpu", torch.bfloat16)(module.forward)
    started = time.perf_counter()

    def print_epochs(numbers: range) -> Iterator[int]:
        for number in numbers:
            yield number
            seconds = time.perf_counter() - started
            print(f"{name}: epoch {number} of {epochs}, {seconds:.0f} s", flush=True)

    with TemporaryDirectory() as folder:
        train(
            network, images, Path(folder) / "network.safetensors", epochs=epochs, batch_size=128,
            learning_rate=0.1, smallest_crop=0.5, device="cpu", n_jobs=n_threads,
            random_state=SEED, track=print_epochs,
        )  # fmt: skip
    del module.forward  # the rows are computed in float32
    return network


def _rows(network: Network, data: Path, n_threads: int) -> dc.CalibrationData:
    """Rows of the same random validation images for every network, in all domains."""
    images = TinyImageNet(data, "val")
    chosen = np.random.default_rng(SEED).choice(len(images), N_IMAGES, replace=False)
    with TemporaryDirectory() as folder:
        extraction = extract(
            network, images.select(np.sort(chosen)), Path(folder) / "rows",
            corruptions=Corruptions("tiny-imagenet"), batch_size=64, precision="float32",
            device="cpu", n_jobs=n_threads,
        )  # fmt: skip
        return extraction.store.read()


def _accuracies(rows: dc.CalibrationData) -> str:
    """Accuracy of the clean domain, and mean accuracy of the others."""
    codes, names = rows.domain_codes
    hits = rows.logits.argmax(axis=1) == rows.labels
    accuracy = dict(zip(names, np.bincount(codes, hits) / np.bincount(codes), strict=True))
    clean = accuracy.pop("clean")
    return f"accuracy {clean:.1%} clean, {np.mean(list(accuracy.values())):.1%} corrupted"


if __name__ == "__main__":
    main()
