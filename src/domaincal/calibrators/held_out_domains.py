"""NLL of held-out domains: the criterion by which heads choose their hyperparameters."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from domaincal._typing import Array, FloatArray
from domaincal.calibrators.temperature_target import Clip, TemperatureTarget, temperature_limits
from domaincal.statistics import LabelledRows, TemperatureFit, fit_temperature


@dataclass(frozen=True, eq=False)
class HeldOutDomains:
    """Scores of temperatures on domains that are held out of the regression.

    Attributes
    ----------
    rows : LabelledRows
        All rows, with their domains.
    temperatures : array of shape (n_domains,)
        T_k; NaN for domains that are not used.
    pooled : TemperatureFit
        Temperature of all rows.
    target : TemperatureTarget
    clip : "auto", None or (low, high)
        Parameter of MD-TS, from which the limits of T follow.
    """

    rows: LabelledRows
    temperatures: FloatArray
    pooled: TemperatureFit
    target: TemperatureTarget
    clip: Clip

    def nll(self, values: FloatArray, held_out: Array) -> FloatArray:
        """Mean NLL of each held-out domain at the predicted targets of its rows.

        The limits of T follow from the other domains. ``values`` is NaN for rows that are not
        scored.
        """
        others = np.where(held_out, np.nan, self.temperatures)
        low, high = temperature_limits(self.clip, others, self.pooled)
        predicted = replace(self.target, low=low, high=high).to_temperature(values)
        sums = self.rows.sums(1.0 / predicted, per_row=True)
        return np.asarray(sums.nll[held_out] / sums.weight[held_out])

    def pooled_target(self, held_out: Array) -> float:
        """Target of one temperature that is fitted to all other used domains."""
        others = ~np.isnan(self.temperatures) & ~held_out
        weight = 1.0 if self.rows.weight is None else self.rows.weight
        weight = np.where(others[np.asarray(self.rows.domain)], weight, 0.0)
        fit = fit_temperature(LabelledRows(self.rows.logits, self.rows.labels, weight=weight))
        return float(self.target.from_temperature(fit.temperature)[0])
