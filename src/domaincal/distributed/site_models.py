"""Ordinary calibrators from the sums of sites."""

# Short signatures in help(): annotations stay text.
from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from sklearn.base import clone

from domaincal._typing import FloatArray
from domaincal.calibrators.domain_calibrator import (
    DomainFit,
    warn_of_unused_domains,
)
from domaincal.calibrators.domain_temperature import DomainTemperatureScaling
from domaincal.calibrators.head_warnings import warn_of_no_domain
from domaincal.calibrators.heads import empty_search
from domaincal.calibrators.multi_domain import MultiDomainTemperatureScaling
from domaincal.calibrators.temperature import TemperatureScaling, warn_of_bound
from domaincal.distributed.site_curves import add_curves, fit_from_curve, points_near
from domaincal.distributed.site_file import (
    ANSWERS,
    PLAN,
    decode_sums,
    read_site_file,
)
from domaincal.distributed.site_merge import digest_of, merge_sites, require_same_columns
from domaincal.distributed.site_plan import SiteAnswers, SitePlan, decode_answers, decode_plan
from domaincal.distributed.site_search import best_penalty, search_plan
from domaincal.distributed.site_sums import SiteSums, pooled_scale
from domaincal.errors import InputError
from domaincal.statistics import LeastSquares, LinearMap, TemperatureFit
from domaincal.statistics.temperature_solver import MINIMUM_ROWS

#: Sums or answers of a site, or the file of either.
Site: TypeAlias = SiteSums | SiteAnswers | str | os.PathLike[str]

_SECOND_ROUND = (
    "{what} needs a second round: write a plan with plan_second_round() (domaincal site combine "
    "--plan), let every site answer it with answer_plan() (domaincal site summarize --given), and "
    "give the files of both rounds."
)


@dataclass(frozen=True, eq=False)
class _Rounds:
    """Checked files of both rounds: the sums of each site, and the answers in the same order."""

    sites: list[SiteSums]
    answers: list[SiteAnswers]

    def merged(self) -> SiteSums:
        return merge_sites(self.sites)

    def identity(self, calibrator: Any) -> str:
        """Digest of the sums of the first round and of the method."""
        digests = sorted(map(digest_of, self.sites))
        method = f"{type(calibrator).__name__} {sorted(calibrator.get_params().items())!r}"
        return hashlib.sha256("\n".join([method, *digests]).encode()).hexdigest()


def load_site(path: str | os.PathLike[str]) -> SiteSums | SiteAnswers | SitePlan:
    """Load a file that a site, or :func:`plan_second_round`, has written; its content is checked.

    Parameters
    ----------
    path : path of a ``.safetensors`` file

    Returns
    -------
    SiteSums, SiteAnswers or SitePlan

    Examples
    --------
    >>> import tempfile, domaincal as dc
    >>> from domaincal.distributed import load_site, summarize_site
    >>> data, _ = dc.make_multi_domain(n_domains=3, n_rows=100, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     summarize_site(data).save(folder + "/site.safetensors")
    ...     load_site(folder + "/site.safetensors").n_rows.tolist()
    [100, 100, 100]
    """
    header, tensors = read_site_file(path)
    if header["content"] == PLAN:
        return decode_plan(header, tensors, path)
    if header["content"] == ANSWERS:
        return decode_answers(header, tensors, path)
    return decode_sums(header, tensors, path)


