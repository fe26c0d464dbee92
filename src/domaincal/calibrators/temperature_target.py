"""What MD-TS regresses, and the guard that keeps its predictions positive and finite."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from domaincal._typing import FloatArray

Target = Literal["temperature", "log", "inverse"]
TARGETS = ("temperature", "log", "inverse")

#: ``clip="auto"`` lets predictions leave the range of the fitted temperatures by this factor.
AUTO_CLIP_FACTOR = 4.0


@dataclass(frozen=True)
class TemperatureTarget:
    """A monotone function of T that is regressed, and the limits of the T that it may return."""

    target: Target
    low: float
    high: float

    def from_temperature(self, temperature: FloatArray) -> FloatArray:
        """What to regress for a temperature."""
        if self.target == "log":
            return np.asarray(np.log(temperature))
        return 1.0 / temperature if self.target == "inverse" else temperature

    def to_temperature(self, value: FloatArray) -> FloatArray:
        """Temperature of a predicted value, clipped where the function is defined: before it."""
        ends = self.from_temperature(np.array([self.low, self.high]))
        inside = np.clip(value, ends.min(), ends.max())
        if self.target == "log":
            return np.asarray(np.exp(inside))
        return 1.0 / inside if self.target == "inverse" else inside
