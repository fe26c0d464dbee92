"""Linear heads of MD-TS: from features to the target of each domain, by normal equations."""

from collections.abc import Callable

import numpy as np
import pandas as pd

from domaincal._typing import Array, FloatArray, IntArray
from domaincal.statistics import LinearMap, NormalEquations
from domaincal.statistics.normal_equations import (
    feature_blocks,
    sum_normal_equations,
    sum_residuals,
)

#: Candidates for ridge's alpha, in units of the mean eigenvalue of the Gram matrix.
ALPHA_GRID = np.logspace(-6, 2, 9)
#: Refinement ends when the coefficients change by less than this fraction; once is usual.
REFINED = 1e-8
MAX_REFINEMENTS = 5
#: Domains are held out in at most so many groups.
MAX_FOLDS = 5


def fit_linear(
    features: Array,
    codes: IntArray,
    targets: FloatArray,
    *,
    weight: FloatArray | None,
    alpha: float,
    fit_intercept: bool,
    equations: NormalEquations | None = None,
) -> LinearMap:
    """Least squares (``alpha = 0``) or ridge; domains whose target is NaN are left out."""
    used = ~np.isnan(targets)
    if equations is None:
        part = np.where(used, 0, -1)
        equations = sum_normal_equations(
            features, codes, part=part, weight=weight, fit_intercept=fit_intercept
        )[0]
    solver = equations.factor(fit_intercept=fit_intercept)
    known = np.where(used, targets, 0.0)
    solution = solver.solve(known, alpha=alpha)
    for _ in range(MAX_REFINEMENTS):
        residual = sum_residuals(
            features, codes, solution, targets, centre=solver.centre, weight=weight
        )
        before, solution = solution, solver.refine(solution, known, residual, alpha=alpha)
        if np.abs(solution.coef - before.coef).max() <= REFINED * np.abs(solution.coef).max():
            break
    return solution


def search_alpha(
    features: Array,
    codes: IntArray,
    targets: FloatArray,
    *,
    weight: FloatArray | None,
    fit_intercept: bool,
    held_out_nll: Callable[[FloatArray, np.ndarray], FloatArray],
) -> tuple[float, pd.DataFrame, NormalEquations]:
    """Ridge's alpha by holding out whole domains, the table of the search, and the full sums.

    Domains are dealt into folds in the order of their targets, so that neither the order of rows
    nor the names of domains matter. ``held_out_nll(values, fold)`` gives the mean NLL of each
    domain of the fold (a mask) when the head predicts ``values`` for the rows.
    """
    used = np.flatnonzero(~np.isnan(targets))
    n_folds = min(len(used), MAX_FOLDS)
    fold = np.full(len(targets), -1)
    fold[used[np.argsort(targets[used], kind="stable")]] = np.arange(len(used)) % n_folds
    parts = sum_normal_equations(
        features, codes, part=fold, n_parts=n_folds, weight=weight, fit_intercept=fit_intercept
    )
    total = sum(parts[1:], parts[0])
    alphas = ALPHA_GRID * total.mean_eigenvalue(fit_intercept=fit_intercept)
    if n_folds == 1 or not alphas[0] > 0:  # nothing to hold out, or all features are zero
        table = pd.DataFrame({"alpha": alphas, "n_domains": 0, "nll": np.nan})
        return float(max(alphas[0], np.finfo(float).tiny)), table, total

    nll = np.empty((len(alphas), len(targets)))
    known = np.where(np.isnan(targets), 0.0, targets)
    for k in range(n_folds):
        others = [part for j, part in enumerate(parts) if j != k]
        solver = sum(others[1:], others[0]).factor(fit_intercept=fit_intercept)
        rows = np.flatnonzero(fold[codes] == k)
        solutions = [solver.solve(known, alpha=alpha) for alpha in alphas]
        for a, column in enumerate(_predict_rows(features, rows, solutions).T):
            values = np.full(len(codes), np.nan)
            values[rows] = column
            nll[a, fold == k] = held_out_nll(values, fold == k)
    mean = nll[:, used].mean(axis=1)
    table = pd.DataFrame({"alpha": alphas, "n_domains": len(used), "nll": mean})
    return float(alphas[int(np.argmin(mean))]), table, total


def _predict_rows(features: Array, rows: IntArray, solutions: list[LinearMap]) -> FloatArray:
    """Values of several maps for some rows, in one pass over them."""
    coefs = np.stack([solution.coef for solution in solutions], axis=1)
    out = np.empty((len(rows), len(solutions)))
    for block in feature_blocks(len(rows), features.shape[1]):
        out[block] = features[rows[block]].astype(np.float64) @ coefs
    out += np.array([solution.intercept for solution in solutions])
    return out
