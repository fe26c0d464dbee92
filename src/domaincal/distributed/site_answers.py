"""Answers of a site to the plan of a second round."""

# Short signatures in help(): annotations stay text.
from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from domaincal._typing import Array
from domaincal._validation import non_finite_features_error
from domaincal.calibrators.held_out_domains import mean_nll_of_maps
from domaincal.distributed.site_batches import answer_batches
from domaincal.distributed.site_curves import SlopeCurve, within_points
from domaincal.distributed.site_merge import require_same_columns
from domaincal.distributed.site_plan import SiteAnswers, SitePlan
from domaincal.distributed.site_plan_file import decode_plan
from domaincal.distributed.site_summary import (
    MIN_ROWS,
    CheckedSite,
    check_features_vary,
    check_few_wrong,
    check_min_rows,
    check_site,
    fit_domains,
)
from domaincal.errors import InputError
from domaincal.statistics import TemperatureFit


def answer_plan(data: Any, plan: SitePlan, *, min_rows: int = MIN_ROWS) -> SiteAnswers:
    """Sums over the rows of a site that the second round needs.

    Parameters
    ----------
    data : CalibrationData, Store or BlockedRows
        The rows of the first round.
    plan : SitePlan
        From :func:`plan_second_round`.
    min_rows : int, default 50
        Domains with fewer rows, and what else :func:`summarize_site` refuses, are refused.

    Returns
    -------
    SiteAnswers

    Notes
    -----
    Every answered plan tells more about the rows. Random batches are drawn with randomness that the
    site does not share: two answers to the same plan differ.

    Examples
    --------
    >>> import domaincal as dc
    >>> from domaincal.distributed import answer_plan, plan_second_round, summarize_site
    >>> data, _ = dc.make_multi_domain(n_domains=4, n_rows=200, random_state=0)
    >>> plan = plan_second_round([summarize_site(data)], dc.TemperatureScaling())
    >>> answer_plan(data, plan).contents()["array"].tolist()
    ['n_rows', 'log_beta', 'curve']
    """
    plan = decode_plan(*plan.content(), plan.source)
    site = check_site(data, features=plan.rows.features)
    check_min_rows(site, min_rows)
    check_few_wrong(site, min_rows)
    about = site.about
    # The floor of probabilities is known to the caller; it is compared when files are combined.
    same_floor = replace(about, floor=plan.rows.floor)
    require_same_columns(plan.rows, same_floor, plan.source, "the data")
    number = {name: k for k, name in enumerate(plan.rows.domains.tolist())}
    unknown = [name for name in about.domains.tolist() if name not in number]
    if unknown:
        raise InputError(
            f"{plan.source} knows no domain {unknown[0]!r}: the first round had no sums of it; "
            "give the data of the first round."
        )
    n_rows = site.n_rows.astype(np.int64)
    fit, used = fit_domains(site)
    _require_usual_temperatures(plan, fit, used)
    if plan.batches is not None:
        directions = plan.batches.directions
        if directions is not None:
            _require_width(site, len(directions.mean), plan.source)
            check_features_vary(site, used, min_rows)
        moments = answer_batches(site, plan.batches, fit, used)
        return SiteAnswers(about, plan.identity, n_rows, moments=moments)
    if plan.search is None:
        assert plan.log_beta is not None
        curve = SlopeCurve.from_rows(site.labelled, plan.log_beta).total()
        return SiteAnswers(about, plan.identity, n_rows, curve)
    search, x = plan.search, site.features
    _require_width(site, search.coef.shape[2], plan.source)
    check_features_vary(site, used, min_rows)
    assert x is not None
    folds = search.folds[[number[name] for name in about.domains.tolist()]]
    nll = mean_nll_of_maps(site.labelled, x, folds, search.maps(), search.targets(), search.pooled)
    if not np.isfinite(nll[:, folds >= 0]).all():
        raise non_finite_features_error(x)
    sums = np.where(folds >= 0, nll * site.n_rows, 0.0)
    return SiteAnswers(about, plan.identity, n_rows, nll_sums=sums)


def _require_usual_temperatures(plan: SitePlan, fit: TemperatureFit, used: Array) -> None:
    """Raise InputError for temperatures that the first round of this site had no points around.

    At temperatures near 0, sums are those of the rows that are wrong, or nearly so.
    """
    asked = [
        plan.log_beta,
        None if plan.search is None else -np.log(plan.search.pooled),
        None if plan.batches is None else -plan.batches.log_pooled,
    ]
    for values in asked:
        if values is not None and not within_points(values, fit, used):
            far = np.exp(-np.atleast_1d(values))
            raise InputError(
                f"{plan.source} asks for sums at temperatures from {far.min():.3g} to "
                f"{far.max():.3g}, far from those of the domains; give the plan of the first round "
                "of these data."
            )


def _require_width(site: CheckedSite, n_features: int, plan: str) -> None:
    """Raise InputError unless the data have the features of the plan."""
    if site.features is not None and site.features.shape[1] == n_features:
        return
    raise InputError(
        f"{plan} is for {n_features} features, which the data do not have; give the data of the "
        "first round."
    )
