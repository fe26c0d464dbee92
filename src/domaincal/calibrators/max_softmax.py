"""Maximum softmax probability: no calibration."""

from __future__ import annotations

from typing import Any

import numpy as np

from domaincal._typing import Array, ArrayLike, FloatArray
from domaincal._validation import check_finite_logits
from domaincal.calibrators.inputs import TrainingRows
from domaincal.calibrators.temperature_calibrator import TemperatureCalibrator


class MaxSoftmax(TemperatureCalibrator):
    """Maximum softmax probability (MSP): the uncalibrated baseline, with T = 1.

    Attributes
    ----------
    temperature_ : float
        Always 1.
    n_classes_ : int
        Number of classes.
    class_names_ : tuple of str or None
        Names of the classes, if the data of the fit had names.

    Examples
    --------
    >>> from domaincal import MaxSoftmax
    >>> MaxSoftmax().fit([[2.0, 0.0], [0.0, 1.0]], [0, 1]).predict_confidence([[0.0, 0.0]])
    array([0.5])
    """

    _fits_blocks = True

    temperature_: float

    def _learn(self, rows: TrainingRows) -> None:
        check_finite_logits(rows.logits)
        self.temperature_ = 1.0

    def _facts(self) -> dict[str, str]:
        return {"temperature": "1 (nothing is learned)"}

    def _temperatures(
        self, logits: Array, features: ArrayLike | None, domains: ArrayLike | None
    ) -> FloatArray:
        return np.ones(1)

    def _torch_module(self) -> Any:
        from domaincal.calibrators.calibrator_module import OneTemperature

        return OneTemperature(type(self).__name__, self.n_classes_, self.temperature_)
