"""Least-squares and ridge heads, from normal equations."""

from __future__ import annotations

import numpy as np

from domaincal._typing import FeatureMatrix, FloatArray, IntArray
from domaincal.calibrators.heads.grid_search import (
    assign_folds,
    compare_candidates,
    search_candidates,
)
from domaincal.calibrators.heads.regression_problem import (
    JUDGED_FROM,
    HeadFit,
    HeadProblem,
    empty_search,
)
from domaincal.statistics import LeastSquares, LinearMap, NormalEquations
from domaincal.statistics.blas_threads import one_blas_thread
from domaincal.statistics.feature_products import feature_blocks, product, reads_on_device
from domaincal.statistics.normal_equations import single_pays, sum_normal_equations
from domaincal.statistics.residual_sums import sum_residuals

#: Candidates for the ridge penalty, in units of the mean eigenvalue of the Gram matrix.
ALPHA_GRID = np.logspace(-6, 2, 9)
#: Heads with a given penalty are judged by at most so many folds of similar domains, and fewer if
#: the Gram matrices of the folds would take more memory, but at least 3.
JUDGED_FOLDS = 10
JUDGED_BYTES = 1 << 29
#: Maximum number of rows whose NLL is compared.
JUDGED_ROWS = 20_000
# Penalty of judged heads, relative to the trace of the Gram matrix. It has no effect on singular
# values above about 1e-4 of the largest, and spares a fold without some feature the eigenvectors of
# its singular Gram matrix, which take ten times as long as the Cholesky factor.
_JUDGED_PENALTY = 1e-9
# With float32 products: above their rounding errors, which make the Gram matrix of a fold without
# some feature indefinite.
_JUDGED_SINGLE_PENALTY = 1e-8
#: Refinement stops at a smaller relative change of the coefficients, usually after one step.
REFINEMENT_TOLERANCE = 1e-8
MAX_REFINEMENTS = 5
#: With float32 products, refinement stops at a smaller error of the predictions relative to the
#: targets. If it is larger after MAX_REFINEMENTS steps, products are float64; and at once if the
#: condition number of the features is larger, for which these steps were rarely enough.
SINGLE_TOLERANCE = 1e-12
LARGEST_SINGLE_CONDITION = 3e3
# The condition number of few rows is larger than that of all: about six times, for two rows of
# normal features for each feature. One row in fewer than 8 is too large a part of all rows.
_SAMPLED_PER_FEATURE = 2
_SAMPLED_FACTOR = 10.0
_SMALLEST_STEP = 8
# A step of refinement multiplies the error by a factor which is estimated by the ratio of the last
# two changes, but not below this: directions of slow convergence may show late.
_LEAST_RATIO = 1e-3
_LARGEST_RATIO = 0.25


def fit_ols(problem: HeadProblem) -> HeadFit:
    """Fit ordinary least squares, without a search."""
    return _fit_given_penalty(problem, 0.0, {})


def fit_ridge(problem: HeadProblem, alpha: float | None) -> HeadFit:
    """Fit ridge regression; with ``alpha=None``, the search chooses the penalty."""
    if alpha is not None:
        return _fit_given_penalty(problem, alpha, {"alpha": alpha})
    intercept, weight = problem.fit_intercept, problem.row_weights()
    folds, n_folds = assign_folds(problem)
    equations = sum_normal_equations(
        problem.features, problem.domain, part=folds, n_parts=n_folds, weight=weight,
        fit_intercept=intercept,
    )  # fmt: skip
    total = _sum(equations)
    unit = total.mean_eigenvalue(fit_intercept=intercept)
    # If all features are zero, every positive penalty gives the same solution.
    alphas = ALPHA_GRID * (unit if unit > 0 else 1.0)
    targets = np.where(problem.used, problem.targets, 0.0)

    def solutions(k: int) -> list[LinearMap]:
        solver = LeastSquares(_sum(equations, without=k), fit_intercept=intercept)
        return [solver.solve(targets, alpha=alpha) for alpha in alphas]

    def predict(k: int, train: IntArray, test: IntArray) -> FloatArray:
        return _predict_rows(problem.features, test, solutions(k))

    candidates = [{"alpha": float(alpha)} for alpha in alphas]
    if problem.streamed and n_folds > 1:
        assert problem.nll_of_maps is not None
        nll = problem.nll_of_maps(folds, [solutions(k) for k in range(n_folds)])
        best, table = compare_candidates(problem, candidates, nll, problem.n_rows())
    else:
        rows = problem.subsample(1) if problem.streamed else problem.all_rows()
        best, table = search_candidates(problem, rows, candidates, predict, default=0)
    head = _solve(problem, float(alphas[best]), total, weight)
    return HeadFit(head, candidates[best], table, problem.n_rows())


