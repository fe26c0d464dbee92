"""Ordinary calibrators from the sums of sites."""

# Short signatures in help(): annotations stay text.
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from domaincal._typing import FloatArray
from domaincal.calibrators.batch.batch_map import n_statistics
from domaincal.calibrators.batch.batch_temperature import (
    MINIMUM_DOMAINS,
    BatchTemperatureScaling,
    warn_of_few_domains,
)
from domaincal.calibrators.batch.batch_training import BATCHES, constant_map, error_table
from domaincal.calibrators.domain_calibrator import (
    DomainFit,
    warn_of_unused_domains,
)
from domaincal.calibrators.domain_temperature import DomainTemperatureScaling
from domaincal.calibrators.head_warnings import warn_of_no_domain
from domaincal.calibrators.heads import empty_search
from domaincal.calibrators.heads.linear import ALPHA_GRID
from domaincal.calibrators.multi_domain import MultiDomainTemperatureScaling
from domaincal.calibrators.temperature import TemperatureScaling, warn_of_bound
from domaincal.distributed.site_batches import BatchMoments, fit_batches, plan_batches
from domaincal.distributed.site_curves import (
    COLUMNS,
    add_curves,
    fit_from_curve,
    fit_or_unknown,
    points_near,
)
from domaincal.distributed.site_plan import SitePlan
from domaincal.distributed.site_rounds import Rounds, Site, load_rounds
from domaincal.distributed.site_search import best_penalty, search_plan
from domaincal.distributed.site_sums import SiteSums, pooled_scale
from domaincal.errors import InputError
from domaincal.statistics import LeastSquares, LinearMap, TemperatureFit
from domaincal.statistics.temperature_solver import MINIMUM_ROWS

_NO_SECOND_ROUND = "{what!r} needs no second round; combine the sums of the first round."
#: Calibrators that sums are enough for.
_KINDS = (
    MultiDomainTemperatureScaling,
    BatchTemperatureScaling,
    TemperatureScaling,
    DomainTemperatureScaling,
)


def combine_sites(sites: Sequence[Site], calibrator: Any) -> Any:
    """Fit a calibrator to the sums of sites, as if their rows were in one place.

    Parameters
    ----------
    sites : list of SiteSums and SiteAnswers, or of paths of their files
        Sums of each site, in any order. With a second round, also the answers of each site.
    calibrator : calibrator
        Unfitted :class:`MultiDomainTemperatureScaling` with the head "ols" or "ridge",
        :class:`TemperatureScaling`, :class:`DomainTemperatureScaling` or
        :class:`BatchTemperatureScaling`.

    Returns
    -------
    A fitted calibrator of the same class and parameters.

    Examples
    --------
    >>> import domaincal as dc
    >>> from domaincal.distributed import combine_sites, summarize_site
    >>> data, _ = dc.make_multi_domain(n_domains=6, n_rows=200, random_state=0)
    >>> one, other = dc.split_domains(data, ["domain-0", "domain-1"])
    >>> sites = [summarize_site(one), summarize_site(other)]
    >>> fitted = combine_sites(sites, dc.MultiDomainTemperatureScaling(head="ridge", alpha=1.0))
    >>> len(fitted.domain_temperatures_)
    6
    """
    fitted = _checked_calibrator(calibrator)
    rounds = load_rounds(sites)
    sums = rounds.merged()
    if isinstance(fitted, MultiDomainTemperatureScaling):
        _require_features(fitted, sums)
        if needs_search(fitted, sums):
            rounds.require_answers(fitted, "ridge without alpha")
            rounds.require_array("nll_sums", lambda n: (len(ALPHA_GRID) + 1, n))
        else:
            rounds.refuse_answers()
        domains = _domain_fit(sums, _pooled_if_needed(sums))
        _store_head(fitted, rounds, sums, domains)
    elif isinstance(fitted, BatchTemperatureScaling):
        _store_batches(fitted, rounds, sums)
    else:
        name = type(fitted).__name__
        rounds.require_answers(fitted, name)
        asked = _points(sums)
        rounds.require_array("curve", lambda _: (len(asked), len(COLUMNS)))
        curve = add_curves([answer.curve for answer in rounds.answers if answer.curve is not None])
        pooled = fit_from_curve(
            curve, float(sums.n_rows.sum()), pooled_scale(sums.n_rows, sums.fit.scale), sums.fit
        )
        if isinstance(fitted, DomainTemperatureScaling):
            fitted._store_domains(_domain_fit(sums, pooled))
        else:
            fitted.temperature_ = float(pooled.temperature[0])
            fitted.standard_error_ = float(pooled.standard_error[0])
            fitted.n_iter_ = len(sums.curve.log_beta) + len(curve.log_beta)
        warn_of_bound(pooled, int(sums.n_rows.sum()))
    fitted.n_classes_ = sums.rows.n_classes
    fitted.data_fingerprint_ = sums.rows.fingerprint
    fitted.class_names_ = sums.rows.class_names
    fitted.provenance_ = None
    return fitted


