"""TransCal: the temperature at which the confidence of a batch equals its estimated accuracy."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import brentq

from domaincal._tensors import host_array
from domaincal._typing import Array, ArrayLike, FloatArray, IntArray
from domaincal._validation import check_finite_logits
from domaincal.calibrators.baselines.source_calibrator import SourceCalibrator
from domaincal.calibrators.inputs import TrainingRows
from domaincal.calibrators.softmax import confidences_at, top_scores
from domaincal.errors import InputError
from domaincal.kernels.row_groups import rows_of_codes

#: Candidates for lambda, the power of the weights.
LAMBDAS = np.linspace(0.0, 1.0, 21)
# Weights are limited to exp of this number: their squares, divided by small sample weights, are
# finite.
_LARGEST_LOG_WEIGHT = 50.0


class TransCal(SourceCalibrator):
    """Transferable calibration (TransCal; Wang et al. 2020).

    For each unlabelled batch, T is the temperature at which the mean confidence of the batch equals
    its accuracy. The accuracy is estimated from the calibration rows, weighted by the density ratio
    ``w(x)`` of the batch to the calibration rows. The method assumes covariate shift: the batch may
    have other features, but the same probabilities of the classes given the features. ``w`` comes
    from a logistic regression on the features, fitted at prediction.

    At prediction, ``domains`` groups the rows into batches; without domains, all rows are one
    batch.

    Parameters
    ----------
    at_least_one : bool, default False
        Whether T is at least 1, as in the paper. Such a T never raises a confidence, which current
        networks, often underconfident, may need.
    max_rows : int, default 20000
        Maximum number of calibration rows that are kept. Larger data are sampled, with equally many
        rows of each domain if there are domains, and a :class:`SubsampleWarning`. It also limits
        the rows of a batch from which the weights are learned: of a larger batch, evenly spaced
        rows are taken.
    random_state : int, default 0
        Seed of the sample.

    Attributes
    ----------
    accuracy_ : float
        Accuracy of all calibration rows.
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
    With ``h_i`` = 1 if calibration row i is right and 0 if not, the accuracy of the batch is
    estimated in four steps.

    1. Weights ``v_i = w_i^lambda / r``, with ``r = mean(w^lambda) / mean(w)^lambda``. They are the
       density ratio for lambda = 1, and 1 for lambda = 0. Their expectation is 1: exactly at both
       ends, to first order between them. Terms are ``t_i = v_i h_i``.
    2. First control variate, the weight: ``t_i - c1 (v_i - 1)`` with ``c1 = Cov(t, v) / Var(v)``.
       If the mean weight is above 1 by chance, c1 > 0 lowers the estimate.
    3. Second control variate, the hit: then ``- c2 (h_i - accuracy_)``, with c2 the covariance of
       the terms of step 2 with h, divided by Var(h). If the kept rows are more accurate than all
       calibration rows, c2 > 0 lowers the estimate. If all rows are kept, this step changes
       nothing. The estimate is the mean of the terms, limited to [0, 1].
    4. lambda is the one of 0, 0.05, ..., 1 with the smallest estimated mean squared error,
       ``max(0, (a - a_1)^2 - Var(a - a_1)) + Var(a)``. Here a is the estimate, and a_1 that of
       lambda = 1, which has no bias under covariate shift but a large variance if few rows have
       most of the weight. This criterion is ours.

    The mean confidence falls with T, so that T is found by root finding. An accuracy out of reach
    gives a limit of T.

    The logistic regression gives the batch and the calibration rows the same total weight, that of
    the smaller number of rows, and has an L2 penalty of 1/2 on the coefficients of the standardised
    features. With few rows in the batch the penalty dominates, and all weights are nearly equal.

    The model file holds the features of the kept rows, and which of them are right.

    References
    ----------
    Wang et al., Transferable Calibration with Lower Bias and Variance in Domain Adaptation,
    NeurIPS 2020.

    Examples
    --------
    >>> from domaincal import TransCal, make_multi_domain, split_domains
    >>> data, _ = make_multi_domain(n_domains=8, random_state=0)
    >>> known, new = split_domains(data, ["domain-3"])
    >>> calibrator = TransCal().fit(known)
    >>> calibrator.predict_proba(new).shape == new.logits.shape
    True
    """

    accuracy_: float
    _hits: Array
    _total_weight: float
    _lowest: float

    def __init__(
        self, *, at_least_one: bool = False, max_rows: int = 20_000, random_state: int = 0
    ) -> None:
        super().__init__(max_rows=max_rows, random_state=random_state)
        self.at_least_one = at_least_one

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not isinstance(self.at_least_one, bool | np.bool_):
            raise InputError(f"at_least_one must be True or False, got {self.at_least_one!r}.")

    def _learn(self, rows: TrainingRows) -> None:
        kept = self._keep_source(rows)
        hits = top_scores(rows.logits)[1] == host_array(rows.labels)
        weight = np.ones(len(hits)) if rows.weight is None else rows.weight
        self._hits = hits[kept]
        self._total_weight = float(weight.sum())
        self.accuracy_ = min(1.0, float(hits @ weight) / self._total_weight)
        self._lowest = max(1.0, self.limits_[0]) if self.at_least_one else self.limits_[0]

    def _batch_temperatures(
        self, logits: Array, features: ArrayLike | None, codes: IntArray, n_batches: int
    ) -> FloatArray:
        x = self._prediction_features(features, len(logits))
        check_finite_logits(logits)  # an error in a batch would not name the row of the call
        temperatures = np.empty(n_batches)
        of_batch = rows_of_codes(codes, n_batches)
        for k, log_weight in enumerate(self._log_weights(x, codes, n_batches)):
            batch = logits if n_batches == 1 else logits[of_batch[k]]
            accuracy = weighted_accuracy(
                log_weight,
                self._hits,
                self._source.weight,
                accuracy=self.accuracy_,
                total_weight=self._total_weight,
            )[0]
            temperatures[k] = self._temperature(batch, accuracy)
        return temperatures

    def _temperature(self, logits: Array, accuracy: float) -> float:
        """Temperature at which the mean confidence is the accuracy; a limit if there is none."""
        low, high = self._lowest, max(self._lowest, self.limits_[1])

        def excess(u: float) -> float:
            confidence = host_array(confidences_at(logits, np.array([np.exp(-u)])))
            return float(confidence.mean(dtype=np.float64)) - accuracy

        # The first evaluation also checks that the logits are finite.
        if excess(np.log(low)) <= 0:
            return low
        if excess(np.log(high)) >= 0:
            return high
        root = brentq(excess, np.log(low), np.log(high), xtol=1e-12, rtol=1e-14)
        return float(np.clip(np.exp(root), low, high))

    def _facts(self) -> dict[str, str]:
        return {**super()._facts(), "accuracy": f"{self.accuracy_:.4g} on the calibration rows"}


def weighted_accuracy(
    log_weight: FloatArray,
    hits: Array,
    sample_weight: FloatArray,
    *,
    accuracy: float,
    total_weight: float,
) -> tuple[float, float]:
    """Estimated accuracy of a batch, and the chosen lambda, by the steps of :class:`TransCal`.

    Parameters
    ----------
    log_weight : array of shape (n,)
        Logarithm of the density ratio of each row.
    hits : boolean array of shape (n,)
    sample_weight : array of shape (n,)
        Number of rows that each row counts as.
    accuracy, total_weight : float
        Accuracy and total weight of all rows, of which the n rows are a sample.

    Examples
    --------
    >>> import numpy as np
    >>> hits = np.array([True, True, False, False])
    >>> equal = weighted_accuracy(np.zeros(4), hits, np.ones(4), accuracy=0.5, total_weight=4.0)
    >>> equal
    (0.5, 0.0)
    """
    share = sample_weight / sample_weight.sum()
    h = hits.astype(np.float64)
    f = np.clip(log_weight, -_LARGEST_LOG_WEIGHT, _LARGEST_LOG_WEIGHT)[None]
    powers = np.exp(LAMBDAS[:, None] * f)
    v = powers / powers.dot(share)[:, None] * (powers[-1] @ share) ** LAMBDAS[:, None]
    terms, _ = _control(v * h, v, 1.0, share)
    terms, c2 = _control(terms, np.broadcast_to(h, v.shape), accuracy, share)
    estimates = np.clip(terms @ share, 0.0, 1.0)

    # Sums of the kept rows, and the accuracy of all rows, which c2 brings in.
    variance_of_hits = accuracy * (1.0 - accuracy) / total_weight
    n = sample_weight.sum()

    def variance(of: FloatArray, of_c2: FloatArray) -> FloatArray:
        return np.asarray(_covariance(of, of, share) / n + of_c2**2 * variance_of_hits)

    bias = (estimates - estimates[-1]) ** 2 - variance(terms - terms[-1], c2 - c2[-1])
    errors = np.maximum(bias, 0.0) + variance(terms, c2)
    best = int(np.argmin(errors))
    return float(estimates[best]), float(LAMBDAS[best])


def _control(
    terms: FloatArray, variate: FloatArray, mean: float, share: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Terms minus the control variate, whose expectation is ``mean``, and its coefficients."""
    variance = _covariance(variate, variate, share)
    usable = variance > 0
    c = np.where(usable, _covariance(terms, variate, share) / np.where(usable, variance, 1.0), 0.0)
    return terms - c[:, None] * (variate - mean), c


def _covariance(a: Any, b: Any, share: FloatArray) -> FloatArray:
    """Weighted covariance of the entries of each row."""
    a = a - (a @ share)[:, None]
    b = b - (b @ share)[:, None]
    return np.asarray((a * b) @ share)
