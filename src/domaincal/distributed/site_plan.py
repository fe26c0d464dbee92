"""The second round: a plan that all sites get, and their answers to it."""

# Short signatures in help(): annotations stay text.
from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from domaincal._files import decoding
from domaincal._typing import Array, FloatArray, IntArray
from domaincal._validation import non_finite_features_error
from domaincal.calibrators.batch.batch_map import LARGEST_VALUE, FeatureDirections
from domaincal.calibrators.batch.batch_training import BATCHES
from domaincal.calibrators.files.learned_checks import (
    Check,
    array,
    count,
    require,
    target_name,
    text,
)
from domaincal.calibrators.heads import LARGEST_FEATURE
from domaincal.calibrators.held_out_domains import mean_nll_of_maps
from domaincal.calibrators.temperature_target import TEMPERATURE_RANGE, TemperatureTarget
from domaincal.distributed.site_batches import BatchMoments, BatchPlan, answer_batches
from domaincal.distributed.site_curves import COLUMNS, SlopeCurve
from domaincal.distributed.site_file import (
    ANSWERS,
    PLAN,
    check_arrays,
    check_curve,
    check_positive,
    check_symmetric,
    decode_rows,
    encode_rows,
    write_site_file,
)
from domaincal.distributed.site_merge import require_same_columns
from domaincal.distributed.site_summary import MIN_ROWS, CheckedSite, check_min_rows, check_site
from domaincal.distributed.site_sums import SiteRows, contents_of
from domaincal.errors import InputError
from domaincal.statistics import LinearMap

_CURE = "write it again"


@dataclass(frozen=True, eq=False)
class SearchPlan:
    """Candidates of a search, each fitted without the domains of one fold.

    Attributes
    ----------
    folds : array, shape (n_domains,)
        Fold of each domain of all sites; -1 for domains that are not used.
    coef : array, shape (n_folds, n_candidates, n_features)
    intercept : array, shape (n_folds, n_candidates)
    limits : array, shape (n_folds, 2)
        Smallest and largest temperature.
    pooled : array, shape (n_folds,)
        One temperature for the rows of all other folds.
    target : {"temperature", "log", "inverse"}
    """

    folds: IntArray
    coef: FloatArray
    intercept: FloatArray
    limits: FloatArray
    pooled: FloatArray
    target: str

    def maps(self) -> list[list[LinearMap]]:
        """Linear maps of each fold."""
        return [
            [LinearMap(coef, float(b)) for coef, b in zip(of_fold, intercepts, strict=True)]
            for of_fold, intercepts in zip(self.coef, self.intercept, strict=True)
        ]

    def targets(self) -> list[TemperatureTarget]:
        """Target of each fold, with its limits."""
        return [
            TemperatureTarget(self.target, float(low), float(high))  # type: ignore[arg-type]
            for low, high in self.limits
        ]


@dataclass(frozen=True, eq=False)
class SitePlan:
    """What a second round asks of every site; :func:`answer_plan` answers it.

    Attributes
    ----------
    rows : SiteRows
        Names of classes, features and domains of all sites.
    identity : str
        Digest of the sums of the first round and of the method.
    log_beta : array, or None
        Temperatures at which slopes are wanted.
    search : SearchPlan or None
        Candidates whose log loss is wanted.
    batches : BatchPlan or None
        What is needed to draw batches whose statistics are wanted.

    Examples
    --------
    >>> import domaincal as dc
    >>> from domaincal.distributed import answer_plan, combine_sites, plan_second_round
    >>> from domaincal.distributed import summarize_site
    >>> data, _ = dc.make_multi_domain(n_domains=4, n_rows=200, random_state=0)
    >>> first = summarize_site(data)
    >>> plan = plan_second_round([first], dc.TemperatureScaling())
    >>> fitted = combine_sites([first, answer_plan(data, plan)], dc.TemperatureScaling())
    >>> abs(fitted.temperature_ - dc.TemperatureScaling().fit(data).temperature_) < 1e-8
    True
    """

    rows: SiteRows
    identity: str
    log_beta: FloatArray | None = None
    search: SearchPlan | None = None
    batches: BatchPlan | None = None
    source: str = "the plan"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the plan to a ``.safetensors`` file, atomically."""
        header = {**encode_rows(self.rows), "identity": self.identity}
        arrays: dict[str, Array] = {}
        if self.log_beta is not None:
            arrays["log_beta"] = self.log_beta
        if self.search is not None:
            header["target"] = self.search.target
            names = ("folds", "coef", "intercept", "limits", "pooled")
            arrays |= {name: getattr(self.search, name) for name in names}
        if self.batches is not None:
            header["seed"] = self.batches.seed
            arrays["log_pooled"] = np.array([self.batches.log_pooled])
            directions = self.batches.directions
            if directions is not None:
                arrays["centre"] = directions.mean
                arrays["scale"] = np.array([directions.scale])
                arrays["directions"] = directions.directions
        write_site_file(path, PLAN, header, arrays)


@dataclass(frozen=True, eq=False)
class SiteAnswers:
    """Sums of a site that a plan asked for; no row, logit or feature of a single row is in it.

    Attributes
    ----------
    rows : SiteRows
    identity : str
        That of the plan.
    n_rows : array, shape (n_domains,)
    curve : SlopeCurve or None
        Derivatives of the NLL of all rows at the temperatures of the plan.
    nll_sums : array, shape (n_candidates + 1, n_domains), or None
        NLL of each domain under each candidate, and under one temperature; 0 for domains that are
        not used.
    moments : BatchMoments or None
        Means and covariances of the statistics of random batches.
    """

    rows: SiteRows
    identity: str
    n_rows: Array
    curve: SlopeCurve | None = None
    nll_sums: FloatArray | None = None
    moments: BatchMoments | None = None
    source: str = "the site"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the answers to a ``.safetensors`` file, atomically."""
        header = {**encode_rows(self.rows), "identity": self.identity}
        write_site_file(path, ANSWERS, header, self.arrays())

    def arrays(self) -> dict[str, Array]:
        """All arrays, under their names in files."""
        found: dict[str, Array] = {"n_rows": np.asarray(self.n_rows, np.int64)}
        if self.curve is not None:
            found |= {"log_beta": self.curve.log_beta, "curve": self.curve.sums}
        if self.nll_sums is not None:
            found["nll_sums"] = self.nll_sums
        if self.moments is not None:
            found |= {name: getattr(self.moments, name) for name in _MOMENTS}
        return found

    def contents(self) -> pd.DataFrame:
        """What leaves the site: array, its size and what it means, one row for each array."""
        return contents_of(self.arrays())

    def remarks(self) -> list[str]:
        """Sentences about what is in the sums."""
        return [
            f"Besides these sums over {int(self.n_rows.sum())} rows, the file holds the names of "
            f"the {len(self.n_rows)} domains, of the classes and of the features, and a digest of "
            "the data.",
            "No label, logit or feature of a single row is in it.",
        ]


