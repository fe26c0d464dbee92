"""Torch module that looks the temperature of each row up by its domain."""

from __future__ import annotations

from typing import Any

import numpy as np

from domaincal._typing import FloatArray, IntArray
from domaincal.calibrators.calibrator_module import TemperatureModule, torch
from domaincal.errors import InputError


class DomainTable(TemperatureModule):
    """Temperatures of known domains, whose codes are sorted; other codes get the pooled one.

    Codes are names that are integers, or the positions of other names in ``domain_temperatures_``.
    """

    def __init__(
        self,
        method: str,
        n_classes: int,
        codes: IntArray,
        temperatures: FloatArray,
        pooled: float,
        *,
        are_names: bool,
    ) -> None:
        super().__init__(method, n_classes, domains="names" if are_names else "positions")
        self._domains_cure = (
            "a tensor with the name of the domain of each row, such as torch.tensor(domains)"
            if are_names
            else "a tensor with the position of the domain of each row, such as "
            "torch.tensor(calibrator.domain_temperatures_.index.get_indexer(domains))"
        )
        self.store(codes=codes, of_domain=temperatures, pooled=np.array(pooled))

    def _temperatures(self, logits: Any, features: Any, domains: Any) -> Any:
        if domains is None:
            raise InputError(
                f"{self.method} needs domains; pass domains=..., {self._domains_cure}."
            )
        codes = self._domain_codes(domains, n_rows=logits.shape[0])
        place = torch.searchsorted(self.codes, codes).clamp(max=len(self.codes) - 1)
        return torch.where(self.codes[place] == codes, self.of_domain[place], self.pooled)
