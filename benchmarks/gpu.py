"""``python -m benchmarks.gpu``: tensors on a CUDA device, next to the time of plain passes.

Needs torch beside the package's own dependencies, and ``PYTHONPATH=src`` where it is not installed.
Prints Markdown. Logits and features are on the device before the clock starts; a plain pass is
their bytes at the bandwidth of a device-to-device copy, which is measured first.
"""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import domaincal as dc
from domaincal.calibrators.base import Calibrator
from domaincal.kernels.torch_kernels import fused_kernels

REPEATS = 5
COPY_BYTES = 1 << 32
MATRIX_SIDE = 8192


@dataclass(frozen=True)
class Rows:
    """One problem on the device: ``n_domains`` domains of different temperature."""

    name: str
    n_domains: int
    n_rows: int
    n_classes: int
    n_features: int = 0
    features_type: str = "float32"

    def make(self, torch: Any) -> tuple[Any, np.ndarray, Any, np.ndarray]:
        """Logits, labels, features and domains; logits float32, as of ``benchmarks.problems``."""
        n = self.n_domains * self.n_rows
        torch.manual_seed(0)
        domains = np.random.default_rng(0).permutation(
            np.repeat(np.arange(self.n_domains), self.n_rows)
        )
        strength = torch.linspace(0.5, 3.0, self.n_domains, device="cuda")[
            torch.tensor(domains, device="cuda")
        ]
        labels = torch.randint(0, self.n_classes, (n,), device="cuda")
        logits = 2.0 * torch.randn((n, self.n_classes), device="cuda")
        raised = 5.0 + 2.0 * torch.randn((n, 1), device="cuda")
        logits.scatter_add_(1, labels[:, None], raised)
        logits *= strength[:, None]
        features = None
        if self.n_features:
            kind = getattr(torch, self.features_type)
            features = torch.empty((n, self.n_features), device="cuda", dtype=kind)
            for start in range(0, n, 65536):
                part = torch.randn((min(65536, n - start), self.n_features), device="cuda").abs_()
                part[:, :64] += 0.3 * strength[start : start + 65536, None]
                features[start : start + 65536] = part
        return logits, labels.cpu().numpy(), features, domains


PROBLEMS = [
    Rows("760,000 x 200, 2048 float16 features", 76, 10_000, 200, 2048, "float16"),
    Rows("760,000 x 200, 2048 float32 features", 76, 10_000, 200, 2048, "float32"),
    Rows("50,000 x 1000", 10, 5_000, 1000),
]


def best(torch: Any, function: Callable[[], object]) -> float:
    """Best time of several calls, after one that is not timed."""
    times = []
    for _ in range(REPEATS + 1):
        torch.cuda.synchronize()
        start = time.perf_counter()
        function()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return min(times[1:])


def bandwidth(torch: Any) -> float:
    """Bytes per second that a large copy on the device reads (and writes once more)."""
    source = torch.empty(COPY_BYTES, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return 2 * COPY_BYTES / best(torch, lambda: target.copy_(source))


def double_rate(torch: Any) -> float:
    """Operations per second of a product of large float64 matrices."""
    a = torch.randn((MATRIX_SIDE, MATRIX_SIDE), dtype=torch.float64, device="cuda")
    return 2 * MATRIX_SIDE**3 / best(torch, lambda: a @ a)


def measure(torch: Any, problem: Rows, rate: float) -> list[str]:
    """A line of the table for each step."""
    logits, labels, features, domains = problem.make(torch)
    given = {"features": features, "domains": domains}
    steps: dict[str, tuple[Callable[[], object], int]] = {}
    of_logits = logits.nbytes
    of_all = of_logits + (0 if features is None else features.nbytes)

    def fit(calibrator: Calibrator) -> Callable[[], object]:
        return lambda: calibrator.fit(logits, labels, **given)

    ts, md_ts = dc.TemperatureScaling(), dc.MultiDomainTemperatureScaling()
    steps["TemperatureScaling.fit"] = fit(ts), of_logits
    steps["DomainTemperatureScaling.fit"] = fit(dc.DomainTemperatureScaling()), of_logits
    steps["TemperatureScaling.predict_proba"] = lambda: ts.predict_proba(logits), of_logits
    steps["TemperatureScaling.predict_confidence"] = (
        lambda: ts.predict_confidence(logits),
        of_logits,
    )
    if features is not None:
        steps["MD-TS (ols).fit"] = fit(md_ts), of_all
        steps["MD-TS (ols).predict_proba"] = lambda: md_ts.predict_proba(logits, **given), of_all
    lines = []
    for name, (step, size) in steps.items():
        seconds = best(torch, step)
        passes = seconds * rate / size
        lines.append(
            f"| {problem.name} | {name} | {1000 * seconds:.1f} ms | {size / 1e9:.2f} GB "
            f"| {passes:.1f} |"
        )
    return lines


def main() -> None:
    try:
        import torch
    except ImportError:
        print("torch is not installed: nothing to measure.")
        return
    if not torch.cuda.is_available():
        print("There is no CUDA device here: nothing to measure.")
        return
    warnings.simplefilter("ignore")
    rate, double = bandwidth(torch), double_rate(torch)
    fused = "fused kernels" if fused_kernels(torch.device("cuda")) else "NO fused kernels"
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {fused}: a copy reads and "
          f"writes {rate / 1e9:.0f} GB/s in all.\n")  # fmt: skip
    print("| rows x classes | step | time | bytes of its input | plain passes |")
    print("| --- | --- | ---: | ---: | ---: |")
    for problem in PROBLEMS:
        print("\n".join(measure(torch, problem, rate)), flush=True)
        torch.cuda.empty_cache()
    print("\nWhat MD-TS must compute beside: the Gram matrix of the features, in float64, of which "
          f"the device does {double / 1e12:.0f} TFLOP/s (a product of matrices).\n")  # fmt: skip
    for problem in PROBLEMS:
        if problem.n_features:
            work = 2.0 * problem.n_domains * problem.n_rows * problem.n_features**2
            print(f"- {problem.name}: {work / 1e12:.1f} TFLOP, {1000 * work / double:.1f} ms.")


if __name__ == "__main__":
    main()
