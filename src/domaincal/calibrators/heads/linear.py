"""Least-squares and ridge heads, from normal equations."""

from __future__ import annotations

import numpy as np

from domaincal._typing import FeatureMatrix, FloatArray, IntArray
from domaincal.calibrators.heads.grid_search import assign_folds, empty_search, search_candidates
from domaincal.calibrators.heads.regression_problem import HeadFit, HeadProblem
from domaincal.statistics import LeastSquares, LinearMap, NormalEquations
from domaincal.statistics.normal_equations import (
    feature_blocks,
    product,
    reads_on_device,
    sum_normal_equations,
    sum_residuals,
)

#: Candidates for the ridge penalty, in units of the mean eigenvalue of the Gram matrix.
ALPHA_GRID = np.logspace(-6, 2, 9)
#: Refinement stops at a smaller relative change of the coefficients, usually after one step.
REFINEMENT_TOLERANCE = 1e-8
MAX_REFINEMENTS = 5


def fit_ols(problem: HeadProblem) -> HeadFit:
    """Fit ordinary least squares, without a search."""
    return HeadFit(solve_linear(problem, 0.0), {}, empty_search(), len(problem.all_rows()))


def fit_ridge(problem: HeadProblem, alpha: float | None) -> HeadFit:
    """Fit ridge regression; with ``alpha=None``, the search chooses the penalty."""
    rows = problem.all_rows()
    if alpha is not None:
        return HeadFit(solve_linear(problem, alpha), {"alpha": alpha}, empty_search(), len(rows))
    intercept, weight = problem.fit_intercept, problem.row_weights()
    folds, n_folds = assign_folds(problem.targets)
    equations = sum_normal_equations(
        problem.features, problem.codes, part=folds, n_parts=n_folds, weight=weight,
        fit_intercept=intercept,
    )  # fmt: skip
    total = sum(equations[1:], equations[0])
    unit = total.mean_eigenvalue(fit_intercept=intercept)
    # If all features are zero, every positive penalty gives the same solution.
    alphas = ALPHA_GRID * (unit if unit > 0 else 1.0)
    targets = np.where(problem.used, problem.targets, 0.0)

    def predict(k: int, train: IntArray, test: IntArray) -> FloatArray:
        others = [fold for j, fold in enumerate(equations) if j != k]
        solver = LeastSquares(sum(others[1:], others[0]), fit_intercept=intercept)
        solutions = [solver.solve(targets, alpha=alpha) for alpha in alphas]
        return _predict_rows(problem.features, test, solutions)

    candidates = [{"alpha": float(alpha)} for alpha in alphas]
    best, table = search_candidates(problem, rows, candidates, predict, default=0)
    head = solve_linear(problem, float(alphas[best]), equations=total)
    return HeadFit(head, candidates[best], table, len(rows))


def solve_linear(
    problem: HeadProblem, alpha: float, *, equations: NormalEquations | None = None
) -> LinearMap:
    """Least squares (``alpha=0``) or ridge regression on all rows of the used domains.

    ``equations`` are the normal equations of these rows, if they are known.
    """
    features, codes, targets = problem.features, problem.codes, problem.targets
    intercept, weight = problem.fit_intercept, problem.row_weights()
    if equations is None:
        equations = sum_normal_equations(
            features, codes, part=np.where(problem.used, 0, -1), weight=weight,
            fit_intercept=intercept,
        )[0]  # fmt: skip
    solver = LeastSquares(equations, fit_intercept=intercept)
    used_targets = np.where(problem.used, targets, 0.0)
    solution = solver.solve(used_targets, alpha=alpha)
    for _ in range(MAX_REFINEMENTS):
        residual = sum_residuals(
            features, codes, solution, targets, centre=solver.centre, weight=weight
        )
        before, solution = solution, solver.refine(solution, used_targets, residual, alpha=alpha)
        change = np.abs(solution.coef - before.coef).max()
        if change <= REFINEMENT_TOLERANCE * np.abs(solution.coef).max():
            break
    return solution


def _predict_rows(
    features: FeatureMatrix, rows: IntArray, solutions: list[LinearMap]
) -> FloatArray:
    """Predictions of several maps for the given rows, in one pass over the features."""
    coefs = np.stack([solution.coef for solution in solutions], axis=1)
    out = np.empty((len(rows), len(solutions)))
    device = reads_on_device(features)
    for block in feature_blocks(len(rows), features.shape[1], device=device):
        out[block] = product(features[rows[block]], coefs)
    out += np.array([solution.intercept for solution in solutions])
    return out