def answer_plan(data: Any, plan: SitePlan, *, min_rows: int = MIN_ROWS) -> SiteAnswers:
    """Sums over the rows of a site that the second round needs.

    Parameters
    ----------
    data : CalibrationData, Store or BlockedRows
        The rows of the first round.
    plan : SitePlan
        From :func:`plan_second_round`.
    min_rows : int, default 50
        Domains with fewer rows are refused.

    Returns
    -------
    SiteAnswers

    Examples
    --------
    >>> import domaincal as dc
    >>> from domaincal.distributed import answer_plan, plan_second_round, summarize_site
    >>> data, _ = dc.make_multi_domain(n_domains=4, n_rows=200, random_state=0)
    >>> plan = plan_second_round([summarize_site(data)], dc.TemperatureScaling())
    >>> answer_plan(data, plan).contents()["array"].tolist()
    ['n_rows', 'log_beta', 'curve']
    """
    site = check_site(data, features=plan.rows.features)
    check_min_rows(site, min_rows)
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
    if plan.batches is not None:
        directions = plan.batches.directions
        _require_width(site, None if directions is None else len(directions.mean), plan.source)
        moments = answer_batches(site, plan.batches)
        return SiteAnswers(about, plan.identity, n_rows, moments=moments)
    if plan.search is None:
        assert plan.log_beta is not None
        curve = SlopeCurve.from_rows(site.labelled, plan.log_beta).total()
        return SiteAnswers(about, plan.identity, n_rows, curve)
    search, x = plan.search, site.features
    _require_width(site, search.coef.shape[2], plan.source)
    assert x is not None
    folds = search.folds[[number[name] for name in about.domains.tolist()]]
    nll = mean_nll_of_maps(site.labelled, x, folds, search.maps(), search.targets(), search.pooled)
    if not np.isfinite(nll[:, folds >= 0]).all():
        raise non_finite_features_error(x)
    sums = np.where(folds >= 0, nll * site.n_rows, 0.0)
    return SiteAnswers(about, plan.identity, n_rows, nll_sums=sums)


def _require_width(site: CheckedSite, n_features: int | None, plan: str) -> None:
    """Raise InputError unless the data have the features of the plan."""
    if n_features is None or (site.features is not None and site.features.shape[1] == n_features):
        return
    raise InputError(
        f"{plan} is for {n_features} features, which the data do not have; give the data of the "
        "first round."
    )


