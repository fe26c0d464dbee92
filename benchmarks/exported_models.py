"""``python -m benchmarks.exported_models [TARGET ...]``: exported calibrators against Python.

Prints a Markdown table of the largest difference of a calibrated probability from the predictions
in Python, over 20,000 random rows of 20 domains and the hard rows of the tests (equal and huge
logits, far features, batches of one row). The calibrators and their training rows are those of the
tests. ``--device cuda`` runs the torch modules on a GPU; ONNX graphs run in onnxruntime on the CPU.
``--large`` adds a kernel head of so many float32 rows that Python computes it in float32.
``--sizes`` adds the number of nodes and the size of each ONNX graph.
"""

import argparse
import functools
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import domaincal as dc

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from exported_models import EXPORTED, exported_model
from hard_rows import hard_rows

#: Takes a fitted calibrator, its name and rows; returns probabilities, and those of Python.
Target = Callable[[Any, dc.CalibrationData, str], tuple[np.ndarray, np.ndarray]]


def random_rows() -> dc.CalibrationData:
    """Rows of domains that the fit has not seen."""
    data, _ = dc.make_multi_domain(20, 1000, 5, random_state=2)
    codes = np.unique(data.domains, return_inverse=True)[1]
    return dc.CalibrationData(data.logits, features=data.features, domains=codes)


def large_kernel_head() -> Any:
    """Kernel ridge on 4,800 rows."""
    data, _ = dc.make_multi_domain(12, 400, 5, random_state=0)
    return dc.MultiDomainTemperatureScaling("krr", target="log").fit(data)


def torch_float64(calibrator: Any, data: dc.CalibrationData, device: str) -> Any:
    return torch_module(calibrator, data, device, np.float64)


def torch_float32(calibrator: Any, data: dc.CalibrationData, device: str) -> Any:
    return torch_module(calibrator, data, device, np.float32)


def torch_module(calibrator: Any, data: dc.CalibrationData, device: str, dtype: type) -> Any:
    """Probabilities of the torch module, and of Python."""
    import torch

    logits, features = data.logits.astype(dtype), data.features.astype(dtype)
    given = (torch.tensor(a, device=device) for a in (logits, features, data.domains))
    with torch.inference_mode():
        found = calibrator.to_torch().to(device)(*given).probabilities.cpu().numpy()
    return found, calibrator.predict_proba(logits, features=features, domains=data.domains)


def onnx_float32(calibrator: Any, data: dc.CalibrationData, device: str) -> Any:
    return onnx_graph(calibrator, data, "float32")


def onnx_float16(calibrator: Any, data: dc.CalibrationData, device: str) -> Any:
    return onnx_graph(calibrator, data, "float16")


def onnx_graph(calibrator: Any, data: dc.CalibrationData, dtype: str) -> Any:
    """Probabilities of the ONNX graph, and of Python for the same rounded inputs."""
    from domaincal.deploy import export_onnx
    from onnx_sessions import predict, session

    given = {
        "logits": data.logits.astype(dtype),
        "features": data.features.astype(dtype),
        "domains": data.domains,
    }
    with tempfile.TemporaryDirectory() as folder:
        export_onnx(calibrator, f"{folder}/c.onnx", dtype=dtype)
        found = predict(session(f"{folder}/c.onnx"), **given).probabilities
    return found, calibrator.predict_proba(**given)


def graph_size(calibrator: Any) -> list[str]:
    """Number of nodes and kB of the ONNX graph."""
    from domaincal.deploy import export_onnx

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "c.onnx")
        return [str(export_onnx(calibrator, path).n_nodes), f"{path.stat().st_size / 1000:.1f}"]


TARGETS: dict[str, Target] = {
    "torch float64": torch_float64,
    "torch float32": torch_float32,
    "onnx float32": onnx_float32,
    "onnx float16": onnx_float16,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--sizes", action="store_true")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.targets if name not in TARGETS]
    if unknown:
        parser.error(f"there is no target {unknown[0]!r}; choose from {', '.join(TARGETS)}")
    targets = {name: TARGETS[name] for name in arguments.targets or TARGETS}
    warnings.simplefilter("ignore", dc.DomaincalWarning)
    models = {name: functools.partial(exported_model, name) for name in EXPORTED}
    if arguments.large:
        models["md-ts-krr, 4,800 rows"] = large_kernel_head
    columns = [*targets, *(["nodes", "kB"] if arguments.sizes else [])]
    print("| calibrator |", " | ".join(columns), "|")
    print("| --- |", " | ".join("---:" for _ in columns), "|")
    for name, fit in models.items():
        model, largest = fit(), []
        for target in targets.values():
            pairs = [target(model, data, arguments.device) for data in (random_rows(), hard_rows())]
            largest.append(max(np.abs(found - wanted).max() for found, wanted in pairs))
        shown = [f"{value:.0e}" for value in largest]
        print(
            f"| {name} |", " | ".join(shown + (graph_size(model) if arguments.sizes else [])), "|"
        )


if __name__ == "__main__":
    main()
