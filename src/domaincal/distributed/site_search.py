"""The search for the penalty of ridge from sums of sites."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from domaincal._typing import Array, FloatArray
from domaincal.calibrators.domain_calibrator import DomainFit
from domaincal.calibrators.heads.grid_search import MAX_FOLDS, compare_candidates
from domaincal.calibrators.heads.linear import ALPHA_GRID
from domaincal.calibrators.multi_domain import MultiDomainTemperatureScaling
from domaincal.calibrators.temperature_target import temperature_limits
from domaincal.distributed.site_curves import fit_from_curve
from domaincal.distributed.site_plan import SearchPlan
from domaincal.distributed.site_sums import SiteSums, pooled_scale
from domaincal.statistics import LeastSquares, NormalEquations, TemperatureFit
from domaincal.statistics.domain_folds import similar_domain_folds


@dataclass(frozen=True, eq=False)
class _Used:
    """The part of a regression problem that the comparison of candidates needs."""

    used: Array


def search_plan(
    calibrator: MultiDomainTemperatureScaling, sums: SiteSums, domains: DomainFit
) -> SearchPlan:
    """Candidates of each fold, fitted to the sums of the other folds."""
    features, curves = sums.features, sums.domain_curves
    assert features is not None
    assert curves is not None
    n, used = np.asarray(sums.n_rows, np.float64), domains.used
    folds = np.full(len(n), -1)
    folds[used] = similar_domain_folds(features.means(n)[used], MAX_FOLDS)
    n_folds = int(folds.max()) + 1
    equations = partial(
        features.equations, n, used, equal_domains=calibrator.domain_weight == "equal",
        fit_intercept=calibrator.fit_intercept,
    )  # fmt: skip
    alphas = _alphas(equations(), calibrator.fit_intercept)
    target = calibrator._make_target(domains)
    targets = np.where(used, target.from_temperature(domains.each.temperature), 0.0)
    coef, intercept, limits, pooled = [], [], [], []
    for k in range(n_folds):
        others = used & (folds != k)
        solver = LeastSquares(equations(without=folds == k), fit_intercept=calibrator.fit_intercept)
        maps = [solver.solve(targets, alpha=alpha) for alpha in alphas]
        coef.append([one.coef for one in maps])
        intercept.append([one.intercept for one in maps])
        known = np.where(others, domains.each.temperature, np.nan)
        limits.append(temperature_limits(calibrator.clip, known, domains.pooled))
        of_others = fit_from_curve(
            curves.total(others), float(n[others].sum()),
            pooled_scale(n[others], sums.fit.scale[others]), _select(sums.fit, others),
        )  # fmt: skip
        pooled.append(float(of_others.temperature[0]))
    return SearchPlan(
        folds, np.array(coef), np.array(intercept), np.array(limits), np.array(pooled),
        calibrator.target,
    )  # fmt: skip


def best_penalty(
    calibrator: MultiDomainTemperatureScaling,
    equations: NormalEquations,
    used: Array,
    n_rows: FloatArray,
    nll: FloatArray | None,
) -> tuple[float, pd.DataFrame]:
    """The best penalty, and the table of the search; with one used domain, the smallest.

    ``nll`` is the mean NLL of each domain under each candidate, and under one temperature.
    """
    alphas = _alphas(equations, calibrator.fit_intercept)
    candidates = [{"alpha": float(alpha)} for alpha in alphas]
    if nll is None:
        table = pd.DataFrame(candidates, index=range(len(candidates)))
        return float(alphas[0]), table.assign(n_domains=0, n_rows=0, nll=np.nan, nll_pooled=np.nan)
    best, table = compare_candidates(_Used(used), candidates, nll, int(n_rows[used].sum()))
    return float(alphas[best]), table


def _alphas(equations: NormalEquations, fit_intercept: bool) -> FloatArray:
    """Candidates of the penalty, as a fit to rows has them."""
    unit = equations.mean_eigenvalue(fit_intercept=fit_intercept)
    return np.asarray(ALPHA_GRID * (unit if unit > 0 else 1.0))


def _select(fit: TemperatureFit, domains: Array) -> TemperatureFit:
    names = ("temperature", "standard_error", "at_bound", "nll", "scale")
    return TemperatureFit(**{name: getattr(fit, name)[domains] for name in names}, n_iter=0)
