"""Huber regression: domains far from the rest count less."""

import numpy as np

from domaincal._tensors import on_device
from domaincal._typing import Array, FloatArray, IntArray
from domaincal.calibrators.heads.grid_search import search_candidates
from domaincal.calibrators.heads.regression_problem import SEARCH_ROWS, HeadFit, HeadProblem
from domaincal.calibrators.heads.whitening import White, WhiteArray, WhiteTensor
from domaincal.errors import DomaincalError
from domaincal.statistics import LeastSquares, LinearMap, NormalEquations
from domaincal.statistics.least_squares import SINGULAR_TOLERANCE
from domaincal.statistics.normal_equations import sum_normal_equations

#: Candidates: residuals beyond so many scales count linearly; 1.35 is 95% efficient if normal. Near
#: 1, the smallest that scikit-learn takes, the scale collapses where rows are few.
EPSILON_GRID = (1.35, 1.75, 2.5, 4.0)
_DEFAULT = 0
# With fewer, the search would see how the candidates overfit.
_ROWS_PER_FEATURE = 5
# Of the gradient for each row. Too strict a one ends in an error of the solver: a looser is tried.
_TOLERANCES = (1e-8, 1e-6, 1e-4)
# Residuals below this fraction of the targets are rounding: Huber's scale would be 0.
_EXACT = 1e-10


def fit_huber(problem: HeadProblem) -> HeadFit:
    """scikit-learn's HuberRegressor without a penalty; epsilon by holding out domains."""
    rows = problem.rows()

    def predict(k: int, train: IntArray, test: IntArray) -> FloatArray:
        maps = _fit(problem, train, EPSILON_GRID)
        x = problem.read(test)
        return np.stack([linear(x) for linear in maps], axis=1)

    candidates = [{"epsilon": epsilon} for epsilon in EPSILON_GRID]
    enough = max(SEARCH_ROWS, _ROWS_PER_FEATURE * problem.features.shape[1])
    best, table = search_candidates(
        problem, problem.rows(enough), candidates, predict, default=_DEFAULT
    )
    head = _fit(problem, rows, (EPSILON_GRID[best],))[0]
    return HeadFit(head, candidates[best], table, len(rows))


def _fit(problem: HeadProblem, rows: IntArray, epsilons: tuple[float, ...]) -> list[LinearMap]:
    """A map for each epsilon.

    The features are whitened and the targets put into units of their size first: without a penalty
    the solution is the same, and the solver needs tens of steps where it may need thousands, or
    stop early, on features of unequal size.
    """
    target = problem.targets[problem.codes[rows]]
    weight = problem.row_weight(rows)
    if weight is not None:  # the solver's stopping rules are absolute
        weight = weight / weight.mean()
    intercept = problem.fit_intercept
    offset = float(np.average(target, weights=weight)) if intercept else 0.0
    unit = float(np.abs(target - offset).max()) or 1.0
    t = (target - offset) / unit

    x = problem.gather(rows)
    centre, basis = _whitening(x, weight, fit_intercept=intercept)
    white: White
    white = WhiteTensor(x, centre, basis) if on_device(x) else WhiteArray(x, centre, basis)
    least_squares = white.sums(t if weight is None else weight * t) / len(t)
    exact = np.abs(white.times(least_squares) - t).max() < _EXACT
    if exact or basis.shape[1] == 0:  # nothing varies but what the intercept takes
        coef = basis @ least_squares * unit
        return [LinearMap(coef, offset - float(centre @ coef))] * len(epsilons)

    maps = []
    for epsilon in epsilons:
        found, constant = _converge(white, t, weight, epsilon=epsilon, intercept=intercept)
        coef = basis @ found * unit
        constant = offset + unit * constant - float(centre @ coef)
        maps.append(LinearMap(coef, constant if intercept else 0.0))
    return maps


def _converge(
    white: White, t: FloatArray, weight: FloatArray | None, *, epsilon: float, intercept: bool
) -> tuple[FloatArray, float]:
    """Fit; scikit-learn raises where the line search finds nothing better than what it has."""
    for tolerance in _TOLERANCES:
        try:
            return white.huber(
                t, weight, epsilon=epsilon, intercept=intercept, tol=tolerance * len(t)
            )
        except ValueError as error:
            if "convergence" not in str(error):
                raise
            reason = error
    raise DomaincalError(f"head='huber' did not converge: {reason}; use head='ridge'.")


def _whitening(
    x: Array, weight: FloatArray | None, *, fit_intercept: bool
) -> tuple[FloatArray, FloatArray]:
    """Centre (0 without an intercept) and basis in which the features are uncorrelated."""
    one = np.zeros(len(x), np.int64)
    if on_device(x):
        part = np.zeros(1, np.int64)
        equations = sum_normal_equations(
            x, one, part=part, weight=weight, fit_intercept=fit_intercept
        )[0]
    else:
        shift = x.mean(axis=0, dtype=np.float64) if fit_intercept else np.zeros(x.shape[1])
        equations = NormalEquations.from_rows(x, one, 1, weight, shift=shift)
    solver = LeastSquares(equations, fit_intercept=fit_intercept)
    values, vectors = solver.spectrum
    kept = values > SINGULAR_TOLERANCE**2 * values[-1]
    scale = np.sqrt(values[kept] / equations.weight.sum())
    return solver.centre, vectors[:, kept] / scale
