"""``python -m benchmarks.gpu``: tensors on a CUDA device, next to the time of plain passes.

Needs torch beside the package's own dependencies, and ``PYTHONPATH=src`` where it is not installed;
probmetrics is measured too if it is installed. Prints Markdown. Logits, features, labels and domain
codes are on the device before the clock starts; a plain pass is the bytes of the input at the
bandwidth of a device-to-device copy, which is measured first. Times are the best of 20 calls.
"""

import argparse
import importlib.util
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import domaincal as dc
from domaincal.kernels.torch_kernels import fused_kernels

REPEATS = 20
#: Repeats of steps that take longer than a second.
FEW_REPEATS = 2
COPY_BYTES = 1 << 32
MATRIX_SIDE = 8192
BATCH_ROWS = 100
#: Passes that each step may take.
LIMITS = {
    "TemperatureScaling.fit": 15, "DomainTemperatureScaling.fit": 25, "predict_proba": 4,
    "predict_confidence": 3, "MD-TS (ols).fit": 120, "temperatures of batches": 15,
}  # fmt: skip


@dataclass(frozen=True)
class Rows:
    """Rows on the device: ``n_domains`` domains of different temperature, in random order."""

    name: str
    n_domains: int
    n_rows: int
    n_classes: int
    dtype: str = "float32"
    n_features: int = 0
    features_type: str = "float16"

    def make(self, torch: Any) -> dict[str, Any]:
        """Logits, labels, domains and features, as those of ``benchmarks.problems``."""
        n = self.n_domains * self.n_rows
        torch.manual_seed(0)
        domains = torch.arange(self.n_domains, device="cuda").repeat_interleave(self.n_rows)
        domains = domains[torch.randperm(n, device="cuda")]
        strength = torch.linspace(0.5, 3.0, self.n_domains, device="cuda")[domains]
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
        logits = logits.to(getattr(torch, self.dtype))
        return {"logits": logits, "labels": labels, "domains": domains, "features": features}


PROBLEMS = [
    Rows("float32", 76, 10_000, 200, "float32", 2048),
    Rows("float16", 76, 10_000, 200, "float16", 2048),
    Rows("bfloat16", 76, 10_000, 200, "bfloat16"),
    Rows("float32, float32 features", 76, 10_000, 200, "float32", 2048, "float32"),
    Rows("float32, 50,000 x 1000", 10, 5_000, 1000),
]


def best(torch: Any, function: Callable[[], object]) -> float:
    """Best time of several calls, after two that are not timed."""
    times: list[float] = []
    while len(times) < (REPEATS if not times or min(times) < 1.0 else FEW_REPEATS) + 2:
        torch.cuda.synchronize()
        start = time.perf_counter()
        function()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return min(times[2:])


