"""Base class of calibrators that weight calibration rows by their similarity to a batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from domaincal._tensors import host_array
from domaincal._typing import Array, FloatArray, IntArray
from domaincal._validation import (
    check_count,
    check_finite_features,
    check_random_state,
)
from domaincal.calibrators.baselines.density_ratio import DensityRatio
from domaincal.calibrators.batch.batch_calibrator import BatchCalibrator
from domaincal.calibrators.features.feature_inputs import FeatureInputs
from domaincal.calibrators.inputs import TrainingRows
from domaincal.calibrators.row_sample import check_max_rows, draw_rows, warn_of_sample
from domaincal.calibrators.temperature import fit_pooled_temperature
from domaincal.errors import InputError
from domaincal.kernels.row_groups import rows_of_codes
from domaincal.statistics.temperature_solver import TEMPERATURE_BOUNDS


class SourceCalibrator(BatchCalibrator, FeatureInputs):
    """Base class of calibrators that keep calibration rows to weight them for each batch.

    Subclasses call ``_keep_source`` in ``_learn`` and ``_log_weights`` in
    ``_batch_temperatures``.

    Attributes
    ----------
    temperature_ : float
        Temperature of all calibration rows with equal weights.
    limits_ : (low, high)
        Limits of T: 0.01 and 100 times the mean standard deviation of the logits of a row.
    n_rows_ : int
        Number of calibration rows that are kept.
    """

    max_rows: int
    random_state: int
    temperature_: float
    limits_: tuple[float, float]
    n_rows_: int
    _source: DensityRatio
    _max_batch_rows: int

    def __init__(self, *, max_rows: int = 20_000, random_state: int = 0) -> None:
        self.max_rows = max_rows
        self.random_state = random_state

    def _check_parameters(self) -> None:
        check_count(self.max_rows, "max_rows")
        check_random_state(self.random_state)

    def _keep_source(self, rows: TrainingRows) -> IntArray:
        """Keep the features of a sample of the rows; returns the numbers of these rows."""
        x = self._training_features(rows)
        kept = sample_training_rows(
            rows, name=type(self).__name__, max_rows=self.max_rows, random_state=self.random_state
        )
        weight = np.ones(len(kept)) if rows.weight is None else rows.weight[kept]
        source = DensityRatio.fit(host_array(x[kept]), weight)
        pooled = fit_pooled_temperature(rows)
        self.temperature_ = float(pooled.temperature[0])
        # Logits that are equal in every row have T = 1, as in TemperatureScaling.
        scale, bounds = float(pooled.scale[0]), TEMPERATURE_BOUNDS
        self.limits_ = (bounds[0] * scale, bounds[1] * scale) if scale > 0 else (1.0, 1.0)
        self.n_rows_ = len(kept)
        self._source = source
        # A copy for predictions: the parameter can be changed before the next fit.
        self._max_batch_rows = int(self.max_rows)
        return kept

    def _log_weights(
        self, features: Array, codes: IntArray, n_batches: int
    ) -> Iterator[FloatArray]:
        """Logarithm of the density ratio of all kept rows, for each batch."""
        # Here, where an error can name the number of the row in the call, not in its batch.
        check_finite_features(features)

        def some_rows(rows: IntArray) -> IntArray:
            n = min(len(rows), self._max_batch_rows)
            return rows[np.arange(n) * len(rows) // n]

        of_batch = rows_of_codes(codes, n_batches)
        return self._source.log_weights(features[some_rows(rows)] for rows in of_batch)

    def _torch_module(self) -> Any:
        raise InputError(
            f"{type(self).__name__} fits a logistic regression to each batch that it predicts, "
            "which a torch module cannot do; use BatchTemperatureScaling, or call predict_proba, "
            "which takes tensors."
        )

    def _facts(self) -> dict[str, str]:
        return {
            "pooled temperature": f"{self.temperature_:.4g}",
            "calibration rows": f"{self.n_rows_} of {self._n_features} features",
        }


def sample_training_rows(
    rows: TrainingRows, *, name: str, max_rows: int, random_state: int
) -> IntArray:
    """Numbers of the rows with a positive weight; of more than ``max_rows``, of a sample.

    If there are domains, the sample has equally many rows of each. A sample gives a warning in the
    name of the calibrator.
    """
    codes, names = rows.domain_codes(needed_by=name)
    seed = int(check_random_state(random_state).integers(1 << 31))
    check_max_rows(max_rows, len(names))
    everything = np.ones(len(names), bool)
    kept, n_available = draw_rows(
        codes, everything, rows.weight, max_rows=max_rows, random_state=seed
    )
    warn_of_sample(name, len(kept), n_available, max_rows)
    return kept
