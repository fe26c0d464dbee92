"""Target of the regression of MD-TS: T, log T or 1 / T, with the limits of T."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from domaincal._typing import FloatArray
from domaincal.statistics import TemperatureFit
from domaincal.statistics.temperature_solver import TEMPERATURE_BOUNDS

Target = Literal["temperature", "log", "inverse"]
TARGETS = ("temperature", "log", "inverse")
Clip = Literal["auto"] | tuple[float, float] | None

#: With ``clip="auto"``, the limits are the smallest T_k divided and the largest T_k multiplied by
#: this factor.
AUTO_CLIP_FACTOR = 4.0
#: Temperatures of every fit lie far inside: logits must have a finite square that is not 0.
TEMPERATURE_RANGE = (1e-200, 1e200)


@dataclass(frozen=True)
class TemperatureTarget:
    """Monotone function of T that is regressed on the features, and the limits of T.

    Examples
    --------
    >>> import numpy as np
    >>> target = TemperatureTarget("inverse", low=0.5, high=4.0)
    >>> target.from_temperature(np.array([2.0])).tolist()
    [0.5]
    >>> target.to_temperature(np.array([0.5, -1.0])).tolist()
    [2.0, 4.0]
    """

    target: Target
    low: float
    high: float

    def from_temperature(self, temperature: FloatArray) -> FloatArray:
        """Target of a temperature."""
        if self.target == "log":
            return np.asarray(np.log(temperature))
        return 1.0 / temperature if self.target == "inverse" else temperature

    def to_temperature(self, value: FloatArray) -> FloatArray:
        """Temperature of a predicted target.

        The target is clipped before it is converted, because the inverse function is defined
        inside the limits only.
        """
        ends = self.from_temperature(np.array([self.low, self.high]))
        inside = np.clip(value, ends.min(), ends.max())
        if self.target == "log":
            return np.asarray(np.exp(inside))
        return 1.0 / inside if self.target == "inverse" else inside


def temperature_limits(
    clip: Clip, temperatures: FloatArray, pooled: TemperatureFit
) -> tuple[float, float]:
    """Smallest and largest temperature that may be predicted.

    ``temperatures`` are the T_k, NaN for domains that are not used.
    """
    if clip is None and pooled.scale[0] > 0:
        low, high = np.array(TEMPERATURE_BOUNDS) * pooled.scale[0]
    elif clip is None or clip == "auto":
        none_used = np.isnan(temperatures).all()
        known = pooled.temperature if none_used else temperatures
        low, high = np.nanmin(known) / AUTO_CLIP_FACTOR, np.nanmax(known) * AUTO_CLIP_FACTOR
    else:
        low, high = clip
    return float(low), float(high)
