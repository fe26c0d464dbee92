"""Huber regression: domains far from the rest count less."""

import numpy as np
from sklearn.linear_model import HuberRegressor

from domaincal._errors import DomaincalError
from domaincal._typing import Array, FloatArray, IntArray
from domaincal.calibrators._heads.problem import SEARCH_ROWS, HeadFit, HeadProblem
from domaincal.calibrators._heads.search import search_candidates
from domaincal.statistics import LinearMap, NormalEquations
from domaincal.statistics.normal_equations import SINGULAR_TOLERANCE

#: Candidates: residuals beyond so many scales count linearly; 1.35 is 95% efficient if normal. Near
#: 1, the smallest that scikit-learn takes, the scale collapses where rows are few.
EPSILON_GRID = (1.35, 1.75, 2.5, 4.0)
_DEFAULT = 0
# With fewer, the search would see how the candidates overfit.
_ROWS_PER_FEATURE = 5
_MAX_ITER = 1000
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
    x = problem.read(rows)
    target = problem.targets[problem.codes[rows]]
    weight = problem.row_weight(rows)
    if weight is not None:  # the solver's stopping rules are absolute
        weight = weight / weight.mean()
    intercept = problem.fit_intercept
    offset = float(np.average(target, weights=weight)) if intercept else 0.0
    unit = float(np.abs(target - offset).max()) or 1.0
    t = (target - offset) / unit

    centre, basis = _whitening(x, weight, fit_intercept=intercept)
    white = (x - centre) @ basis
    least_squares = (t if weight is None else weight * t) @ white / len(x)
    exact = np.abs(white @ least_squares - t).max() < _EXACT
    if exact or white.shape[1] == 0:  # nothing varies but what the intercept takes
        coef = basis @ least_squares * unit
        return [LinearMap(coef, offset - float(centre @ coef))] * len(epsilons)

    maps = []
    for epsilon in epsilons:
        # Without warm_start, which in scikit-learn 1.9 lets an intercept in that was not asked for.
        regressor = HuberRegressor(
            epsilon=epsilon, alpha=0.0, fit_intercept=intercept, max_iter=_MAX_ITER
        )
        _converge(regressor, white, t, weight)
        coef = basis @ regressor.coef_ * unit
        constant = offset + unit * float(regressor.intercept_) - float(centre @ coef)
        maps.append(LinearMap(coef, constant if intercept else 0.0))
    return maps


def _converge(
    regressor: HuberRegressor, white: FloatArray, t: FloatArray, weight: FloatArray | None
) -> None:
    """Fit; scikit-learn raises where the line search finds nothing better than what it has."""
    for tolerance in _TOLERANCES:
        try:
            regressor.set_params(tol=tolerance * len(t)).fit(white, t, sample_weight=weight)
            return
        except ValueError as error:
            if "convergence" not in str(error):
                raise
            reason = error
    raise DomaincalError(f"head='huber' did not converge: {reason}; use head='ridge'.")


def _whitening(
    x: Array, weight: FloatArray | None, *, fit_intercept: bool
) -> tuple[FloatArray, FloatArray]:
    """Centre (0 without an intercept) and basis in which the features are uncorrelated."""
    shift = x.mean(axis=0, dtype=np.float64) if fit_intercept else np.zeros(x.shape[1])
    one = np.zeros(len(x), np.int64)
    solver = NormalEquations.from_rows(x, one, 1, weight, shift=shift).factor(
        fit_intercept=fit_intercept
    )
    kept = solver.values > SINGULAR_TOLERANCE**2 * solver.values[-1]
    scale = np.sqrt(solver.values[kept] / solver.equations.weight.sum())
    return solver.centre if fit_intercept else shift, solver.vectors[:, kept] / scale