def combine_sites(sites: Sequence[Site], calibrator: Any) -> Any:
    """Fit a calibrator to the sums of sites, as if their rows were in one place.

    Parameters
    ----------
    sites : list of SiteSums and SiteAnswers, or of paths of their files
        Sums of each site, in any order. With a second round, also the answers of each site.
    calibrator : MultiDomainTemperatureScaling, TemperatureScaling or DomainTemperatureScaling
        Unfitted calibrator. MD-TS must have the head "ols" or "ridge".

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
    rounds = _load_rounds(sites)
    sums = rounds.merged()
    if isinstance(fitted, MultiDomainTemperatureScaling):
        _require_features(fitted, sums)
        if needs_search(fitted, sums):
            _require_answers(rounds, fitted, "ridge without alpha")
        domains = _domain_fit(sums, _pooled(sums))
        _store_head(fitted, rounds, sums, domains)
    else:
        name = type(fitted).__name__
        _require_answers(rounds, fitted, name)
        curves = [answer.curve for answer in rounds.answers if answer.curve is not None]
        curve = add_curves(curves)
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

    These are :class:`TemperatureScaling`, :class:`DomainTemperatureScaling`, and MD-TS with the
    head "ridge" without ``alpha``, whose sites must have been summarized with ``search=True``.

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
    rounds = _load_rounds(sites)
    if rounds.answers:
        raise InputError(
            f"{rounds.answers[0].source} is of the second round; give the sums of the first round."
        )
    sums, identity = rounds.merged(), rounds.identity(fitted)
    if not isinstance(fitted, MultiDomainTemperatureScaling):
        pooled = _pooled(sums)
        points = points_near(-float(np.log(pooled.temperature[0])))
        return SitePlan(sums.rows, identity, points)
    _require_features(fitted, sums)
    if not needs_search(fitted, sums):
        raise InputError(f"{fitted!r} needs no second round; combine the sums of the first round.")
    _require_search_sums(rounds.sites)
    domains = _domain_fit(sums, _pooled(sums), warn=False)
    return SitePlan(sums.rows, identity, search=search_plan(fitted, sums, domains))


def needs_search(calibrator: MultiDomainTemperatureScaling, sums: SiteSums) -> bool:
    """Whether a penalty must be searched; with one used domain, the smallest is taken."""
    return calibrator.head == "ridge" and calibrator.alpha is None and int(sums.used.sum()) > 1


def _checked_calibrator(calibrator: Any) -> Any:
    """Clone of a calibrator that sums are enough for."""
    kinds = (MultiDomainTemperatureScaling, TemperatureScaling, DomainTemperatureScaling)
    if type(calibrator) not in kinds:
        raise InputError(
            f"{type(calibrator).__name__} cannot be fitted to sums of sites; use "
            "MultiDomainTemperatureScaling, TemperatureScaling or DomainTemperatureScaling."
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


def _load_rounds(sites: Sequence[Site]) -> _Rounds:
    """Sums and answers of the sites, loaded from their files and matched."""
    if isinstance(sites, str | os.PathLike) or not len(sites):
        raise InputError("sites must be a list of at least one file or summary of a site.")
    loaded: list[Any] = []
    for k, site in enumerate(sites):
        if isinstance(site, SiteSums | SiteAnswers):
            named = {**vars(site), "source": f"site {k + 1}"}
            loaded.append(type(site)(**named) if site.source == "the site" else site)
        elif isinstance(site, SitePlan):
            loaded.append(site)
        elif isinstance(site, str | os.PathLike):
            loaded.append(load_site(site))
        else:
            raise InputError(
                f"sites holds a {type(site).__name__}; give the results of summarize_site, or "
                "paths of their files."
            )
    for one in loaded:
        if isinstance(one, SitePlan):
            raise InputError(
                f"{one.source} is the plan of a second round, not sums of a site; leave it out."
            )
    sums = [one for one in loaded if isinstance(one, SiteSums)]
    answers = [one for one in loaded if isinstance(one, SiteAnswers)]
    if not sums:
        raise InputError(
            f"{answers[0].source} is of the second round; give the sums of the first round as well."
        )
    return _Rounds(sums, answers)


def _require_answers(rounds: _Rounds, calibrator: Any, what: str) -> None:
    """Raise InputError unless each site has answered the plan of this method."""
    if not rounds.answers:
        raise InputError(_SECOND_ROUND.format(what=what))
    identity = rounds.identity(calibrator)
    by_data: dict[str, SiteAnswers] = {}
    for answer in rounds.answers:
        if answer.identity != identity:
            raise InputError(
                f"{answer.source} answers another plan: that of another method, other parameters, "
                "or other files of the first round; answer the plan of these."
            )
        before = by_data.setdefault(_key(answer), answer)
        if before is not answer:
            raise InputError(
                f"{before.source} and {answer.source} hold the answers of the same site; leave one "
                "of them out."
            )
    for site in rounds.sites:
        found = by_data.pop(_key(site), None)
        if found is None:
            raise InputError(
                f"{site.source} has no answers of the second round; give those of the same data "
                f"({site.rows.fingerprint})."
            )
        if not np.array_equal(found.n_rows, site.n_rows):
            raise InputError(f"n_rows of {found.source} differ from those of {site.source}.")
        require_same_columns(site.rows, found.rows, site.source, found.source)
    for answer in by_data.values():
        raise InputError(f"{answer.source} answers for a site whose sums are not given.")


def _key(site: SiteSums | SiteAnswers) -> str:
    return f"{site.rows.fingerprint} {site.rows.domains.tolist()!r}"


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
        if site.domain_curves is None or (grams is None and site.used.any()):
            raise InputError(
                f"{site.source} has no sums for a search; summarize with search=True (--search), "
                "or give alpha."
            )


def _pooled(sums: SiteSums) -> TemperatureFit:
    """Temperature of all rows, from the slopes of the first round."""
    n = np.asarray(sums.n_rows, np.float64)
    return fit_from_curve(sums.curve, float(n.sum()), pooled_scale(n, sums.fit.scale), sums.fit)


def _domain_fit(sums: SiteSums, pooled: TemperatureFit, *, warn: bool = True) -> DomainFit:
    """Temperatures as a fit to rows has them; warns of domains that are not used."""
    names, n = sums.rows.domains, np.asarray(sums.n_rows)
    if warn:
        warn_of_unused_domains(names, n < MINIMUM_ROWS, sums.fit)
    return DomainFit(np.empty(0, np.int64), names, sums.fit, pooled, sums.used)


def _store_head(
    fitted: MultiDomainTemperatureScaling, rounds: _Rounds, sums: SiteSums, domains: DomainFit
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


def _nll(rounds: _Rounds, sums: SiteSums) -> FloatArray | None:
    """Mean NLL of each domain under each candidate, from the answers of all sites."""
    if not rounds.answers:
        return None
    columns: dict[Any, FloatArray] = {}
    for answer in rounds.answers:
        assert answer.nll_sums is not None
        means = (answer.nll_sums / answer.n_rows).T
        columns.update(zip(answer.rows.domains.tolist(), means, strict=True))
    return np.stack([columns[name] for name in sums.rows.domains.tolist()], axis=1)
