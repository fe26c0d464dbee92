"""Torch module of vector scaling."""

from __future__ import annotations

from typing import Any

from domaincal._typing import FloatArray
from domaincal.calibrators.baselines.vector_scaling import LARGEST_LOGIT
from domaincal.calibrators.calibrator_module import (
    CalibratorModule,
    TorchPredictions,
    below_top,
    torch,
)


class VectorModule(CalibratorModule):
    """``softmax(a * z + b)``; products are limited, so that they stay finite."""

    def __init__(self, method: str, coef: FloatArray, intercept: FloatArray) -> None:
        super().__init__(method, len(coef))
        self.store(coef=coef, intercept=intercept)

    def _predict(self, logits: Any, features: Any, domains: Any) -> TorchPredictions:
        z = below_top(logits.to(self.coef.dtype))
        z = (z - z.mean(1, keepdim=True)) * self.coef
        # In float32, for a module that was converted to it.
        limit = min(LARGEST_LOGIT, torch.finfo(z.dtype).max / 4)
        p = (z.clamp(-limit, limit) + self.intercept).softmax(1).to(logits.dtype)
        return TorchPredictions(p, p.gather(1, logits.argmax(1, keepdim=True))[:, 0], None)