def decode_plan(
    header: Mapping[str, Any], tensors: dict[str, Array], path: str | os.PathLike[str]
) -> SitePlan:
    """Plan of a file, whose content is checked."""
    with decoding(path, _CURE):
        rows = decode_rows(header)
        text(header["identity"], {})
        sizes = {"n_domains": len(rows.domains), "n_limits": 2}
        if "log_pooled" in tensors:
            batches = _decode_batches(header, tensors)
            return SitePlan(rows, header["identity"], batches=batches, source=str(path))
        if "folds" not in tensors:
            check_arrays(tensors, {"log_beta": _POINTS}, sizes)
            return SitePlan(rows, header["identity"], tensors["log_beta"], source=str(path))
        check_arrays(tensors, _SEARCH, sizes)
        target_name(header["target"], {})
        folds, limits = tensors["folds"], tensors["limits"]
        require(bool((folds < sizes["n_folds"]).all()), "folds name a fold that does not exist")
        require(bool((limits[:, 0] <= limits[:, 1]).all()), "limits are not in ascending order")
        search = SearchPlan(
            folds, tensors["coef"], tensors["intercept"], limits, tensors["pooled"],
            header["target"],
        )  # fmt: skip
        return SitePlan(rows, header["identity"], search=search, source=str(path))


def decode_answers(
    header: Mapping[str, Any], tensors: dict[str, Array], path: str | os.PathLike[str]
) -> SiteAnswers:
    """Answers of a file, whose content is checked."""
    with decoding(path, _CURE):
        rows = decode_rows(header)
        text(header["identity"], {})
        sizes = {"n_domains": len(rows.domains), "n_sums": len(COLUMNS)}
        n_rows = array("n_domains", low=1, high=2**53, dtypes="lq")
        if "nll_sums" in tensors:
            nll_sums = array("n_scored", "n_domains", low=0.0)
            check_arrays(tensors, {"n_rows": n_rows, "nll_sums": nll_sums}, sizes)
            return SiteAnswers(
                rows, header["identity"], tensors["n_rows"], nll_sums=tensors["nll_sums"],
                source=str(path),
            )  # fmt: skip
        if "profiles" in tensors:
            sizes["n_sizes"] = len(BATCHES)
            check_arrays(tensors, {"n_rows": n_rows, **_MOMENTS}, sizes)
            for matrix in tensors["batch_covariances"].reshape(-1, *2 * [sizes["n_statistics"]]):
                check_symmetric(matrix, "batch_covariances")
                check_positive(matrix, np.trace(matrix), "batch_covariances")
            moments = BatchMoments(*(tensors[name] for name in _MOMENTS))
            return SiteAnswers(
                rows, header["identity"], tensors["n_rows"], moments=moments, source=str(path)
            )
        checks = {"n_rows": n_rows, "log_beta": _POINTS, "curve": array("n_points", "n_sums")}
        check_arrays(tensors, checks, sizes)
        check_curve(tensors["curve"], "curve")
        curve = SlopeCurve(tensors["log_beta"], tensors["curve"])
        return SiteAnswers(rows, header["identity"], tensors["n_rows"], curve, source=str(path))


def _decode_batches(header: Mapping[str, Any], tensors: dict[str, Array]) -> BatchPlan:
    """Plan of batches; raises ValueError for contents that no plan can have."""
    sizes: dict[str, int] = {"one": 1}
    count()(header["seed"], {})
    if len(tensors) == 1:
        check_arrays(tensors, {"log_pooled": _LOG_POOLED}, sizes)
        return BatchPlan(float(tensors["log_pooled"][0]), header["seed"], None)
    check_arrays(tensors, _DIRECTIONS, sizes)
    directions = FeatureDirections(
        tensors["centre"], float(tensors["scale"][0]), tensors["directions"]
    )
    return BatchPlan(float(tensors["log_pooled"][0]), header["seed"], directions)


_LOG_POOLED = array("one", low=-500.0, high=500.0)
_DIRECTIONS: dict[str, Check] = {
    "log_pooled": _LOG_POOLED,
    "centre": array("n_features", low=-LARGEST_FEATURE, high=LARGEST_FEATURE),
    "scale": array("one", low=np.finfo(np.float64).tiny),
    "directions": array("n_features", "n_directions", low=-LARGEST_VALUE, high=LARGEST_VALUE),
}
_MOMENTS: dict[str, Check] = {
    "profiles": array("n_domains", "n_statistics", low=-LARGEST_VALUE, high=LARGEST_VALUE),
    "targets": array("n_domains", low=-500.0, high=500.0),
    "batch_means": array(
        "n_domains", "n_sizes", "n_statistics", low=-LARGEST_VALUE, high=LARGEST_VALUE
    ),
    "batch_covariances": array(
        "n_domains",
        "n_sizes",
        "n_statistics",
        "n_statistics",
        low=-(LARGEST_VALUE**2),
        high=LARGEST_VALUE**2,
    ),
}
_POINTS = array("n_points", low=-500.0, high=500.0, ascending=True)
_SEARCH: dict[str, Check] = {
    "coef": array("n_folds", "n_candidates", "n_features"),
    "intercept": array("n_folds", "n_candidates"),
    "limits": array("n_folds", "n_limits", low=TEMPERATURE_RANGE[0], high=TEMPERATURE_RANGE[1]),
    "pooled": array("n_folds", low=TEMPERATURE_RANGE[0], high=TEMPERATURE_RANGE[1]),
    "folds": array("n_domains", low=-1, high=2**31, dtypes="lq"),
}