def bandwidth(torch: Any) -> float:
    """Bytes per second that a large copy on the device reads and writes, together."""
    source = torch.empty(COPY_BYTES, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return 2 * COPY_BYTES / best(torch, lambda: target.copy_(source))


def double_rate(torch: Any) -> float:
    """Operations per second of a product of large float64 matrices."""
    a = torch.randn((MATRIX_SIDE, MATRIX_SIDE), dtype=torch.float64, device="cuda")
    return 2 * MATRIX_SIDE**3 / best(torch, lambda: a @ a)


def own_steps(torch: Any, rows: dict[str, Any]) -> dict[str, Callable[[], object]]:
    """Steps of domaincal."""
    logits, labels, domains, features = (
        rows[name] for name in ("logits", "labels", "domains", "features")
    )
    ts = dc.TemperatureScaling().fit(logits, labels)
    batches = torch.arange(len(logits), device="cuda") // BATCH_ROWS
    some = torch.arange(0, len(logits), 8, device="cuda")
    by_batch = dc.BatchTemperatureScaling().fit(logits[some], labels[some], domains=domains[some])
    steps: dict[str, Callable[[], object]] = {
        "TemperatureScaling.fit": lambda: dc.TemperatureScaling().fit(logits, labels),
        "DomainTemperatureScaling.fit": lambda: dc.DomainTemperatureScaling().fit(
            logits, labels, domains=domains
        ),
        "predict_proba": lambda: ts.predict_proba(logits),
        "predict_confidence": lambda: ts.predict_confidence(logits),
        "temperatures of batches": lambda: by_batch.predict_temperature(logits, domains=batches),
    }
    if features is not None:
        given = {"features": features, "domains": domains}
        md_ts = dc.MultiDomainTemperatureScaling().fit(logits, labels, **given)
        steps["MD-TS (ols).fit"] = lambda: dc.MultiDomainTemperatureScaling().fit(
            logits, labels, **given
        )
        steps["MD-TS (ols).predict_proba"] = lambda: md_ts.predict_proba(logits, **given)
    return steps


def plain_steps(torch: Any, rows: dict[str, Any]) -> dict[str, Callable[[], object]]:
    """The same steps written with ``log_softmax`` and LBFGS, as is usual in torch."""
    logits, labels, domains = rows["logits"], rows["labels"], rows["domains"]

    def fit(z: Any, y: Any) -> Any:
        log_t = torch.zeros(1, device="cuda", requires_grad=True)
        optimiser = torch.optim.LBFGS([log_t], max_iter=50, line_search_fn="strong_wolfe")

        def loss() -> Any:
            optimiser.zero_grad()
            log_p = torch.log_softmax(z.float() / log_t.exp(), dim=1)
            value = -log_p.gather(1, y[:, None]).mean()
            value.backward()
            return value

        optimiser.step(loss)
        return log_t.detach().exp()

    def fit_each() -> None:
        for k in range(int(domains.max()) + 1):
            own = domains == k
            fit(logits[own], labels[own])

    t = fit(logits, labels)
    return {
        "TemperatureScaling.fit": lambda: fit(logits, labels),
        "DomainTemperatureScaling.fit": fit_each,
        "predict_proba": lambda: torch.softmax(logits.float() / t, dim=1),
        "predict_confidence": lambda: torch.softmax(logits.float() / t, dim=1).amax(dim=1),
    }


def probmetrics_steps(torch: Any, rows: dict[str, Any]) -> dict[str, Callable[[], object]]:
    """The steps that probmetrics has; it takes float32 and float64 logits."""
    logits, labels = rows["logits"], rows["labels"]
    if importlib.util.find_spec("probmetrics") is None or logits.dtype != torch.float32:
        return {}
    from probmetrics.calibrators import TemperatureScalingCalibrator
    from probmetrics.distributions import CategoricalLogits

    def fit() -> Any:
        calibrator = TemperatureScalingCalibrator()
        calibrator.fit_torch(CategoricalLogits(logits), labels)
        return calibrator

    fitted = fit()

    def probabilities() -> Any:
        return fitted.predict_proba_torch(CategoricalLogits(logits)).get_probs()

    return {
        "TemperatureScaling.fit": fit,
        "predict_proba": probabilities,
        "predict_confidence": lambda: probabilities().amax(dim=1),
    }


def measure(torch: Any, problem: Rows, rate: float) -> list[str]:
    """A line of the table for each step."""
    rows = problem.make(torch)
    of_logits = rows["logits"].nbytes
    of_features = 0 if rows["features"] is None else rows["features"].nbytes
    own, *others = (steps(torch, rows) for steps in (own_steps, plain_steps, probmetrics_steps))
    lines = []
    for name, step in own.items():
        size = of_logits + (of_features if name.startswith("MD-TS") else 0)

        def passes(seconds: float, size: int = size) -> str:
            return f"{seconds * rate / size:.1f}"

        seconds = best(torch, step)
        peers = [passes(best(torch, other[name])) if name in other else "" for other in others]
        limit = LIMITS.get(name, "") if problem.name == "float32" else ""
        lines.append(
            f"| {problem.name} | {name} | {1000 * seconds:.2f} ms | {passes(seconds)} | {limit} "
            f"| {' | '.join(peers)} |"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="names of the problems, separated by ';'")
    only = parser.parse_args().only
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
    print("| logits | step | time | passes | at most | plain torch | probmetrics |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    chosen = [p for p in PROBLEMS if only is None or p.name in only.split(";")]
    for problem in chosen:
        print("\n".join(measure(torch, problem, rate)), flush=True)
        torch.cuda.empty_cache()
    print(
        "\nWhat MD-TS must compute beside its passes: the Gram matrix of the features. In float64, "
        f"of which the device does {double / 1e12:.0f} TFLOP/s (a product of matrices):\n"
    )
    for problem in chosen:
        if problem.n_features:
            work = 2.0 * problem.n_domains * problem.n_rows * problem.n_features**2
            print(f"- {problem.name}: {work / 1e12:.1f} TFLOP, {1000 * work / double:.1f} ms.")


if __name__ == "__main__":
    main()
