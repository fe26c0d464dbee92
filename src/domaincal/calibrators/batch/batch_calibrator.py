"""Base class of calibrators that give all rows of an unlabelled batch one temperature."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from domaincal._typing import Array, ArrayLike, FloatArray, IntArray
from domaincal._validation import check_domains
from domaincal.calibrators.base import Calibrator, RowValues, TemperatureCalibrator
from domaincal.calibrators.batch.blocked_batches import table_of_batches
from domaincal.data import BlockedRows


class BatchCalibrator(TemperatureCalibrator):
    """Base class of calibrators that predict one temperature for each batch of unlabelled rows.

    A batch is a set of rows from one place. At prediction, ``domains`` only groups the rows: the
    rows of one domain are one batch, and the domain may be new. Without domains, all rows are one
    batch. The temperature of a row therefore depends on the other rows of its batch. Subclasses
    implement ``_learn`` and ``_batch_temperatures``.
    """

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
        codes, n_batches = self._batches(domains, len(logits))
        values = self._batch_values(logits, features, codes, n_batches)
        return values if n_batches == 1 else tuple(value[codes] for value in values)

    def _temperatures(
        self, logits: Array, features: ArrayLike | None, domains: ArrayLike | None
    ) -> FloatArray:
        temperatures: FloatArray = self._prepare(logits, features, domains)[0]
        return temperatures

    def _batches(self, domains: ArrayLike | None, n_rows: int) -> tuple[IntArray, int]:
        """Batch of each row, and the number of batches."""
        if domains is None:
            return np.zeros(n_rows, np.int64), 1
        codes, names = check_domains(domains, n_rows=n_rows, needed_by=type(self).__name__)
        return codes, len(names)
