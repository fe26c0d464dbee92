"""The problems as data: what each is called, and how its rows are made."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Problem:
    """Arrays of one problem, made once and read by every library's process."""

    name: str
    make: Callable[[], dict[str, np.ndarray]]
    repeats: int = 5


def temperature_rows(n: int, n_classes: int) -> Callable[[], dict[str, np.ndarray]]:
    """N(0, 2), the label's logit + N(5, 2), all times 2, seed 0, float32."""

    def make() -> dict[str, np.ndarray]:
        rng = np.random.default_rng(0)
        labels = rng.integers(0, n_classes, n)
        logits = rng.normal(0, 2, size=(n, n_classes)).astype(np.float32)
        logits[np.arange(n), labels] += rng.normal(5, 2, n).astype(np.float32)
        logits *= 2
        return {"logits": logits, "labels": labels}

    return make


def domain_rows(
    n_features: int, n_domains: int = 31, n_rows: int = 5000, n_classes: int = 200
) -> Callable[[], dict[str, np.ndarray]]:
    """Rows of many domains; by default as many as in the paper's ImageNet-C split."""

    def make() -> dict[str, np.ndarray]:
        rng = np.random.default_rng(0)
        domains = rng.permutation(np.repeat(np.arange(n_domains), n_rows))
        n = len(domains)
        strength = np.linspace(0.5, 3.0, n_domains)[domains].astype(np.float32)
        labels = rng.integers(0, n_classes, n)
        logits = rng.normal(0, 2, size=(n, n_classes)).astype(np.float32)
        logits[np.arange(n), labels] += rng.normal(5, 2, n).astype(np.float32)
        logits *= strength[:, None]
        features = np.abs(rng.standard_normal((n, n_features), dtype=np.float32))
        features[:, :64] += 0.3 * strength[:, None]
        return {"logits": logits, "labels": labels, "features": features, "domains": domains}

    return make


def stream_rows() -> dict[str, np.ndarray]:
    """20 domains x 2,500 rows x 10 classes, 64 features, all float32, in random order."""
    rng = np.random.default_rng(0)
    domains = rng.permutation(np.repeat(np.arange(20), 2500))
    n = len(domains)
    strength = np.linspace(0.5, 3.0, 20)[domains].astype(np.float32)
    labels = rng.integers(0, 10, n)
    logits = rng.normal(0, 2, size=(n, 10)).astype(np.float32)
    logits[np.arange(n), labels] += rng.normal(3, 2, n).astype(np.float32)
    features = rng.standard_normal((n, 64), dtype=np.float32) + 0.3 * strength[:, None]
    return {
        "logits": logits * strength[:, None], "labels": labels, "features": features,
        "domains": domains,
    }  # fmt: skip


def confidence_rows() -> dict[str, np.ndarray]:
    """10 million confidences and hits."""
    rng = np.random.default_rng(0)
    confidences = rng.random(10_000_000) ** 0.3
    return {"confidences": confidences, "hits": rng.random(len(confidences)) < confidences}


TEMPERATURE = [
    Problem("20,000 x 1000", temperature_rows(20_000, 1000)),
    Problem("50,000 x 200", temperature_rows(50_000, 200)),
    Problem("1,000,000 x 10", temperature_rows(1_000_000, 10)),
    Problem("2,000 x 10", temperature_rows(2_000, 10), repeats=50),
]
PREDICTIONS = TEMPERATURE[:3]
MULTI_DOMAIN = [Problem("MD-TS, 31 x 5,000 x 200, 2048 features", domain_rows(2048), repeats=1)]
ABLATION = [
    Problem("heads and score maps, 31 x 5,000 x 200, 512 features", domain_rows(512), repeats=1)
]
FILES = [Problem("files of 155,000 rows x 200 classes, 512 features", domain_rows(512))]
APPENDS = [
    Problem("append 100 rows x 10 classes to a store", temperature_rows(100, 10), repeats=50)
]
MONITOR = [
    Problem("50,000 rows x 10 classes, 64 features, in blocks of 500", stream_rows, repeats=20)
]
ESTIMATE = [
    Problem(
        "accuracy of 50 x 20,000 rows x 10 classes, 64 features", domain_rows(64, 50, 20_000, 10)
    )
]
BINNING = [Problem("ECE of 10,000,000 rows, 15 bins", confidence_rows)]
