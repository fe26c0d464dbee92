"""No calibration: the softmax as it is."""

from typing import ClassVar

import numpy as np

from domaincal._typing import Array, ArrayLike, FloatArray
from domaincal._validation import require_finite_logits
from domaincal.calibrators.base import LearnedTypes, TemperatureCalibrator
from domaincal.calibrators.inputs import TrainingRows


class MaxSoftmax(TemperatureCalibrator):
    """Maximum softmax probability (MSP): the baseline that changes nothing, T = 1.

    Examples
    --------
    >>> MaxSoftmax().fit([[2.0, 0.0], [0.0, 1.0]], [0, 1]).predict_confidence([[0.0, 0.0]])
    array([0.5])
    """

    _learned: ClassVar[LearnedTypes] = {**TemperatureCalibrator._learned, "temperature_": float}

    def _learn(self, rows: TrainingRows) -> None:
        require_finite_logits(rows.logits)
        self.temperature_ = 1.0

    def _facts(self) -> dict[str, str]:
        return {"temperature": "1 (nothing is learned)", **super()._facts()}

    def _temperatures(
        self, logits: Array, features: ArrayLike | None, domains: ArrayLike | None
    ) -> FloatArray:
        return np.ones(1)
