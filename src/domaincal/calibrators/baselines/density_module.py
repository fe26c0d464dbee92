"""Torch module of density-aware calibration."""

from __future__ import annotations

from typing import Any

import numpy as np

from domaincal._typing import Array
from domaincal.calibrators.calibrator_module import TemperatureModule, torch


class DensityTemperatures(TemperatureModule):
    """``intercept + coef * d(x)`` with the distance d to the k-th nearest of ``rows``.

    ``rows`` are the L2-normalised features of the calibration rows.
    """

    def __init__(
        self,
        method: str,
        n_classes: int,
        rows: Array,
        *,
        n_neighbors: int,
        coef: float,
        intercept: float,
    ) -> None:
        super().__init__(method, n_classes, rows.shape[1], n_neighbors=n_neighbors)
        self.n_neighbors = n_neighbors
        squares = np.square(rows, dtype=np.float64).sum(axis=1)
        self.store(rows=rows, squares=squares, line=np.array([intercept, coef]))

    def _temperatures(self, logits: Any, features: Any, domains: Any) -> Any:
        x = _normalised(features.to(self.line.dtype))
        rows = self.rows.to(x.dtype)
        # Without |x|**2, which is the same for all reference rows.
        order = (self.squares - 2.0 * (x @ rows.T)).topk(self.n_neighbors, dim=1, largest=False)
        # Cancellation would leave half of the digits of a small distance.
        distance = torch.linalg.vector_norm(x - rows[order.indices[:, -1]], dim=1)
        temperature = self.line[0] + self.line[1] * distance.clamp(max=2.0)
        return torch.where(features.isfinite().all(1), temperature, torch.nan)


def _normalised(x: Any) -> Any:
    """Rows of length 1; rows of zeros stay zeros."""
    # Squares of very large and very small features would overflow or be rounded to 0.
    size = x.abs().amax(1, keepdim=True)
    x = x / torch.where(size > 0, size, 1.0)
    length = torch.linalg.vector_norm(x, dim=1, keepdim=True)
    return (x / torch.where(length > 0, length, 1.0)).clamp(-1.0, 1.0)
