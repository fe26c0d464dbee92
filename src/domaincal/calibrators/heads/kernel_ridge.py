"""Kernel ridge regression with a Gaussian kernel, exact or by Nystroem's landmarks."""

from dataclasses import dataclass
from itertools import product

import numpy as np
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge

from domaincal._tensors import on_device
from domaincal._typing import Array, FeatureRows, FloatArray, IntArray
from domaincal._validation import non_finite_features
from domaincal.calibrators.heads.grid_search import search_candidates
from domaincal.calibrators.heads.regression_problem import (
    SEARCH_ROWS,
    HeadFit,
    HeadProblem,
    device_values,
    values_of,
)
from domaincal.kernels import torch_maps
from domaincal.statistics.blocks import Workers, one_blas_thread, row_blocks
from domaincal.statistics.positive_definite import solve_positive_definite

#: Candidates for alpha, per row: a penalty for the mean of the squared residuals.
ALPHA_GRID = (1e-5, 1e-4, 1e-3, 1e-2)
#: Candidates for gamma, in units of 1 / (mean squared distance of two rows).
GAMMA_GRID = (0.0625, 0.25, 1.0, 4.0)
_DEFAULT = (0.25, 1e-3)
# Features of single precision are compared in it from so many reference rows on.
_SINGLE_FROM = 4096
# The kernel of a block of rows and all reference rows stays in the cache.
_BLOCK_BYTES = 1 << 22


@dataclass(frozen=True, eq=False)
class KernelMap:
    """``sum_j dual_j exp(-gamma |x - rows_j|**2) + intercept``, in the precision of the rows."""

    rows: Array
    dual: FloatArray
    gamma: float
    intercept: float = 0.0

    def __call__(self, features: FeatureRows) -> FloatArray:
        """Value for each row."""
        first = features[:1]
        if on_device(first):
            there, weights = first.send(self.rows), first.send(self.dual)
            similar = torch_maps.GaussianKernel(there, self.gamma)
            values = device_values(lambda x: similar(x) @ weights, features, like=self.rows)
            return values + self.intercept
        kernel = GaussianKernel(self.rows, self.gamma)
        dual = self.dual.astype(self.rows.dtype)
        blocks = row_blocks(len(features), self.rows.dtype.itemsize * len(dual), _BLOCK_BYTES)
        with one_blas_thread(), Workers() as workers:
            values = values_of(
                lambda x: kernel(x) @ dual, features, blocks, workers, self.rows.dtype
            )
        return values + self.intercept


class GaussianKernel:
    """``exp(-gamma |x_i - rows_j|**2)``.

    The exponent ``2 gamma x'y - gamma |x|**2 - gamma |y|**2`` is one matrix product, with two more
    columns for the squares, of features relative to their mean, where little cancels.
    """

    def __init__(self, rows: Array, gamma: float) -> None:
        self._centre = rows.mean(axis=0, dtype=np.float64).astype(rows.dtype)
        self._root = np.sqrt(2.0 * gamma).astype(rows.dtype)
        y, squares = self._scaled(rows)
        self._right = np.concatenate([y, np.ones_like(squares), squares], axis=1).T

    def __call__(self, x: Array) -> Array:
        """Kernel of each given row and each reference row."""
        scaled, squares = self._scaled(x)
        k = np.concatenate([scaled, squares, np.ones_like(squares)], axis=1) @ self._right
        return np.asarray(np.exp(k, out=k))

    def _scaled(self, x: Array) -> tuple[Array, Array]:
        scaled = (x - self._centre).astype(self._centre.dtype) * self._root
        return scaled, -0.5 * np.einsum("ij,ij->i", scaled, scaled)[:, None]


