"""Plans and answers of files: their arrays are those that plans and answers can have."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from domaincal._files import decoding
from domaincal._typing import Array
from domaincal.calibrators.batch.batch_map import LARGEST_VALUE, FeatureDirections
from domaincal.calibrators.batch.batch_training import BATCHES
from domaincal.calibrators.files.learned_checks import Check, array, require, target_name, text
from domaincal.calibrators.heads import LARGEST_FEATURE
from domaincal.calibrators.heads.grid_search import MAX_FOLDS
from domaincal.calibrators.heads.linear import ALPHA_GRID
from domaincal.calibrators.temperature_target import TEMPERATURE_RANGE
from domaincal.distributed.site_batches import (
    N_DIRECTIONS,
    SMALLEST_VARIANCE,
    BatchMoments,
    BatchPlan,
)
from domaincal.distributed.site_curves import COLUMNS, SlopeCurve, are_near
from domaincal.distributed.site_file import (
    check_arrays,
    check_curve,
    check_positive,
    check_symmetric,
    decode_rows,
)
from domaincal.distributed.site_plan import SearchPlan, SiteAnswers, SitePlan

_CURE = "write it again"


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
            require(are_near(tensors["log_beta"]), "log_beta is not of three near points")
            return SitePlan(rows, header["identity"], tensors["log_beta"], source=str(path))
        check_arrays(tensors, _SEARCH, sizes)
        target_name(header["target"], {})
        folds, limits = tensors["folds"], tensors["limits"]
        require(sizes["n_folds"] <= MAX_FOLDS, f"coef is of {sizes['n_folds']} folds")
        n_candidates = sizes["n_candidates"]
        require(n_candidates == len(ALPHA_GRID), f"coef is of {n_candidates} candidates")
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
    if len(tensors) == 1:
        check_arrays(tensors, {"log_pooled": _LOG_POOLED}, sizes)
        return BatchPlan(float(tensors["log_pooled"][0]), None)
    check_arrays(tensors, _DIRECTIONS, sizes)
    found = tensors["directions"]
    # Whitened: the variance along a direction, in units of the largest of a feature, has a limit.
    largest = 1.01 * np.sqrt(len(found) / SMALLEST_VARIANCE)
    require(found.shape[1] <= N_DIRECTIONS, f"directions has {found.shape[1]} columns")
    require(bool((np.abs(found) <= largest).all()), "directions are too long")
    directions = FeatureDirections(
        tensors["centre"], float(tensors["scale"][0]), tensors["directions"]
    )
    return BatchPlan(float(tensors["log_pooled"][0]), directions)


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
