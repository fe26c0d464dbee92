"""Schedules of the learning rate."""

from __future__ import annotations

import math
from typing import Literal

Schedule = Literal["one-cycle", "cosine"]


def learning_rates(schedule: Schedule, n_steps: int, largest: float) -> list[float]:
    """Learning rate of each step.

    Both schedules fall to 0 along half a cosine: "cosine" from the first step on, "one-cycle" after
    a rise from ``largest / 25`` along half a cosine in the first 30% of the steps.

    Examples
    --------
    >>> [round(rate, 2) for rate in learning_rates("cosine", 4, 1.0)]
    [1.0, 0.85, 0.5, 0.15]
    """
    rise = int(0.3 * n_steps) if schedule == "one-cycle" else 0
    rates = []
    for step in range(n_steps):
        if step < rise:
            low, part = largest / 25, 0.5 * (1 - math.cos(math.pi * step / rise))
            rates.append(low + (largest - low) * part)
        else:
            done = (step - rise) / max(1, n_steps - rise)
            rates.append(largest * 0.5 * (1 + math.cos(math.pi * done)))
    return rates
