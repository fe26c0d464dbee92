"""DAC: a temperature that rises with the distance of a row from the calibration rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from sklearn.neighbors import NearestNeighbors

from domaincal._tensors import host_array
from domaincal._typing import Array, ArrayLike, FeatureMatrix, FloatArray
from domaincal._validation import (
    check_count,
    check_random_state,
    non_finite_features_error,
)
from domaincal.calibrators.baselines.source_calibrator import sample_training_rows
from domaincal.calibrators.features.feature_inputs import FeatureInputs
from domaincal.calibrators.heads.block_predictions import predict_blocks
from domaincal.calibrators.heads.regression_problem import as_floats
from domaincal.calibrators.inputs import TrainingRows
from domaincal.calibrators.temperature import fit_pooled_temperature
from domaincal.calibrators.temperature_calibrator import TemperatureCalibrator
from domaincal.statistics import LabelledRows, TemperatureFit
from domaincal.statistics.blas_threads import one_blas_thread
from domaincal.statistics.blocks import run_in_new_thread
from domaincal.statistics.feature_products import feature_blocks
from domaincal.statistics.temperature_solver import TEMPERATURE_BOUNDS


@dataclass(frozen=True, eq=False)
class NeighbourDistance:
    """Distance of L2-normalised features to their k-th nearest neighbour among given rows.

    Attributes
    ----------
    rows : array of shape (n_rows, n_features)
        L2-normalised features of the calibration rows, in float32 if the features are.
    n_neighbors : int
        k.

    Examples
    --------
    >>> import numpy as np
    >>> distance = NeighbourDistance(np.eye(2), n_neighbors=1)
    >>> distance(np.array([[3.0, 0.0]])).tolist()
    [0.0]
    """

    rows: Array
    n_neighbors: int

    def __call__(self, features: FeatureMatrix) -> FloatArray:
        """Distance of each row, from 0 to 2; NaN for features that are not finite."""

        def distances(x: Array) -> FloatArray:
            return self._kth_distances(normalised(x), self.n_neighbors)

        blocks = feature_blocks(*features.shape)
        return predict_blocks(distances, features, blocks, dtype=self.rows.dtype)

    def leave_one_out(self) -> FloatArray:
        """Distance of each of the rows, which is not its own neighbour."""
        if len(self.rows) == 1:
            return np.zeros(1)
        # The nearest row, at distance 0, is the row itself or one that equals it.
        return self._kth_distances(self.rows, self.n_neighbors + 1)

    def _kth_distances(self, x: Array, k: int) -> FloatArray:
        search = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(self.rows)
        with one_blas_thread():
            found, _ = run_in_new_thread(lambda: search.kneighbors(x))
        return np.minimum(np.asarray(found[:, -1], np.float64), 2.0)


def normalised(x: Array) -> Array:
    """Rows of length 1; rows of zeros stay zeros. float32 stays float32."""
    x = as_floats(x)
    # Squares of very large and very small features would overflow or be rounded to 0.
    size = np.abs(x).max(axis=1, keepdims=True)
    x = x / np.where(size > 0, size, 1)
    length = np.sqrt(np.einsum("ij,ij->i", x, x, dtype=np.float64))[:, None]
    return np.clip(x / np.where(length > 0, length, 1.0), -1.0, 1.0).astype(x.dtype)


class DAC(TemperatureCalibrator, FeatureInputs):
    """Density-aware calibration (DAC; Tomani et al. 2023).

    The temperature of a row rises with its distance from the calibration rows, where the network
    knows less: ``T(x) = w0 + w1 d(x)`` with ``w1 >= 0``. ``d(x)`` is the distance of the
    L2-normalised features to their k-th nearest neighbour among the features of the calibration
    rows. ``w0`` and ``w1`` minimise the NLL of the calibration rows, each of which is not its own
    neighbour. Predictions are for single rows and need no domains.

    Parameters
    ----------
    n_neighbors : int, default 50
        k. The authors use 10 to 200. It is limited to the number of other calibration rows.
    max_rows : int, default 20000
        Maximum number of calibration rows. Larger data are sampled, with equally many rows of each
        domain if there are domains, and a :class:`SubsampleWarning`.
    random_state : int, default 0
        Seed of the sample.

    Attributes
    ----------
    intercept_, coef_ : float
        w0 and w1. w0 is at least 0.01 times the mean standard deviation of the logits of a row,
        which keeps T positive.
    temperature_ : float
        One temperature for all calibration rows, as in :class:`TemperatureScaling`.
    n_neighbors_ : int
        k, limited to the number of other calibration rows.
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
    ``sample_weight`` weights the NLL. A repeated row is two neighbours of the others and a weighted
    row is one: their fits differ.

    If the distances are all equal, or no temperature can be fitted (a :class:`BoundaryWarning`),
    w1 is 0 and w0 is the temperature of :class:`TemperatureScaling`. The model file holds the
    features of the kept rows.

    References
    ----------
    Tomani et al., Beyond In-Domain Scenarios: Robust Density-Aware Calibration, ICML 2023.

    Examples
    --------
    >>> from domaincal import DAC, make_multi_domain, split_domains
    >>> data, _ = make_multi_domain(n_domains=8, random_state=0)
    >>> known, new = split_domains(data, ["domain-3"])
    >>> calibrator = DAC().fit(known)
    >>> calibrator.predict_proba(new).shape == new.logits.shape
    True
    """

    _fits_blocks = True

    intercept_: float
    coef_: float
    temperature_: float
    _distance: NeighbourDistance

    def __init__(
        self, *, n_neighbors: int = 50, max_rows: int = 20_000, random_state: int = 0
    ) -> None:
        self.n_neighbors = n_neighbors
        self.max_rows = max_rows
        self.random_state = random_state

    @property
    def n_neighbors_(self) -> int:
        """Number of the neighbour whose distance is taken."""
        return self._distance.n_neighbors

    @property
    def n_rows_(self) -> int:
        """Number of calibration rows that are kept."""
        return len(self._distance.rows)

    def _check_parameters(self) -> None:
        check_count(self.n_neighbors, "n_neighbors")
        check_count(self.max_rows, "max_rows")
        check_random_state(self.random_state)

    def _learn(self, rows: TrainingRows) -> None:
        x = self._training_features(rows)
        kept = sample_training_rows(
            rows, name="DAC", max_rows=self.max_rows, random_state=self.random_state
        )
        weight = None if rows.weight is None else rows.weight[kept]
        # float64: rounding in the compiled kernels would stop the search too early.
        z = rows.logits[kept].astype(np.float64)
        some = TrainingRows(z, rows.labels[kept], None, None, weight)
        pooled = fit_pooled_temperature(some)
        k = min(self.n_neighbors, max(1, len(kept) - 1))
        distance = NeighbourDistance(normalised(host_array(x[kept])), k)
        self.intercept_, self.coef_ = fit_line(some, distance.leave_one_out(), pooled)
        self.temperature_ = float(pooled.temperature[0])
        self._distance = distance

    def _temperatures(
        self, logits: Array, features: ArrayLike | None, domains: ArrayLike | None
    ) -> FloatArray:
        x = self._prediction_features(features, len(logits))
        distances = self._distance(x)
        if not np.isfinite(distances).all():
            raise non_finite_features_error(x)
        return self.intercept_ + self.coef_ * distances

    def _torch_module(self) -> Any:
        from domaincal.calibrators.baselines.density_module import DensityTemperatures

        return DensityTemperatures(
            type(self).__name__,
            self.n_classes_,
            self._distance.rows,
            n_neighbors=self.n_neighbors_,
            coef=self.coef_,
            intercept=self.intercept_,
        )

    def _facts(self) -> dict[str, str]:
        return {
            "temperature": f"{self.intercept_:.4g} + {self.coef_:.4g} * distance to neighbour "
            f"{self.n_neighbors_}",
            "calibration rows": f"{self.n_rows_} of {self._n_features} features",
        }


def fit_line(
    rows: TrainingRows, distances: FloatArray, pooled: TemperatureFit
) -> tuple[float, float]:
    """Intercept and coefficient of ``T = w0 + w1 d`` that minimise the NLL; w1 >= 0.

    ``pooled`` is the fit of one temperature, from which the search starts.
    """
    start = float(pooled.temperature[0])
    weight = np.ones(len(distances)) if rows.weight is None else rows.weight
    share = weight / weight.sum()
    typical = float(share @ distances)
    if pooled.at_bound[0] or not np.ptp(distances) > 1e-6 * typical:
        return start, 0.0
    relative = distances / typical
    n = len(distances)
    labelled = LabelledRows(rows.logits, rows.labels, np.arange(n), n)  # a domain for each row

    def objective(line: FloatArray) -> tuple[float, FloatArray]:
        t = start * (line[0] + line[1] * relative)
        sums = labelled.sums(1.0 / t)
        # d NLL / dT = -slope / T^2
        of_t = -share * sums.slope / t * (start / t)
        return float(share @ sums.nll), np.array([of_t.sum(), of_t @ relative])

    low, high = (bound * float(pooled.scale[0]) / start for bound in TEMPERATURE_BOUNDS)
    found = minimize(
        objective, np.array([1.0, 0.0]), jac=True, method="L-BFGS-B",
        bounds=[(low, high), (0.0, high)],
        options={"gtol": 1e-11, "ftol": 0.0, "maxiter": 500, "maxls": 40},
    )  # fmt: skip
    return start * float(found.x[0]), start * float(found.x[1]) / typical
