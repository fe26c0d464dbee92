"""Torch module that predicts the temperature of each row from its features."""

from __future__ import annotations

from typing import Any

import numpy as np

from domaincal.calibrators.calibrator_module import TemperatureModule, torch
from domaincal.calibrators.temperature_target import TemperatureTarget


class FeatureTemperatures(TemperatureModule):
    """Temperatures from a head, limited as :class:`TemperatureTarget` limits them.

    Parameters
    ----------
    head : torch.nn.Module
        Maps features to the target of each row; not finite for features that are not. Its
        ``options`` are added to those of the module.
    target : TemperatureTarget
    n_features : int or None
        None for a head that takes the sorted logits.
    """

    def __init__(
        self,
        method: str,
        n_classes: int,
        head: Any,
        target: TemperatureTarget,
        *,
        n_features: int | None,
    ) -> None:
        options = {"target": target.target, **head.options}
        super().__init__(method, n_classes, n_features, **options)
        self.head = head
        self.target = target.target
        self.store(ends=np.sort(target.from_temperature(np.array([target.low, target.high]))))

    def _temperatures(self, logits: Any, features: Any, domains: Any) -> Any:
        precise = self.ends.dtype
        x = sorted_logits(logits.to(precise)) if self.n_features is None else features.to(precise)
        values = self.head(x)
        values = torch.where(values.isfinite(), values, torch.nan)
        inside = values.clamp(self.ends[0], self.ends[1])
        if self.target == "log":
            return inside.exp()
        return 1.0 / inside if self.target == "inverse" else inside


def sorted_logits(logits: Any) -> Any:
    """Logits of each row in descending order, minus their mean."""
    ordered = logits.sort(dim=1, descending=True).values
    return ordered - ordered.mean(1, keepdim=True)