def plan_second_round(sites: Sequence[Site], calibrator: Any) -> SitePlan:
    """What a second round must ask of the sites, for methods that need one.

    These are :class:`TemperatureScaling`, :class:`DomainTemperatureScaling`,
    :class:`BatchTemperatureScaling`, and MD-TS with the head "ridge" without ``alpha``, whose sites
    must have been summarized with ``search=True``.

    Parameters
    ----------
    sites : list of SiteSums, or of paths of their files
    calibrator : calibrator
        The same one as for :func:`combine_sites`.

    Returns
    -------
    SitePlan
        With ``save(path)``; every site gets it.

    Examples
    --------
    >>> import domaincal as dc
    >>> from domaincal.distributed import plan_second_round, summarize_site
    >>> data, _ = dc.make_multi_domain(n_domains=6, n_rows=200, random_state=0)
    >>> ridge = dc.MultiDomainTemperatureScaling(head="ridge")
    >>> plan = plan_second_round([summarize_site(data, search=True)], ridge)
    >>> plan.search.coef.shape
    (5, 9, 16)
    """
    fitted = _checked_calibrator(calibrator)
    rounds = load_rounds(sites)
    if rounds.answers:
        raise InputError(
            f"{rounds.answers[0].source} is of the second round; give the sums of the first round."
        )
    sums, identity = rounds.merged(), rounds.identity(fitted)
    if isinstance(fitted, BatchTemperatureScaling):
        if sums.used.sum() < MINIMUM_DOMAINS:
            raise InputError(_NO_SECOND_ROUND.format(what=fitted))
        log_pooled = float(np.log(_pooled(sums).temperature[0]))
        return SitePlan(sums.rows, identity, batches=plan_batches(sums, log_pooled))
    if not isinstance(fitted, MultiDomainTemperatureScaling):
        return SitePlan(sums.rows, identity, _points(sums))
    _require_features(fitted, sums)
    if not needs_search(fitted, sums):
        raise InputError(_NO_SECOND_ROUND.format(what=fitted))
    _require_search_sums(rounds.sites)
    domains = _domain_fit(sums, _pooled_if_needed(sums, warn=False), warn=False)
    return SitePlan(sums.rows, identity, search=search_plan(fitted, sums, domains))


def needs_search(calibrator: MultiDomainTemperatureScaling, sums: SiteSums) -> bool:
    """Whether a penalty must be searched; with one used domain, the smallest is taken."""
    return calibrator.head == "ridge" and calibrator.alpha is None and int(sums.used.sum()) > 1


def _checked_calibrator(calibrator: Any) -> Any:
    """Clone of a calibrator that sums are enough for."""
    if type(calibrator) not in _KINDS:
        raise InputError(
            f"{type(calibrator).__name__} cannot be fitted to sums of sites; use "
            f"{', '.join(kind.__name__ for kind in _KINDS[:-1])} or {_KINDS[-1].__name__}."
        )
    calibrator._check_parameters()
    if isinstance(calibrator, MultiDomainTemperatureScaling) and calibrator.head not in (
        "ols",
        "ridge",
    ):
        raise InputError(
            f"head={calibrator.head!r} needs rows, which sites do not share; use head='ols' or "
            "'ridge'."
        )
    return clone(calibrator)


def _require_features(calibrator: MultiDomainTemperatureScaling, sums: SiteSums) -> None:
    """Raise InputError if the sums are not of the features that the parameters name."""
    wanted = "logits" if calibrator.features == "logits" else "given"
    if sums.rows.features == wanted:
        return
    cure = {
        "logits": "summarize with features='logits' (--sorted-logits)",
        "given": "use features='logits'"
        if sums.rows.features == "logits"
        else "summarize data with features",
    }
    raise InputError(
        f"{sums.source} has no sums of "
        f"{'the sorted logits' if wanted == 'logits' else 'features'}, which this method needs; "
        f"{cure[wanted]}."
    )


def _require_search_sums(sites: Sequence[SiteSums]) -> None:
    for site in sites:
        grams = None if site.features is None else site.features.domain_grams
        if site.domain_curves is None or grams is None:
            raise InputError(
                f"{site.source} has no sums for a search; summarize with search=True (--search), "
                "or give alpha."
            )


def _pooled(sums: SiteSums) -> TemperatureFit:
    """Temperature of all rows, from the slopes of the first round."""
    n = np.asarray(sums.n_rows, np.float64)
    return fit_from_curve(sums.curve, float(n.sum()), pooled_scale(n, sums.fit.scale), sums.fit)


def _pooled_if_needed(sums: SiteSums, *, warn: bool = True) -> TemperatureFit:
    """The same for MD-TS, which predicts it only if no domain is used; otherwise it can be NaN."""
    if not sums.used.any():
        return _pooled(sums)
    n = np.asarray(sums.n_rows, np.float64)
    scale = pooled_scale(n, sums.fit.scale)
    return fit_or_unknown(sums.curve, float(n.sum()), scale, sums.fit, used=sums.used, warn=warn)