def fit_kernel(problem: HeadProblem, *, max_rows: int, nystroem: int | None) -> HeadFit:
    """Kernel ridge regression; alpha and gamma by holding out domains.

    With an intercept the targets are centred, as in a regression on centred features.
    """
    rows = problem.at_most(max_rows)
    unit = _mean_squared_distance(problem, rows)
    total = _total(problem, rows)
    grid = list(product(GAMMA_GRID, ALPHA_GRID))
    candidates = [{"alpha": a * total, "gamma": g / unit} for g, a in grid]

    def predict(k: int, train: IntArray, test: IntArray) -> FloatArray:
        alphas = [a * _total(problem, train) for a in ALPHA_GRID]
        x = problem.read(test)
        columns = []
        with one_blas_thread():  # many small systems
            for g in GAMMA_GRID:
                reference, duals, offset = _solve(problem, train, g / unit, alphas, nystroem)
                kernel = GaussianKernel(reference.astype(np.float64), g / unit)
                columns.append(kernel(x) @ duals + offset)
        return np.concatenate(columns, axis=1)

    best, table = search_candidates(
        problem, problem.rows(min(max_rows, SEARCH_ROWS)), candidates, predict,
        default=grid.index(_DEFAULT),
    )  # fmt: skip
    chosen = candidates[best]
    reference, duals, offset = _solve(problem, rows, chosen["gamma"], [chosen["alpha"]], nystroem)
    return HeadFit(
        KernelMap(reference, duals[:, 0], chosen["gamma"], offset), chosen, table, len(rows)
    )


def _solve(
    problem: HeadProblem, rows: IntArray, gamma: float, alphas: list[float], nystroem: int | None
) -> tuple[Array, FloatArray, float]:
    """Reference rows, their dual coefficients for each alpha (one column each), and the offset."""
    x = problem.read(rows)
    weight = problem.row_weight(rows)
    target = problem.targets[problem.codes[rows]]
    offset = float(np.average(target, weights=weight)) if problem.fit_intercept else 0.0
    t = target - offset
    if nystroem is None:
        # What single precision loses goes with sqrt(n) / alpha, and alpha with n.
        reference = x if len(x) > _SINGLE_FROM else x.astype(np.float64)
        first = problem.features[:1]
        if on_device(first):
            diagonal = np.ones(len(x)) if weight is None else 1.0 / weight
            x, t, diagonal = (first.send(values) for values in (x, t, diagonal))
            return reference, torch_maps.kernel_ridge(x, t, diagonal, gamma, alphas), offset
        return reference, _exact(x.astype(np.float64), t, weight, gamma, alphas), offset
    # In double precision: between landmarks that are alike, large coefficients cancel.
    x = x.astype(np.float64)
    landmarks = Nystroem(
        kernel="rbf", gamma=gamma, n_components=min(nystroem, len(x)),
        random_state=problem.seed,
    ).fit(x)  # fmt: skip
    basis = landmarks.transform(x)
    coefs = [
        Ridge(alpha=alpha, fit_intercept=False).fit(basis, t, sample_weight=weight).coef_
        for alpha in alphas
    ]
    return landmarks.components_, landmarks.normalization_.T @ np.stack(coefs, axis=1), offset


def _exact(
    x: FloatArray, t: FloatArray, weight: FloatArray | None, gamma: float, alphas: list[float]
) -> FloatArray:
    """Dual coefficients of scikit-learn's KernelRidge, ``(K + alpha / W)**-1 t``.

    KernelRidge itself would abort the process: see :mod:`domaincal.statistics.positive_definite`.
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


def _total(problem: HeadProblem, rows: IntArray) -> float:
    weight = problem.row_weight(rows)
    return float(len(rows) if weight is None else weight.sum())


def _mean_squared_distance(problem: HeadProblem, rows: IntArray) -> float:
    """Of two rows taken at random: the unit of gamma; 1 where all rows are the same."""
    x = problem.read(rows).astype(np.float64)
    weight = problem.row_weight(rows)
    with np.errstate(over="ignore", invalid="ignore"):
        mean = np.average(x, axis=0, weights=weight)
        variance = np.average(np.square(x - mean), axis=0, weights=weight)
        unit = 2.0 * float(variance.sum())
    if not np.isfinite(unit):
        raise non_finite_features(problem.features)
    return unit if unit > 0 else 1.0
