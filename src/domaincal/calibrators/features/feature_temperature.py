"""Temperature scaling whose log-temperature is a linear function of the features."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from domaincal._tensors import host_array
from domaincal._typing import Array, ArrayLike, FloatArray, IntArray
from domaincal._validation import (
    check_count,
    check_random_state,
    non_finite_features_error,
)
from domaincal.calibrators.clipped_temperatures import warn_of_clipped_temperatures
from domaincal.calibrators.features.feature_inputs import FeatureInputs
from domaincal.calibrators.features.feature_projection import FeatureProjection
from domaincal.calibrators.features.joint_temperature_fit import JointRows
from domaincal.calibrators.features.row_clusters import RowClusters
from domaincal.calibrators.inputs import TrainingRows
from domaincal.calibrators.row_sample import (
    check_max_rows,
    draw_rows,
    sample_rows,
    warn_of_sample,
)
from domaincal.calibrators.temperature import fit_pooled_temperature
from domaincal.calibrators.temperature_calibrator import TemperatureCalibrator
from domaincal.calibrators.temperature_target import TemperatureTarget
from domaincal.statistics import LinearMap, TemperatureFit
from domaincal.statistics.blas_threads import one_blas_thread
from domaincal.statistics.domain_folds import similar_domain_folds
from domaincal.statistics.temperature_solver import MINIMUM_ROWS

#: Candidates for the penalty, in units of the curvature of the mean NLL in log T. An infinite
#: penalty is temperature scaling.
PENALTIES = (np.inf, 10.0, 1.0, 0.1, 0.01, 0.001)
#: Maximum number of rows of the search.
SEARCH_ROWS = 5000
#: Number of clusters of rows that are left out in turn, if there are no domains.
N_CLUSTERS = 10
# Share of the calibration rows that lie beyond each of the two limits of predicted temperatures.
_TAIL = 0.005


class FeatureTemperatureScaling(FeatureInputs, TemperatureCalibrator):
    """Temperature scaling with a temperature that depends on the features of a row.

    The logarithm of the temperature is a linear function of the features::

        log T(x) = coef . x + intercept

    The coefficients minimise the mean NLL of all rows, with a ridge penalty on standardised
    features (on their first 128 principal components, if there are more). Unlike
    :class:`MultiDomainTemperatureScaling`, no domain needs enough rows for a temperature of its
    own, and the fit needs no domains at all. Predictions need none either.

    The penalty is chosen by the NLL of rows that are unlike those of the fit. With domains, whole
    domains are left out, in at most ten folds of similar domains. Without domains, clusters of
    similar rows (k-means) are left out. The largest penalty is temperature scaling: features that
    tell nothing are ignored.

    Predicted temperatures are limited to what the calibration rows have shown: the 0.5% and the
    99.5% quantile of their fitted temperatures. Rows with features far from those of the fit cannot
    get any other temperature; if more than a tenth of 20 or more rows are at a limit, there is a
    :class:`ClippedTemperatureWarning`.

    Parameters
    ----------
    max_rows : int, default 20000
        Maximum number of rows of the fit. Larger data are sampled, with a
        :class:`SubsampleWarning`; if there are domains, equally many rows of each.
    random_state : int, default 0
        Seed of the sample and of the clusters.

    Attributes
    ----------
    temperature_ : float
        Pooled temperature: one temperature for all rows.
    coef_, intercept_ : array of shape (n_features,), float
        Coefficients and intercept of log T.
    penalty_ : float
        Chosen penalty, in units of the curvature of the mean NLL in log T; infinite if no features
        are used.
    penalty_search_ : DataFrame
        One row for each candidate: penalty, and nll, the mean NLL of the domains or clusters that
        were left out. Empty without a search.
    clip_ : (low, high)
        Limits of the predicted temperatures.
    feature_columns_ : tuple of str or None
        Names of the features, if the data of the fit had names.
    n_classes_ : int
        Number of classes.
    class_names_ : tuple of str or None
        Names of the classes, if the data of the fit had names.

    Examples
    --------
    >>> from domaincal import FeatureTemperatureScaling, make_multi_domain, split_domains
    >>> data, _ = make_multi_domain(n_domains=8, random_state=0)
    >>> known, new = split_domains(data, ["domain-3"])
    >>> calibrator = FeatureTemperatureScaling()
    >>> calibrator = calibrator.fit(known.logits, known.labels, features=known.features)
    >>> calibrator.predict_proba(new).shape == new.logits.shape
    True
    """

    _fits_blocks = True

    temperature_: float
    penalty_: float
    penalty_search_: pd.DataFrame
    clip_: tuple[float, float]
    _map: LinearMap

    def __init__(self, *, max_rows: int = 20_000, random_state: int = 0) -> None:
        self.max_rows = max_rows
        self.random_state = random_state

    @property
    def coef_(self) -> FloatArray:
        """Coefficients of log T."""
        return self._map.coef

    @property
    def intercept_(self) -> float:
        """Intercept of log T."""
        return self._map.intercept

    def _check_parameters(self) -> None:
        check_count(self.max_rows, "max_rows")
        check_random_state(self.random_state)

    def _learn(self, rows: TrainingRows) -> None:
        x = self._training_features(rows)
        codes, names = rows.domain_codes(needed_by=type(self).__name__)
        pooled = fit_pooled_temperature(rows)
        self.temperature_ = float(pooled.temperature[0])
        if pooled.at_bound[0]:
            # The rows do not determine one temperature, still less its slopes.
            self._store_constant(x.shape[1])
            return
        seeds = check_random_state(self.random_state).integers(1 << 31, size=2)
        check_max_rows(self.max_rows, len(names))
        chosen, n_available = draw_rows(
            codes, np.ones(len(names), bool), rows.weight,
            max_rows=self.max_rows, random_state=int(seeds[0]),
        )  # fmt: skip
        with one_blas_thread():  # the matrices are small
            joint, projection = _joint_rows(rows, x, chosen)
            self._fit(joint, codes[chosen], projection, pooled, int(seeds[1]))
        warn_of_sample(type(self).__name__, len(chosen), n_available, self.max_rows)

    def _fit(
        self,
        joint: JointRows,
        codes: IntArray,
        projection: FeatureProjection,
        pooled: TemperatureFit,
        seed: int,
    ) -> None:
        start = np.zeros(joint.features.shape[1] + 1)
        start[-1] = np.log(pooled.temperature[0])
        unit = joint.curvature(start[-1])
        positions = sample_rows(
            np.arange(len(codes)), codes, max_rows=SEARCH_ROWS, random_state=seed
        )
        searched = np.zeros(len(codes), bool)
        searched[positions] = True
        some = joint if searched.all() else joint.select(searched)
        groups, folds = _left_out_groups(some, codes[searched], seed)
        penalties = np.array(PENALTIES)
        if folds.max() == 0:
            self._store_constant(len(projection.centre))
            return
        nll = _left_out_nll(some, groups, folds, penalties * unit)
        best = int(np.argmin(nll))
        theta = start if best == 0 else joint.fit(penalties[best] * unit, start)
        coef, intercept = projection.fold(theta[:-1], theta[-1])
        self._map = LinearMap(coef, float(intercept))
        self.clip_ = _limits(joint.features @ theta[:-1] + theta[-1], joint.share)
        self.penalty_ = float(penalties[best])
        self.penalty_search_ = pd.DataFrame({"penalty": penalties, "nll": nll})

    def _store_constant(self, n_features: int) -> None:
        """Learn the pooled temperature for all rows."""
        self._map = LinearMap(np.zeros(n_features), float(np.log(self.temperature_)))
        self.clip_ = (self.temperature_, self.temperature_)
        self.penalty_ = np.inf
        self.penalty_search_ = pd.DataFrame(columns=["penalty", "nll"])

    def _temperatures(
        self, logits: Array, features: ArrayLike | None, domains: ArrayLike | None
    ) -> FloatArray:
        x = self._prediction_features(features, len(logits))
        values = self._map(x)
        if not np.isfinite(values).all():
            raise non_finite_features_error(x)
        low, high = self.clip_
        n_clipped = int(np.sum((values <= np.log(low)) | (values >= np.log(high))))
        warn_of_clipped_temperatures(n_clipped, len(values), low=low, high=high)
        return TemperatureTarget("log", low, high).to_temperature(values)

    def _torch_module(self) -> Any:
        from domaincal.calibrators.feature_module import FeatureTemperatures
        from domaincal.calibrators.heads.head_modules import head_module

        return FeatureTemperatures(
            type(self).__name__,
            self.n_classes_,
            head_module(self._map),
            TemperatureTarget("log", *self.clip_),
            n_features=self._n_features,
        )

    def _facts(self) -> dict[str, str]:
        low, high = self.clip_
        return {
            "pooled temperature": f"{self.temperature_:.4g}",
            "features": f"{self._n_features}, penalty {self.penalty_:.4g}"
            if np.isfinite(self.penalty_)
            else "not used: every row gets the pooled temperature",
            "limits of T": f"{low:.4g} to {high:.4g}",
        }


def _joint_rows(
    rows: TrainingRows, features: Array, chosen: IntArray
) -> tuple[JointRows, FeatureProjection]:
    """Rows of the joint fit, with projected features, and the projection."""
    share = np.ones(len(chosen)) if rows.weight is None else rows.weight[chosen]
    share = share / share.sum()
    x = np.asarray(features[chosen])
    projection = FeatureProjection.fit(x, share)
    # In float64: the rounding errors of float32 would end the steps before the minimum.
    z = host_array(rows.logits[chosen]).astype(np.float64)
    joint = JointRows(z, rows.labels[chosen], projection(x), share)
    return joint, projection


def _left_out_groups(rows: JointRows, codes: IntArray, seed: int) -> tuple[IntArray, IntArray]:
    """Group of each row, and fold of each group: domains, or clusters if there is one domain."""
    names, groups = np.unique(codes, return_inverse=True)
    if len(names) > 1:
        weight = np.bincount(groups, rows.share)
        means = np.stack([np.bincount(groups, rows.share * x) for x in rows.features.T], axis=1)
        return groups, similar_domain_folds(means / weight[:, None])
    n_clusters = min(N_CLUSTERS, len(codes) // MINIMUM_ROWS)
    if n_clusters < 2:
        return groups, np.zeros(1, np.int64)
    groups = RowClusters.fit(rows.features, n_clusters, seed)(rows.features)
    return groups, np.arange(groups.max() + 1)


def _left_out_nll(
    rows: JointRows, groups: IntArray, folds: IntArray, penalties: FloatArray
) -> FloatArray:
    """Mean NLL of the groups when they are left out, for each penalty; the first is infinite."""
    nll = np.empty((len(penalties), len(folds)))
    for k in range(int(folds.max()) + 1):
        left_out = folds[groups] == k
        train, test = rows.select(~left_out), rows.select(left_out)
        of_test = groups[left_out]
        weight = np.bincount(of_test, test.share, minlength=len(folds))
        theta, constant_is_known = train.fit_constant()
        for c, penalty in enumerate(penalties):
            if c > 0 and constant_is_known:
                theta = train.fit(penalty, theta)
            fitted, predicted = (part.features @ theta[:-1] + theta[-1] for part in (train, test))
            low, high = np.log(_limits(fitted, train.share))
            found = test.share * test.sums(np.clip(predicted, low, high)).nll
            of_group = np.bincount(of_test, found, minlength=len(folds))
            nll[c, folds == k] = of_group[folds == k] / weight[folds == k]
    return np.asarray(nll.mean(axis=1))


def _limits(log_temperatures: FloatArray, share: FloatArray) -> tuple[float, float]:
    """Smallest and largest temperature that may be predicted, from those of calibration rows."""
    order = np.argsort(log_temperatures, kind="stable")
    below = np.cumsum(share[order])
    # Without this factor, rounding would decide where the tail ends exactly at a row.
    positions = np.searchsorted(below / below[-1], np.array([_TAIL, 1.0 - _TAIL]) * (1.0 - 1e-9))
    low, high = log_temperatures[order[positions]]
    return float(np.exp(low)), float(np.exp(high))
