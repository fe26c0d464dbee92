"""Least squares and ridge, by normal equations."""

import numpy as np

from domaincal._typing import FeatureRows, FloatArray, IntArray
from domaincal.calibrators.heads.grid_search import deal_folds, no_search, search_candidates
from domaincal.calibrators.heads.regression_problem import HeadFit, HeadProblem
from domaincal.statistics import LeastSquares, LinearMap, NormalEquations
from domaincal.statistics.normal_equations import (
    feature_blocks,
    product,
    reads_on_device,
    sum_normal_equations,
    sum_residuals,
)

#: Candidates for ridge's alpha, in units of the mean eigenvalue of the Gram matrix.
ALPHA_GRID = np.logspace(-6, 2, 9)
#: Refinement ends when the coefficients change by less than this fraction; once is usual.
REFINED = 1e-8
MAX_REFINEMENTS = 5


def fit_ols(problem: HeadProblem) -> HeadFit:
    """Ordinary least squares; nothing to search."""
    return HeadFit(solve(problem, 0.0), {}, no_search(), len(problem.rows()))


def fit_ridge(problem: HeadProblem, alpha: float | None) -> HeadFit:
    """Ridge regression with the given penalty, or with the best one on domains held out."""
    rows = problem.rows()
    if alpha is not None:
        return HeadFit(solve(problem, alpha), {"alpha": alpha}, no_search(), len(rows))
    intercept, weight = problem.fit_intercept, problem.row_weight()
    fold, n_folds = deal_folds(problem.targets)
    parts = sum_normal_equations(
        problem.features, problem.codes, part=fold, n_parts=n_folds, weight=weight,
        fit_intercept=intercept,
    )  # fmt: skip
    total = sum(parts[1:], parts[0])
    unit = total.mean_eigenvalue(fit_intercept=intercept)
    # Where all features are zero, any penalty but 0 gives the same.
    alphas = ALPHA_GRID * (unit if unit > 0 else 1.0)
    known = np.where(problem.used, problem.targets, 0.0)

    def predict(k: int, train: IntArray, test: IntArray) -> FloatArray:
        others = [part for j, part in enumerate(parts) if j != k]
        solver = LeastSquares(sum(others[1:], others[0]), fit_intercept=intercept)
        solutions = [solver.solve(known, alpha=alpha) for alpha in alphas]
        return _predict_rows(problem.features, test, solutions)

    candidates = [{"alpha": float(alpha)} for alpha in alphas]
    best, table = search_candidates(problem, rows, candidates, predict, default=0)
    head = solve(problem, float(alphas[best]), equations=total)
    return HeadFit(head, candidates[best], table, len(rows))


def solve(
    problem: HeadProblem, alpha: float, *, equations: NormalEquations | None = None
) -> LinearMap:
    """Least squares (``alpha = 0``) or ridge on all rows of the domains in use."""
    features, codes, targets = problem.features, problem.codes, problem.targets
    intercept, weight = problem.fit_intercept, problem.row_weight()
    if equations is None:
        equations = sum_normal_equations(
            features, codes, part=np.where(problem.used, 0, -1), weight=weight,
            fit_intercept=intercept,
        )[0]  # fmt: skip
    solver = LeastSquares(equations, fit_intercept=intercept)
    known = np.where(problem.used, targets, 0.0)
    solution = solver.solve(known, alpha=alpha)
    for _ in range(MAX_REFINEMENTS):
        residual = sum_residuals(
            features, codes, solution, targets, centre=solver.centre, weight=weight
        )
        before, solution = solution, solver.refine(solution, known, residual, alpha=alpha)
        if np.abs(solution.coef - before.coef).max() <= REFINED * np.abs(solution.coef).max():
            break
    return solution


def _predict_rows(features: FeatureRows, rows: IntArray, solutions: list[LinearMap]) -> FloatArray:
    """Values of several maps for some rows, in one pass over them."""
    coefs = np.stack([solution.coef for solution in solutions], axis=1)
    out = np.empty((len(rows), len(solutions)))
    device = reads_on_device(features)
    for block in feature_blocks(len(rows), features.shape[1], device=device):
        out[block] = product(features[rows[block]], coefs)
    out += np.array([solution.intercept for solution in solutions])
    return out
