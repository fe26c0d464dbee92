"""Sums over unlabelled rows from which the temperature, accuracy and verdict of a batch follow."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
from numpy.polynomial.chebyshev import chebpts1, chebvander

from domaincal._tensors import host_array
from domaincal._typing import Array, FloatArray, IntArray
from domaincal._validation import check_features, check_finite_features
from domaincal._warnings import handle_warnings
from domaincal.calibrators import BatchTemperatureScaling
from domaincal.calibrators.batch.batch_map import n_statistics
from domaincal.calibrators.batch.batch_rows import row_values
from domaincal.data import CalibrationData
from domaincal.errors import InputError
from domaincal.shift import ConfidenceEstimator, GapHistograms
from domaincal.shift.gap_histograms import BIN_EDGES, PAIRS, count_bins, gap_bins
from domaincal.statistics.batch_sums import HISTOGRAM_EDGES, LOGIT_STATISTICS, BatchSums

#: Columns of the number of rows, and of the sum of the squared weights of the rows.
N, SQUARES = 0, 1
# Largest error of the interpolated confidence of a row, up to a small factor. That of the mean of
# several rows is far smaller.
_TOLERANCE = 1e-4
# Values of the logits of a row in BatchSums; values of the features follow.
_N_LOGIT_VALUES = 6


class MonitoredSums:
    """Layout of the sums of a batch as one vector, and what follows from them.

    The vectors of two parts of a batch can be added, and multiplied by a factor to forget. They
    hold the sums of the batch statistics of :class:`BatchTemperatureScaling`, the histograms that
    the verdict compares, and the sums of the confidences at some temperatures between the limits
    of the calibrator (14 of them for 10 classes and limits with a ratio of 10). The mean
    confidence at any other temperature is interpolated.

    Parameters
    ----------
    estimator : ConfidenceEstimator
        Fitted with :class:`BatchTemperatureScaling`.
    """

    def __init__(self, estimator: ConfidenceEstimator) -> None:
        self.estimator = estimator
        self.calibrator = _batch_calibrator(estimator)
        directions = self.calibrator.feature_directions_
        self._n_features = None if directions is None else len(directions.mean)
        n_values = _N_LOGIT_VALUES + n_statistics(directions) - len(LOGIT_STATISTICS)
        n_gaps = len(PAIRS) * (len(BIN_EDGES) - 1)
        low, high = self.calibrator.batch_map_.low, self.calibrator.batch_map_.high
        self._middle, self._half_range = (low + high) / 2.0, (high - low) / 2.0
        points = chebpts1(_n_points(self._half_range, estimator.n_classes_))
        self._betas = np.exp(-(self._middle + self._half_range * points))
        self._from_points = np.linalg.inv(chebvander(points, len(points) - 1))
        lengths = (
            1, 1, n_values, estimator.n_classes_, len(HISTOGRAM_EDGES) - 1, n_gaps, len(points)
        )  # fmt: skip
        ends = np.cumsum(lengths)
        self._ends, self.width = ends[:-1], int(ends[-1])

    def features(self, data: CalibrationData) -> Array | None:
        """Checked features of rows; None if the calibrator uses none."""
        if self._n_features is None:
            return None
        x = check_features(
            data.features, n_rows=len(data), n_features=self._n_features,
            needed_by="TemperatureMonitor",
        )  # fmt: skip
        check_finite_features(x)
        return x

    def of_rows(
        self,
        logits: Array,
        features: Array | None,
        batch: IntArray,
        n_batches: int,
        weight: FloatArray,
    ) -> FloatArray:
        """Sums of the rows of each batch, shape (n_batches, width)."""
        z = host_array(logits)
        # The numpy kernels for any number of rows: sums must not depend on the size of a block.
        gaps = count_bins(gap_bins(z, self.estimator.temperature_), batch, n_batches, weight)
        sums = row_values(
            z, features, slice(None),
            beta=1.0 / self.calibrator.temperature_,
            directions=self.calibrator.feature_directions_,
        ).sums(batch, n_batches, weight=weight)  # fmt: skip
        indicator = scipy.sparse.csr_array(
            (weight, (batch, np.arange(len(z)))), shape=(n_batches, len(z))
        )
        squares = np.bincount(batch, weight**2, minlength=n_batches).astype(np.float64)
        confidences = np.asarray(indicator @ self._confidences(z).T)
        return np.column_stack(
            [sums.n, squares, sums.values, sums.probabilities, sums.histogram,
             gaps.reshape(n_batches, -1), confidences]
        )  # fmt: skip

    def table(
        self, names: list[Any], sums: FloatArray, warn: Callable[[Any, str, type[Warning]], None]
    ) -> pd.DataFrame:
        """Table of :meth:`TemperatureMonitor.status`; ``warn`` gets the name of a batch, too."""
        batch, gaps, _ = self.split(sums)
        n = effective_n(sums)
        found = [
            self._prediction(name, row, n_rows, warn)
            for name, row, n_rows in zip(names, batch.statistics(), n, strict=True)
        ]
        log_t, error = np.array(found).reshape(-1, 2).T
        accuracy = self.mean_confidences(sums, log_t)
        # Names in one column of objects: they can be integers and texts.
        column = np.empty(len(names), object)
        column[:] = names
        table = self.estimator.table(column, n, accuracy, gaps)
        table["n"] = np.rint(n).astype(np.int64)
        table.insert(2, "temperature", np.exp(log_t))
        table.insert(3, "temperature_error", error)
        return table

    def mean_confidences(self, sums: FloatArray, log_temperatures: FloatArray) -> FloatArray:
        """Mean confidence of each batch at a temperature between the limits of the calibrator."""
        x = np.zeros(len(sums))
        if self._half_range:
            x = (log_temperatures - self._middle) / self._half_range
        shares = chebvander(x, len(self._betas) - 1) @ self._from_points
        confidences = self.split(sums)[2]
        means = (shares * confidences).sum(axis=1) / sums[:, N]
        return np.asarray(np.clip(means, 0.0, 1.0))

    def split(self, sums: FloatArray) -> tuple[BatchSums, GapHistograms, FloatArray]:
        """Sums and histograms of each batch, and its confidences at the temperatures."""
        n, _, values, probabilities, histogram, gaps, confidences = np.split(
            sums, self._ends, axis=1
        )
        counts = gaps.reshape(len(sums), len(PAIRS), len(BIN_EDGES) - 1)
        return (
            BatchSums(n[:, 0], values, probabilities, histogram),
            GapHistograms(self.estimator.temperature_, counts),
            confidences,
        )

    def _confidences(self, z: Array) -> FloatArray:
        """Confidence of each row at each of the temperatures, shape (n_points, n)."""
        # Classes first: numpy adds a few long rows faster than many short ones.
        d = np.array(z.T, np.float64, order="C")
        d -= d.max(axis=0)
        with np.errstate(over="ignore"):
            return np.stack([1.0 / np.exp(beta * d).sum(axis=0) for beta in self._betas])

    def _prediction(
        self,
        name: Any,
        statistics: FloatArray,
        n: float,
        warn: Callable[[Any, str, type[Warning]], None],
    ) -> tuple[float, float]:
        """Log T of a batch, and its standard error."""
        with handle_warnings(lambda message, category: warn(name, message, category)):
            found = self.calibrator.batch_predictions(statistics[None], np.array([n]))
        return float(found.log_temperature[0]), float(found.log_error[0])


def _n_points(half_range: float, n_classes: int) -> int:
    """Number of Chebyshev points in an interval of log T.

    As a function of log T, the confidence ``1 / (1 + sum_j exp(-margin_j / T))`` is analytic up to
    a distance of ``atan(pi / log(n_classes - 1))`` from the real line, which is reached if all
    margins are equal. The error of interpolation at n points falls as ``rho**-n`` with
    ``log(rho) = asinh(distance / half_range)``.

    Examples
    --------
    >>> import numpy as np
    >>> [_n_points(np.log(ratio) / 2, 10) for ratio in (1.0, 10.0, 1000.0)]
    [1, 14, 35]
    """
    if half_range <= 0.0:
        return 1
    distance = math.atan2(math.pi, math.log(n_classes - 1))
    return 1 + math.ceil(-math.log(_TOLERANCE) / math.asinh(distance / half_range))


def effective_n(sums: FloatArray) -> FloatArray:
    """Number of rows of equal weight that tell as much as the rows of each batch."""
    return np.asarray(sums[:, N] ** 2 / sums[:, SQUARES])


def _batch_calibrator(estimator: Any) -> BatchTemperatureScaling:
    if not isinstance(estimator, ConfidenceEstimator):
        raise InputError(
            f"estimator must be a ConfidenceEstimator, got {type(estimator).__name__}; fit "
            "domaincal.shift.ConfidenceEstimator(), or load it with domaincal.shift.load_estimator."
        )
    calibrator = getattr(estimator, "calibrator_", None)
    if calibrator is None:
        raise InputError("the estimator is not fitted; call its fit with labelled rows first.")
    if type(calibrator) is not BatchTemperatureScaling or calibrator._single_rows:
        raise InputError(
            f"an estimator with {calibrator!r} cannot be monitored, because its temperatures do "
            "not follow from sums over rows; fit ConfidenceEstimator() with its default "
            "calibrator, BatchTemperatureScaling()."
        )
    return calibrator