def _points(sums: SiteSums) -> FloatArray:
    """Points of the second round."""
    return points_near(-float(np.log(_pooled(sums).temperature[0])), sums.curve)


def _domain_fit(sums: SiteSums, pooled: TemperatureFit, *, warn: bool = True) -> DomainFit:
    """Temperatures as a fit to rows has them; warns of domains that are not used."""
    names, n = sums.rows.domains, np.asarray(sums.n_rows)
    if warn:
        warn_of_unused_domains(names, n < MINIMUM_ROWS, sums.fit)
    return DomainFit(None, names, sums.fit, pooled, sums.used)


def _store_head(
    fitted: MultiDomainTemperatureScaling, rounds: Rounds, sums: SiteSums, domains: DomainFit
) -> None:
    """Solve the head, and set all learned attributes of MD-TS."""
    assert sums.features is not None
    target = fitted._make_target(domains)
    used, n = domains.used, np.asarray(sums.n_rows, np.float64)
    parameters: dict[str, float] = {}
    search: pd.DataFrame = empty_search()
    if not used.any():
        pooled_target = float(target.from_temperature(domains.pooled.temperature)[0])
        head = LinearMap(np.zeros(len(sums.features.shift)), pooled_target)
        warn_of_no_domain(domains.pooled)
    else:
        equations = sums.features.equations(
            n, used, equal_domains=fitted.domain_weight == "equal",
            fit_intercept=fitted.fit_intercept,
        )  # fmt: skip
        solver = LeastSquares(equations, fit_intercept=fitted.fit_intercept)
        alpha = 0.0
        if fitted.head == "ridge" and fitted.alpha is None:
            alpha, search = best_penalty(fitted, equations, used, n, _nll(rounds, sums))
            parameters = {"alpha": alpha}
        elif fitted.head == "ridge":
            alpha = fitted.alpha or 0.0
            parameters = {"alpha": alpha}
        targets = np.where(used, target.from_temperature(domains.each.temperature), 0.0)
        head = solver.solve(targets, alpha=alpha)
    fitted._store_domains(domains)
    fitted.clip_ = (target.low, target.high)
    fitted.head_ = head
    fitted.head_parameters_ = parameters
    fitted.head_search_ = search
    fitted.head_rows_ = int(n[used].sum())
    fitted.feature_columns_ = sums.rows.feature_names
    fitted._n_features = len(sums.features.shift)
    fitted._uses_logits = sums.rows.features == "logits"
    fitted._temperature_target = target


def _store_batches(fitted: BatchTemperatureScaling, rounds: Rounds, sums: SiteSums) -> None:
    """Fit the map of batches, and set all learned attributes."""
    pooled = _pooled(sums)
    domains = _domain_fit(sums, pooled)
    log_pooled = float(np.log(pooled.temperature[0]))
    fitted._store_domains(domains)
    fitted._single_rows = fitted.batch == "row"
    features = sums.features if sums.rows.features == "given" else None
    fitted._n_features = 0 if features is None else len(features.shift)
    fitted.feature_columns_ = None if features is None else sums.rows.feature_names
    if domains.used.sum() < MINIMUM_DOMAINS:
        rounds.refuse_answers()
        warn_of_few_domains(int(domains.used.sum()), fitted.temperature_)
        fitted.feature_directions_ = None
        fitted.batch_map_ = constant_map(log_pooled)
        fitted.batch_errors_ = error_table(fitted.batch_map_, np.nan)
        return
    rounds.require_answers(fitted, "BatchTemperatureScaling")
    fitted.feature_directions_ = plan_batches(sums, log_pooled).directions
    n = n_statistics(fitted.feature_directions_)
    rounds.require_array("batch_means", lambda n_domains: (n_domains, len(BATCHES), n))
    fitted.batch_map_, fitted.batch_errors_ = fit_batches(
        sums, domains.used, _joined_moments(rounds), log_pooled
    )


def _joined_moments(rounds: Rounds) -> BatchMoments:
    """Moments of all domains in their order."""
    found = [answer for answer in rounds.answers if answer.moments is not None]
    order = np.argsort(np.concatenate([answer.rows.domains for answer in found]), kind="stable")
    names = ("profiles", "targets", "batch_means", "batch_covariances")
    return BatchMoments(
        *(np.concatenate([getattr(a.moments, name) for a in found])[order] for name in names)
    )


def _nll(rounds: Rounds, sums: SiteSums) -> FloatArray | None:
    """Mean NLL of each domain under each candidate, from the answers of all sites."""
    if not rounds.answers:
        return None
    columns: dict[Any, FloatArray] = {}
    for answer in rounds.answers:
        assert answer.nll_sums is not None
        means = (answer.nll_sums / answer.n_rows).T
        columns.update(zip(answer.rows.domains.tolist(), means, strict=True))
    return np.stack([columns[name] for name in sums.rows.domains.tolist()], axis=1)
