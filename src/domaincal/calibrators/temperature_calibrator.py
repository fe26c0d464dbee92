"""Base class of calibrators that divide logits by a temperature."""

# Short signatures in help(): annotations stay text.
from __future__ import annotations

from abc import abstractmethod

from domaincal._tensors import convert_like
from domaincal._typing import Array, ArrayLike, FloatArray
from domaincal.calibrators.base import Calibrator, RowValues, logits_argument, repeated_rows
from domaincal.calibrators.softmax import confidences_at, probabilities_at
from domaincal.data import BlockedRows
from domaincal.data.blocked_rows import AnyData, as_rows
from domaincal.errors import InputError


class TemperatureCalibrator(Calibrator):
    """Base class of calibrators that divide the logits of each row by a temperature.

    Subclasses implement ``_learn`` and ``_temperatures``.
    """

    @abstractmethod
    def _temperatures(
        self, logits: Array, features: ArrayLike | None, domains: ArrayLike | None
    ) -> FloatArray:
        """Temperatures of shape (n,), or of shape (1,) if all rows share one."""

    def predict_temperature(
        self,
        logits: ArrayLike | AnyData,
        *,
        features: ArrayLike | None = None,
        domains: ArrayLike | None = None,
    ) -> FloatArray:
        """Temperature of each row.

        The parameters are those of :meth:`predict_proba`.

        Returns
        -------
        array of shape (n,)
        """
        rows = as_rows(logits)
        if isinstance(rows, BlockedRows):
            return self._predict_blocks("predict_temperature", rows, features, domains)
        z, values = self._check_and_prepare("predict_temperature", logits, features, domains)
        temperatures = self._row_temperatures(values, len(z))
        if temperatures is None:
            raise InputError(f"{self._method_name()} has no temperature; use predict_proba.")
        result: FloatArray = convert_like(temperatures, logits_argument(logits))
        return result

    def _method_name(self) -> str:
        """Name of the method whose temperatures are predicted, for messages."""
        return type(self).__name__

    def _prepare(
        self, logits: Array, features: ArrayLike | None, domains: ArrayLike | None
    ) -> RowValues:
        return (self._temperatures(logits, features, domains),)

    def _confidences(self, logits: Array, values: RowValues) -> FloatArray:
        return confidences_at(logits, 1.0 / values[0])

    def _probabilities(self, logits: Array, values: RowValues) -> Array:
        return probabilities_at(logits, 1.0 / values[0])

    def _row_temperatures(self, values: RowValues, n_rows: int) -> FloatArray | None:
        return repeated_rows(values[0], n_rows)
