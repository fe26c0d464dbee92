"""CPCS: temperature scaling of calibration rows that are weighted to resemble a batch."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq

from domaincal._tensors import host_array
from domaincal._typing import Array, ArrayLike, FloatArray, IntArray
from domaincal.calibrators.baselines.source_calibrator import SourceCalibrator
from domaincal.calibrators.heads.regression_problem import as_floats
from domaincal.calibrators.inputs import TrainingRows
from domaincal.statistics.blocks import row_blocks

# Temperatures from which the search for the minimum starts, evenly spaced in log T.
_GRID_SIZE = 25
# Size of the float64 probabilities that are computed at a time.
_BLOCK_BYTES = 1 << 22


class CPCS(SourceCalibrator):
    """Calibrated prediction with covariate shift (CPCS; Park et al. 2020).

    For each unlabelled batch, the calibration rows are weighted by the density ratio ``w(x)`` of
    the batch to the calibration rows, and T minimises their weighted Brier score::

        sum_i w(x_i) sum_j (p_ij - 1{y_i = j})^2,    p_i = softmax(z_i / T)

    The method assumes covariate shift: the batch may have other features, but the same
    probabilities of the classes given the features. ``w`` comes from a logistic regression on the
    features, fitted at prediction. See the notes for how small batches are treated.

    At prediction, ``domains`` groups the rows into batches; without domains, all rows are one
    batch.

    Parameters
    ----------
    max_rows : int, default 20000
        Maximum number of calibration rows that are kept. Larger data are sampled, with equally many
        rows of each domain if there are domains, and a :class:`SubsampleWarning`. It also limits
        the rows of a batch from which the weights are learned: of a larger batch, evenly spaced
        rows are taken.
    random_state : int, default 0
        Seed of the sample.

    Attributes
    ----------
    temperature_ : float
        Temperature of all calibration rows with equal weights, as in :class:`TemperatureScaling`.
    limits_ : (low, high)
        Limits of T: 0.01 and 100 times the mean standard deviation of the logits of a row.
    n_rows_ : int
        Number of calibration rows that are kept.
    feature_columns_ : tuple of str or None
        Names of the features, if the data of the fit had names.
    n_classes_ : int
        Number of classes.
    class_names_ : tuple of str or None
        Names of the classes, if the data of the fit had names.

    Notes
    -----
    The logistic regression tells the batch from the calibration rows. It gives both the same total
    weight, that of the smaller number of rows, and has an L2 penalty of 1/2 on the coefficients of
    the standardised features. With few rows in the batch the penalty dominates, all weights are
    nearly equal, and T is near the minimum of the unweighted Brier score.

    An integer ``sample_weight`` is the same as repeating the row, unless a batch has more rows than
    there are calibration rows, whose number then sets the strength of the penalty.

    The model file holds the features, logits and labels of the kept rows.

    References
    ----------
    Park et al., Calibrated Prediction with Covariate Shift via Unsupervised Domain Adaptation,
    AISTATS 2020.

    Examples
    --------
    >>> from domaincal import CPCS, make_multi_domain, split_domains
    >>> data, _ = make_multi_domain(n_domains=8, random_state=0)
    >>> known, new = split_domains(data, ["domain-3"])
    >>> calibrator = CPCS().fit(known)
    >>> calibrator.predict_proba(new).shape == new.logits.shape
    True
    """

    _logits: Array
    _labels: IntArray

    def _learn(self, rows: TrainingRows) -> None:
        kept = self._keep_source(rows)
        # Relative to the largest logit, which loses no precision in single precision.
        z = as_floats(host_array(rows.logits[kept]))
        self._logits = z - z.max(axis=1, keepdims=True)
        self._labels = rows.labels[kept].astype(np.int64)

    def _batch_temperatures(
        self, logits: Array, features: ArrayLike | None, codes: IntArray, n_batches: int
    ) -> FloatArray:
        x = self._prediction_features(features, len(logits))
        low, high = self.limits_
        grid = np.linspace(np.log(low), np.log(high), _GRID_SIZE)
        scores = np.stack([self._brier_scores(u)[0] for u in grid])
        temperatures = np.empty(n_batches)
        for k, log_weight in enumerate(self._log_weights(x, codes, n_batches)):
            # The minimum is that of any multiple of the weights.
            weight = self._source.weight * np.exp(log_weight - log_weight.max())
            weight /= weight.sum()
            temperatures[k] = np.exp(self._minimum(grid, scores @ weight, weight))
        return np.clip(temperatures, low, high)

    def _minimum(self, grid: FloatArray, values: FloatArray, weight: FloatArray) -> float:
        """Minimum of the weighted Brier score in log T, between the neighbours of the best point.

        A minimum at a limit of T is returned as it is.
        """
        best = int(np.argmin(values))
        left, right = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]

        def slope(u: float) -> float:
            return float(self._brier_scores(u)[1] @ weight)

        if not slope(left) < 0 < slope(right):
            return float(grid[best])
        return float(brentq(slope, left, right, xtol=1e-12, rtol=1e-14))

    def _brier_scores(self, u: float) -> tuple[FloatArray, FloatArray]:
        """Brier score of each kept row at T = exp(u), and its derivative in u.

        With ``m = sum_j p_j z_j``, the derivative of ``p_j`` in u is ``-p_j (z_j - m) / T``.
        """
        beta = np.exp(-u)
        score, slope = np.empty(len(self._labels)), np.empty(len(self._labels))
        for block in row_blocks(len(score), 8 * self._logits.shape[1], _BLOCK_BYTES):
            y = self._labels[block]
            index = np.arange(len(y))
            with np.errstate(over="ignore"):
                scaled = np.maximum(beta * self._logits[block].astype(np.float64), -1e300)
            p = np.exp(scaled)
            p /= p.sum(axis=1, keepdims=True)
            error = p.copy()
            error[index, y] -= 1.0
            score[block] = np.einsum("ij,ij->i", error, error)
            mean = np.einsum("ij,ij->i", p, scaled)
            slope[block] = -2.0 * np.einsum("ij,ij,ij->i", error, p, scaled - mean[:, None])
        return score, slope

    def _facts(self) -> dict[str, str]:
        return {**super()._facts(), "weights": "density ratio; T minimises the Brier score"}
