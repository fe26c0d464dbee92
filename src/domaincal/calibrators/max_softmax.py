"""No calibration: the softmax as it is."""

from typing import ClassVar

import numpy as np

from domaincal._typing import Array, ArrayLike, FloatArray
from domaincal._validation import (
    check_labels,
    check_logits,
    check_sample_weight,
    require_finite_logits,
)
from domaincal.calibrators.base import LearnedTypes, TemperatureCalibrator


class MaxSoftmax(TemperatureCalibrator):
    """Maximum softmax probability (MSP): the baseline that changes nothing, T = 1.

    Examples
    --------
    >>> MaxSoftmax().fit([[2.0, 0.0], [0.0, 1.0]], [0, 1]).predict_confidence([[0.0, 0.0]])
    array([0.5])
    """

    _learned: ClassVar[LearnedTypes] = {**TemperatureCalibrator._learned, "temperature_": float}

    def fit(
        self,
        logits: ArrayLike,
        y: ArrayLike,
        *,
        features: ArrayLike | None = None,
        domains: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> "MaxSoftmax":
        """Check the rows and learn the number of classes.

        Parameters
        ----------
        logits : array, shape (n, n_classes)
            Unnormalised scores; float16, float32 and float64 are read as they are.
        y : array of class indices, shape (n,)
            Numbers of the logits' columns, counted from 0.
        features : array, shape (n, n_features), optional
            Ignored.
        domains : array of integers or strings, shape (n,), optional
            Ignored.
        sample_weight : array, shape (n,), optional
            Ignored.
        """
        z = check_logits(logits)
        labels = check_labels(y, n_rows=len(z), n_classes=z.shape[1], name="y")
        check_sample_weight(sample_weight, n_rows=len(z))
        require_finite_logits(z)
        self._remember(z, labels)
        self.temperature_ = 1.0
        return self

    def _facts(self) -> dict[str, str]:
        return {"temperature": "1 (nothing is learned)", **super()._facts()}

    def _temperatures(
        self, logits: Array, features: ArrayLike | None, domains: ArrayLike | None
    ) -> FloatArray:
        return np.ones(1)
