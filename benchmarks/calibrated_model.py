"""``python -m benchmarks.calibrated_model``: throughput of CalibratedModel and of its network.

Shows the same batch to a bare network and to the network in a :class:`CalibratedModel`, in turns,
under ``torch.inference_mode``, and random outputs to the calibrator alone. A turn is several
batches, with the device synchronised before and after; the best turn counts. On the CPU with
``OMP_NUM_THREADS=1``, time is that of the process, without other programs. The calibrator is MD-TS
on the penultimate features of the network, fitted to random rows, as the numbers do not change the
work. Prints a table in Markdown.
"""

import argparse
import contextlib
import copy
import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

import domaincal as dc
from domaincal.deploy import CalibratedModel

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from torchvision_shim import declare_operators

N_DOMAINS = 8


def network(name: str, n_classes: int) -> Any:
    """Network of timm, or of torchvision if timm is not installed, with random weights."""
    torch.manual_seed(0)
    with contextlib.suppress(ImportError):
        declare_operators()  # for builds of torchvision and torch that do not match
    try:
        import timm
    except ImportError:
        import torchvision

        return torchvision.models.get_model(name, num_classes=n_classes)
    return timm.create_model(name, num_classes=n_classes)


def calibrator(n_classes: int, n_features: int) -> Any:
    """MD-TS fitted to random rows."""
    rng = np.random.default_rng(0)
    n = 4 * max(n_features, 250)
    domains = np.arange(n) % N_DOMAINS
    logits = (1.0 + domains[:, None]) * rng.normal(size=(n, n_classes)).astype(np.float32)
    labels = (logits / (1.0 + domains[:, None]) + rng.gumbel(size=logits.shape)).argmax(axis=1)
    features = np.abs(rng.normal(size=(n, n_features))).astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dc.DomaincalWarning)
        return dc.MultiDomainTemperatureScaling().fit(
            logits, labels, features=features, domains=domains
        )


def seconds(module: Any, images: Any, n_batches: int) -> float:
    """Time of a turn."""
    cuda = images.device.type == "cuda"
    if cuda:
        torch.cuda.synchronize()
    alone = not cuda and torch.get_num_threads() == 1
    clock = time.process_time if alone else time.perf_counter
    start = clock()
    for _ in range(n_batches):
        module(images)
    if cuda:
        torch.cuda.synchronize()
    return clock() - start


def measure(arguments: argparse.Namespace, n_classes: int) -> dict[str, Any]:
    """Best images per second of both, what the calibrated one loses, and the calibrator alone."""
    device = arguments.device
    bare = network(arguments.network, n_classes).eval().to(device)
    images = torch.randn(arguments.batch, 3, arguments.side, arguments.side, device=device)
    if arguments.half:
        bare = bare.half().to(memory_format=torch.channels_last)
        images = images.half().contiguous(memory_format=torch.channels_last)
    layer = next(name for name in ("fc", "classifier", "head") if hasattr(bare, name))
    n_features = bare.get_submodule(layer).in_features
    calibrated = CalibratedModel(
        copy.deepcopy(bare), calibrator(n_classes, n_features), layer=layer
    )
    logits = torch.randn(arguments.batch, n_classes, device=device, dtype=images.dtype)
    features = torch.rand(arguments.batch, n_features, device=device, dtype=images.dtype)
    modules = {
        "bare": bare,
        "calibrated": calibrated,
        "calibrator": lambda _: calibrated.calibrator(logits, features),
    }
    best = dict.fromkeys(modules, float("inf"))
    with torch.inference_mode():
        for module in modules.values():
            seconds(module, images, arguments.batches)  # warm-up
        for _ in range(arguments.turns):
            for name, module in modules.items():
                best[name] = min(best[name], seconds(module, images, arguments.batches))
    n = arguments.batch * arguments.batches
    return {
        "network": arguments.network,
        "classes": n_classes,
        "features": n_features,
        "side": arguments.side,
        "batch": arguments.batch,
        "device": torch.cuda.get_device_name() if device == "cuda" else device,
        "torch": torch.__version__,
        "precision": "float16, channels last" if arguments.half else "float32",
        "bare": n / best["bare"],
        "calibrated": n / best["calibrated"],
        "loss": 1.0 - best["bare"] / best["calibrated"],
        "calibrator_ms": 1e3 * best["calibrator"] / arguments.batches,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--network", default="resnet50")
    parser.add_argument("--classes", type=int, nargs="+", default=[200, 1000])
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--batches", type=int, default=10, help="batches in a turn")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--half", action="store_true", help="float16, channels last")
    parser.add_argument("--json", type=Path, help="file for the numbers")
    arguments = parser.parse_args()
    results = [measure(arguments, n_classes) for n_classes in arguments.classes]
    first = results[0]
    print(
        f"{first['network']}, {first['side']} px, batch {first['batch']}, {first['precision']}, "
        f"{first['device']}, torch {first['torch']}; best of {arguments.turns} turns\n"
    )
    print(
        "| classes | features | bare, images/s | calibrated, images/s | loss "
        "| calibrator alone, ms a batch |"
    )
    print("| ---: | ---: | ---: | ---: | ---: | ---: |")
    for r in results:
        print(
            f"| {r['classes']} | {r['features']} | {r['bare']:.0f} | {r['calibrated']:.0f} | "
            f"{100 * r['loss']:.2f}% | {r['calibrator_ms']:.2f} |"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
