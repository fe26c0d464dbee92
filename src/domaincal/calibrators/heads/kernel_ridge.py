"""Kernel ridge head with a Gaussian kernel, exact or by Nystroem's approximation."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge

from domaincal._tensors import on_device
from domaincal._typing import Array, FeatureMatrix, FloatArray, IntArray
from domaincal._validation import non_finite_features_error
from domaincal.calibrators.heads.block_predictions import predict_blocks, predict_on_device
from domaincal.calibrators.heads.grid_search import search_candidates
from domaincal.calibrators.heads.regression_problem import SEARCH_ROWS, HeadFit, HeadProblem
from domaincal.kernels import torch_maps
from domaincal.statistics.blas_threads import one_blas_thread
from domaincal.statistics.blocks import Workers, row_blocks
from domaincal.statistics.positive_definite import solve_positive_definite

#: Candidates for alpha divided by the number of rows: the penalty of the mean squared residual.
ALPHA_GRID = (1e-5, 1e-4, 1e-3, 1e-2)
#: Candidates for gamma, in units of 1 / (mean squared distance of two rows).
GAMMA_GRID = (0.0625, 0.25, 1.0, 4.0)
#: Above this number of reference rows, float32 features are not converted to float64.
SINGLE_PRECISION_ABOVE = 4096
# Candidate taken without a search: (gamma, alpha) in the units of the grids.
_DEFAULT_CANDIDATE = (0.25, 1e-3)
# Size of the kernel between a block of rows and all reference rows; fits into the cache.
_BLOCK_BYTES = 1 << 22
# Mean squared distance of two rows below which they count as identical.
_SMALLEST_UNIT = 1e-298


@dataclass(frozen=True, eq=False)
class KernelMap:
    """``sum_j dual_j exp(-gamma |x - rows_j|**2) + intercept``, in the precision of ``rows``."""

    rows: Array
    dual: FloatArray
    gamma: float
    intercept: float = 0.0

    def __call__(self, features: FeatureMatrix) -> FloatArray:
        """Predicted value of each row."""
        first = features[:1]
        if on_device(first):
            device_rows, device_dual = first.send(self.rows), first.send(self.dual)
            device_kernel = torch_maps.GaussianKernel(device_rows, self.gamma)
            values = predict_on_device(
                lambda x: device_kernel(x) @ device_dual, features, reference=self.rows
            )
            return values + self.intercept
        kernel = GaussianKernel(self.rows, self.gamma)
        dual = self.dual.astype(self.rows.dtype)
        blocks = row_blocks(len(features), self.rows.dtype.itemsize * len(dual), _BLOCK_BYTES)
        with one_blas_thread(), Workers() as workers:
            values = predict_blocks(
                lambda x: kernel(x) @ dual, features, blocks, workers, self.rows.dtype
            )
        return values + self.intercept


class GaussianKernel:
    """``exp(-gamma |x_i - rows_j|**2)`` between given rows x and reference rows.

    The exponent ``2 gamma x'y - gamma |x|**2 - gamma |y|**2`` is a single matrix product, with
    two additional columns for the squares. The mean is subtracted from the features first, to
    reduce cancellation.
    """

    def __init__(self, rows: Array, gamma: float) -> None:
        self.centre = rows.mean(axis=0, dtype=np.float64).astype(rows.dtype)
        root = min(float(np.sqrt(2.0 * gamma)), float(np.finfo(rows.dtype).max))
        self.root = rows.dtype.type(root)
        y, squares = self._scaled(rows)
        self.right = np.concatenate([y, np.ones_like(squares), squares], axis=1).T

    def __call__(self, x: Array) -> Array:
        """Kernel between each given row and each reference row."""
        scaled, squares = self._scaled(x)
        k = np.concatenate([scaled, squares, np.ones_like(squares)], axis=1) @ self.right
        np.minimum(k, 0.0, out=k)  # the rounding of large squares could make it positive
        return np.asarray(np.exp(k, out=k))

    def _scaled(self, x: Array) -> tuple[Array, Array]:
        with np.errstate(over="ignore"):
            scaled = (x - self.centre).astype(self.centre.dtype) * self.root
            squares = -0.5 * np.einsum("ij,ij->i", scaled, scaled)[:, None]
        limit = -np.finfo(squares.dtype).max / 8  # sums of squares and products stay finite
        far = ~(squares[:, 0] > limit)
        if far.any():  # too far to be squared: the kernel is 0
            scaled[far], squares[far] = 0.0, limit
        return scaled, squares


def fit_kernel_ridge(problem: HeadProblem, *, max_rows: int, nystroem: int | None) -> HeadFit:
    """Fit kernel ridge regression; the search chooses alpha and gamma.

    With an intercept, the mean of the targets is subtracted before the fit.
    """
    problem.check_max_rows(max_rows)
    rows = problem.subsample(max_rows)
    unit = _mean_squared_distance(problem, rows)
    total = _total_weight(problem, rows)
    grid = list(product(GAMMA_GRID, ALPHA_GRID))
    candidates = [{"alpha": a * total, "gamma": g / unit} for g, a in grid]

    def predict(k: int, train: IntArray, test: IntArray) -> FloatArray:
        alphas = [a * _total_weight(problem, train) for a in ALPHA_GRID]
        x = problem.host_features(test)
        columns = []
        with one_blas_thread():  # the systems are small
            for g in GAMMA_GRID:
                reference, duals, offset = solve_kernel_ridge(
                    problem, train, g / unit, alphas, nystroem
                )
                kernel = GaussianKernel(reference.astype(np.float64), g / unit)
                columns.append(kernel(x) @ duals + offset)
        return np.concatenate(columns, axis=1)

    best, table = search_candidates(
        problem, problem.subsample(min(max_rows, SEARCH_ROWS)), candidates, predict,
        default=grid.index(_DEFAULT_CANDIDATE),
    )  # fmt: skip
    gamma, alpha = candidates[best]["gamma"], candidates[best]["alpha"]
    reference, duals, offset = solve_kernel_ridge(problem, rows, gamma, [alpha], nystroem)
    head = KernelMap(reference, duals[:, 0], gamma, offset)
    return HeadFit(head, candidates[best], table, len(rows))


def solve_kernel_ridge(
    problem: HeadProblem, rows: IntArray, gamma: float, alphas: list[float], nystroem: int | None
) -> tuple[Array, FloatArray, float]:
    """Reference rows, their dual coefficients (a column for each alpha), and the intercept."""
    x = problem.host_features(rows)
    weight = problem.row_weights(rows)
    targets = problem.row_targets(rows)
    offset = float(np.average(targets, weights=weight)) if problem.fit_intercept else 0.0
    t = targets - offset
    if nystroem is not None:
        landmarks, duals = _solve_nystroem(
            x, t, weight, gamma, alphas, n_landmarks=nystroem, random_state=problem.random_state
        )
        return landmarks, duals, offset
    # The error of float32 is proportional to sqrt(n) / alpha, and alpha is proportional to n.
    reference = x if len(x) > SINGLE_PRECISION_ABOVE else x.astype(np.float64)
    first = problem.features[:1]
    if on_device(first):
        diagonal = np.ones(len(x)) if weight is None else 1.0 / weight
        x, t, diagonal = (first.send(values) for values in (x, t, diagonal))
        return reference, torch_maps.kernel_ridge(x, t, diagonal, gamma, alphas), offset
    return reference, _solve_exact(x.astype(np.float64), t, weight, gamma, alphas), offset


def _solve_nystroem(
    x: Array,
    t: FloatArray,
    weight: FloatArray | None,
    gamma: float,
    alphas: list[float],
    *,
    n_landmarks: int,
    random_state: int,
) -> tuple[Array, FloatArray]:
    """Landmark rows and their dual coefficients for each alpha."""
    # float64: the coefficients of similar landmarks are large and nearly cancel.
    x = x.astype(np.float64)
    landmarks = Nystroem(
        kernel="rbf", gamma=gamma, n_components=min(n_landmarks, len(x)), random_state=random_state
    ).fit(x)
    basis = landmarks.transform(x)
    coefs = [
        Ridge(alpha=alpha, fit_intercept=False).fit(basis, t, sample_weight=weight).coef_
        for alpha in alphas
    ]
    return landmarks.components_, landmarks.normalization_.T @ np.stack(coefs, axis=1)


def _solve_exact(
    x: FloatArray, t: FloatArray, weight: FloatArray | None, gamma: float, alphas: list[float]
) -> FloatArray:
    """Dual coefficients ``(K + alpha / W)**-1 t``, as in scikit-learn's KernelRidge.

    KernelRidge itself can crash the process: see :mod:`domaincal.statistics.positive_definite`.
    """
    gaussian = GaussianKernel(x, gamma)
    kernel = np.empty((len(x), len(x)))

    def fill(block: slice) -> None:
        kernel[block] = gaussian(x[block])

    with one_blas_thread(), Workers() as workers:
        list(workers.map(fill, row_blocks(len(x), 8 * len(x), _BLOCK_BYTES)))
    duals = []
    for k, alpha in enumerate(alphas):
        matrix = kernel if k == len(alphas) - 1 else kernel.copy()
        matrix[np.diag_indices_from(matrix)] += alpha / (1.0 if weight is None else weight)
        duals.append(solve_positive_definite(matrix, t))
    return np.stack(duals, axis=1)


def _total_weight(problem: HeadProblem, rows: IntArray) -> float:
    weight = problem.row_weights(rows)
    return float(len(rows) if weight is None else weight.sum())


def _mean_squared_distance(problem: HeadProblem, rows: IntArray) -> float:
    """Mean squared distance of two random rows, the unit of 1 / gamma; 1 for identical rows."""
    x = problem.host_features(rows).astype(np.float64)
    weight = problem.row_weights(rows)
    with np.errstate(over="ignore", invalid="ignore"):
        mean = np.average(x, axis=0, weights=weight)
        variance = np.average(np.square(x - mean), axis=0, weights=weight)
        unit = 2.0 * float(variance.sum())
    if not np.isfinite(unit):
        raise non_finite_features_error(problem.features)
    # Squares of tiny numbers are rounded to 0, or to a unit whose reciprocal is infinite.
    return unit if unit > _SMALLEST_UNIT else 1.0
