"""Torch module that looks the temperature of each row up by its domain."""

from __future__ import annotations

from typing import Any

import numpy as np

from domaincal._typing import FloatArray, IntArray
from domaincal.calibrators.calibrator_module import TemperatureModule, torch
from domaincal.errors import InputError


class DomainTable(TemperatureModule):
    """Temperatures of known domains, whose codes are sorted; other codes get the pooled one."""

    def __init__(
        self,
        method: str,
        n_classes: int,
        codes: IntArray,
        temperatures: FloatArray,
        pooled: float,
    ) -> None:
        super().__init__(method, n_classes)
        self.store(codes=codes, of_domain=temperatures, pooled=np.array(pooled))

    def _temperatures(self, logits: Any, features: Any, domains: Any) -> Any:
        if domains is None:
            raise InputError(
                f"{self.method} needs domains; pass domains=..., a tensor with the code of the "
                "domain of each row."
            )
        codes = self._domain_codes(domains, n_rows=logits.shape[0])
        place = torch.searchsorted(self.codes, codes).clamp(max=len(self.codes) - 1)
        return torch.where(self.codes[place] == codes, self.of_domain[place], self.pooled)
