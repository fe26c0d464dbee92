"""Base class of calibrators that give all rows of an unlabelled batch one temperature."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from domaincal._tensors import on_device
from domaincal._typing import Array, ArrayLike, FloatArray, IntArray
from domaincal._validation import check_domains
from domaincal.calibrators.base import Calibrator, RowValues
from domaincal.calibrators.batch.blocked_batches import table_of_batches
from domaincal.calibrators.temperature_calibrator import TemperatureCalibrator
from domaincal.data import BlockedRows


class BatchCalibrator(TemperatureCalibrator):
    """Base class of calibrators that predict one temperature for each batch of unlabelled rows.

    A batch is a set of rows from one place. At prediction, ``domains`` only groups the rows: the
    rows of one domain are one batch, and the domain may be new. Without domains, all rows are one
    batch. The temperature of a row therefore depends on the other rows of its batch. Subclasses
    implement ``_learn`` and ``_batch_temperatures``.
    """

    # Whether _batch_values takes the batches of rows on a device. Others get a numpy array.
    _takes_device_batches: ClassVar[bool] = False

    def predicts_batches(self) -> bool:
        """Whether predictions for a row depend on the other rows of its domain."""
        return True

    def block_predictor(self, rows: BlockedRows) -> Calibrator:
        """Table of the temperatures of all batches, whose rows are read in groups of batches."""
        return table_of_batches(self, rows)

    @abstractmethod
    def _batch_temperatures(
        self, logits: Array, features: ArrayLike | None, codes: IntArray, n_batches: int
    ) -> FloatArray:
        """Temperature of each batch, shape (n_batches,); ``codes`` is the batch of each row."""

    def _batch_values(
        self, logits: Array, features: ArrayLike | None, codes: IntArray, n_batches: int
    ) -> tuple[FloatArray, ...]:
        """Arrays of shape (n_batches,): the temperatures, then what else predictions need."""
        return (self._batch_temperatures(logits, features, codes, n_batches),)

    def _prepare(
        self, logits: Array, features: ArrayLike | None, domains: ArrayLike | None
    ) -> RowValues:
        keep = self._takes_device_batches and on_device(logits)
        codes, n_batches = self._batches(domains, len(logits), keep_device=keep)
        values = self._batch_values(logits, features, codes, n_batches)
        if n_batches == 1:
            return values
        if on_device(codes):
            return tuple(codes.send(value)[codes.tensor] for value in values)
        return tuple(value[codes] for value in values)

    def _temperatures(
        self, logits: Array, features: ArrayLike | None, domains: ArrayLike | None
    ) -> FloatArray:
        temperatures: FloatArray = self._prepare(logits, features, domains)[0]
        return temperatures

    def _batches(
        self, domains: ArrayLike | None, n_rows: int, *, keep_device: bool = False
    ) -> tuple[IntArray, int]:
        """Batch of each row, and the number of batches.

        With ``keep_device``, the batches of integers in a tensor stay on its device.
        """
        if domains is None:
            return np.zeros(n_rows, np.int64), 1
        codes, names = check_domains(
            domains, n_rows=n_rows, needed_by=type(self).__name__, keep_device=keep_device
        )
        return codes, len(names)