def _fit_given_penalty(problem: HeadProblem, alpha: float, parameters: dict[str, float]) -> HeadFit:
    """Fit all rows, and judge the head by domains that are left out.

    One pass over the features sums the normal equations of each fold. The equations of the other
    folds give the head that is judged on a fold, those of all folds the head itself.
    """
    n_rows = problem.n_rows()
    if problem.used.sum() < JUDGED_FROM:
        return HeadFit(solve_linear(problem, alpha), parameters, empty_search(), n_rows)
    intercept, n_features = problem.fit_intercept, problem.features.shape[1]
    max_folds = min(JUDGED_FOLDS, max(3, JUDGED_BYTES // (8 * n_features**2)))
    folds, n_folds = assign_folds(problem, max_folds)
    head, equations = _sum_and_solve(problem, alpha, part=folds, n_parts=n_folds)
    targets = np.where(problem.used, problem.targets, 0.0)
    judged, judged_rows = problem.in_memory(JUDGED_ROWS)

    def predict(k: int, train: IntArray, test: IntArray) -> FloatArray:
        others = _sum(equations, without=k)
        trace = n_features * others.mean_eigenvalue(fit_intercept=intercept)
        least = _JUDGED_SINGLE_PENALTY if others.single else _JUDGED_PENALTY
        solver = LeastSquares(others, fit_intercept=intercept)
        with one_blas_thread():  # on busy cores, two threads took 30 times as long
            solution = solver.solve(targets, alpha=max(alpha, least * trace))
        return _predict_rows(judged.features, test, [solution])

    _, held_out = search_candidates(judged, judged_rows, [{}], predict, default=0, folds=folds)
    return HeadFit(head, parameters, empty_search(), n_rows, held_out)


def _sum(equations: list[NormalEquations], *, without: int | None = None) -> NormalEquations:
    """Sum of the equations of all folds, or of all but one."""
    return NormalEquations.total([fold for k, fold in enumerate(equations) if k != without])


def solve_linear(problem: HeadProblem, alpha: float) -> LinearMap:
    """Least squares (``alpha=0``) or ridge regression on all rows of the used domains."""
    return _sum_and_solve(problem, alpha, part=np.where(problem.used, 0, -1), n_parts=1)[0]


def _sum_and_solve(
    problem: HeadProblem, alpha: float, *, part: IntArray, n_parts: int
) -> tuple[LinearMap, list[NormalEquations]]:
    """Solution for the rows of all parts, and the normal equations of each part."""
    weight = problem.row_weights()

    def sums(*, single: bool) -> list[NormalEquations]:
        return sum_normal_equations(
            problem.features, problem.domain, part=part, n_parts=n_parts, weight=weight,
            fit_intercept=problem.fit_intercept, single=single,
        )  # fmt: skip

    equations = sums(single=single_pays(problem.features) and _may_converge(problem, alpha))
    total = _sum(equations)
    if total.single:
        solution = _solve_single(problem, alpha, total, weight)
        if solution is not None:
            return solution, equations
        del total, equations  # free them before the next are allocated
        equations = sums(single=False)
        total = _sum(equations)
    return _solve(problem, alpha, total, weight), equations


def _may_converge(problem: HeadProblem, alpha: float) -> bool:
    """Whether float32 products may suffice, judged by few rows.

    Where they do not, the sums are repeated in float64: their time would be lost.
    """
    n_rows, n_features = problem.features.shape
    every = n_rows // (_SAMPLED_PER_FEATURE * n_features)
    # On a device, the products take less time than a factorisation on the host.
    if every < _SMALLEST_STEP or reads_on_device(problem.features):
        return True
    some = np.asarray(problem.features[::every], np.float64)
    shift = some.mean(axis=0) if problem.fit_intercept else np.zeros(n_features)
    sums = NormalEquations.from_rows(some, np.zeros(len(some), np.int64), 1, shift=shift)
    solver = LeastSquares(sums, fit_intercept=problem.fit_intercept)
    condition = solver.condition(alpha=alpha / every)
    return condition <= _SAMPLED_FACTOR * LARGEST_SINGLE_CONDITION


def _solve(
    problem: HeadProblem, alpha: float, equations: NormalEquations, weight: FloatArray | None
) -> LinearMap:
    """Solution by the normal equations of all rows, refined until it does not change."""
    solver = LeastSquares(equations, fit_intercept=problem.fit_intercept)
    targets = np.where(problem.used, problem.targets, 0.0)
    solution = solver.solve(targets, alpha=alpha)
    for _ in range(MAX_REFINEMENTS):
        residual = _residual(problem, solver, solution, weight)
        before, solution = solution, solver.refine(solution, targets, residual, alpha=alpha)
        change = np.abs(solution.coef - before.coef).max()
        if change <= REFINEMENT_TOLERANCE * np.abs(solution.coef).max():
            break
    return solution


def _solve_single(
    problem: HeadProblem, alpha: float, equations: NormalEquations, weight: FloatArray | None
) -> LinearMap | None:
    """Solution by a Gram matrix of float32 products; None if refinement does not converge."""
    solver = LeastSquares(equations, fit_intercept=problem.fit_intercept)
    if solver.condition(alpha=alpha) > LARGEST_SINGLE_CONDITION:
        return None
    targets = np.where(problem.used, problem.targets, 0.0)
    solution = solver.solve(targets, alpha=alpha)
    size = np.sqrt(np.square(targets) @ equations.weight)
    latest = size
    for _ in range(MAX_REFINEMENTS):
        residual = _residual(problem, solver, solution, weight)
        before, solution = solution, solver.refine(solution, targets, residual, alpha=alpha)
        # Norm of the change of the predictions: the Gram matrix times the step is the residual.
        square = float((solution.coef - before.coef) @ (residual - alpha * before.coef))
        change = np.sqrt(max(square, 0.0))
        if change * max(change, _LEAST_RATIO * latest) <= SINGLE_TOLERANCE * size * latest:
            return solution
        if not change <= _LARGEST_RATIO * latest:
            return None
        latest = change
    return None


def _residual(
    problem: HeadProblem, solver: LeastSquares, solution: LinearMap, weight: FloatArray | None
) -> FloatArray:
    return sum_residuals(
        problem.features, problem.domain, solution, problem.targets, centre=solver.centre,
        weight=weight,
    )  # fmt: skip


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
