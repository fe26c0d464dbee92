"""Torch module of the mixture of domain temperatures."""

from __future__ import annotations

from typing import Any

import numpy as np

from domaincal._typing import FloatArray
from domaincal.calibrators.calibrator_module import TemperatureModule
from domaincal.calibrators.mixture.domain_posterior import DomainPosterior


class MixtureTemperatures(TemperatureModule):
    """Geometric mean of domain temperatures, weighted by a domain classifier."""

    def __init__(
        self, method: str, n_classes: int, posterior: DomainPosterior, temperatures: FloatArray
    ) -> None:
        super().__init__(method, n_classes, len(posterior.coef))
        self.store(
            coef=posterior.coef,
            intercept=posterior.intercept,
            log_temperatures=np.log(temperatures),
            ends=np.array([temperatures.min(), temperatures.max()]),
        )

    def _temperatures(self, logits: Any, features: Any, domains: Any) -> Any:
        x = features.to(self.coef.dtype)
        q = (x @ self.coef + self.intercept).softmax(1)
        # Rounding could leave the range of the temperatures.
        return (q @ self.log_temperatures).exp().clamp(self.ends[0], self.ends[1])
