"""How often RiskCoverage.threshold_for is wrong: python -m benchmarks.thresholds (3 minutes)."""

from __future__ import annotations

import numpy as np
import pandas as pd

import domaincal as dc
from domaincal.statistics.binomial import accuracy_limits

TARGET, LEVEL = 0.95, 0.95


def calibrated(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    confidence = 1.0 - 0.9 * rng.beta(0.5, 2.0, n)
    return confidence, confidence


def overconfident(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    confidence = 1.0 - 0.9 * rng.beta(0.3, 3.0, n)
    return confidence, np.clip(1.0 - 3.0 * (1.0 - confidence), 0.1, 1.0)


def rounded(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    confidence, _ = calibrated(rng, n)
    return confidence.round(2), confidence.round(2)


def just_below(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    return rng.random(n), np.full(n, TARGET - 1e-4)


def worst_at_the_top(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    confidence = rng.random(n)
    return confidence, np.select([confidence > 0.9, confidence > 0.5], [0.93, 0.97], 0.67)


def simulate(rows, n: int, repeats: int, rng: np.random.Generator) -> dict[str, float]:
    """Shares of the data sets in which an end, or a choice, is on the wrong side of the truth."""
    confidence, chance = rows(rng, 400_000)
    order = np.argsort(-confidence)
    confidence = confidence[order]
    last = np.searchsorted(-confidence, -confidence, side="right") - 1
    accuracy = (np.cumsum(chance[order]) / np.arange(1, len(order) + 1))[last]

    def true_accuracy(threshold: float) -> float:
        place = np.searchsorted(-confidence, -threshold, side="right") - 1
        return float(accuracy[place]) if threshold >= 0 else np.nan  # NaN keeps no row

    reached = confidence[accuracy >= TARGET]
    truth = reached[-1] if len(reached) else np.nan
    records = []
    for _ in range(repeats):
        c, p = rows(rng, n)
        found = dc.risk_coverage(c, rng.random(n) < p)
        row = found.threshold_for(TARGET, level=LEVEL).iloc[0]
        curve = found.curves["all"]
        passed = np.flatnonzero(accuracy_limits(curve.hits, curve.kept, LEVEL)[0] >= TARGET)
        naive = curve.thresholds[passed[-1]] if len(passed) else np.nan
        records.append({
            "high: too inaccurate": true_accuracy(row["high"]) < TARGET,
            "high: NaN": np.isnan(row["high"]),
            "low: above the truth": row["low"] > truth,
            "threshold: too inaccurate": true_accuracy(row["threshold"]) < TARGET,
            "accuracy_low: too high": row["accuracy_low"] > true_accuracy(row["threshold"]),
            "lowest limit: too inaccurate": true_accuracy(naive) < TARGET,
        })  # fmt: skip
    return pd.DataFrame(records).mean().to_dict()


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    results = {
        (rows.__name__, n): simulate(rows, n, 1000, rng)
        for rows in (calibrated, overconfident, rounded, just_below, worst_at_the_top)
        for n in (500, 2000, 10_000)
    }
    print((100.0 * pd.DataFrame(results).T).round(1).to_string())
