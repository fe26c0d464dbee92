"""Sums of residuals over rows, for a step of iterative refinement."""

from __future__ import annotations

from functools import partial

import numpy as np

from domaincal._row_arrays import row_range, sum_over_parts
from domaincal._tensors import loaded_torch
from domaincal._typing import FeatureMatrix, FloatArray, IntArray
from domaincal.kernels import dispatch, torch_features
from domaincal.kernels.device_groups import RowGroups
from domaincal.statistics.blocks import Workers
from domaincal.statistics.feature_products import (
    LinearMap,
    device_blocks,
    feature_blocks,
    reads_on_device,
    row_groups,
)
from domaincal.statistics.normal_equations import compiled_pays


def sum_residuals(
    features: FeatureMatrix,
    domain: IntArray | RowGroups,
    solution: LinearMap,
    targets: FloatArray,
    *,
    centre: FloatArray,
    weight: FloatArray | None = None,
) -> FloatArray:
    """``sum w (x - centre) (t - x'c - b)`` over the rows, for a step of refinement.

    Domains whose target is NaN are left out. ``domain`` is that of
    :func:`~domaincal.statistics.normal_equations.sum_normal_equations`.
    """
    if reads_on_device(features):
        groups = row_groups(features, domain, len(targets))
        return _residuals_on_device(features, groups, solution, targets, centre, weight)
    return sum_over_parts(_sum_residuals, features, domain, solution, targets, centre, weight)


def _sum_residuals(
    features: FeatureMatrix,
    domain: IntArray,
    solution: LinearMap,
    targets: FloatArray,
    centre: FloatArray,
    weight: FloatArray | None,
) -> FloatArray:
    """Sum of :func:`sum_residuals` over the rows that this process reads."""
    at_centre = float(solution.intercept + centre @ solution.coef)
    rows = row_range(features)
    if compiled_pays(features):

        def block_sum(block: slice) -> FloatArray:
            return dispatch.residual_sum(
                features[block], targets[domain[block]], None if weight is None else weight[block],
                coef=solution.coef, intercept=at_centre, centre=centre,
            )  # fmt: skip

        with Workers() as workers:
            return np.asarray(workers.sum(block_sum, feature_blocks(rows, features.shape[1])))
    total = np.zeros(features.shape[1])
    for block in feature_blocks(rows, features.shape[1]):
        target = targets[domain[block]]
        used = ~np.isnan(target)
        x = features[block] if used.all() else features[block][used]
        w = None if weight is None else weight[block][used]
        x = x - centre  # in float64
        residual = target[used] - (x @ solution.coef + at_centre)
        if w is not None:
            residual *= w
        total += residual @ x
    return total


def _residuals_on_device(
    features: FeatureMatrix,
    groups: RowGroups,
    solution: LinearMap,
    targets: FloatArray,
    centre: FloatArray,
    weight: FloatArray | None,
) -> FloatArray:
    """Sum of :func:`sum_residuals` over rows on a device."""
    send = partial(loaded_torch().tensor, dtype=loaded_torch().float64, device=groups.device)
    total = np.zeros(features.shape[1])
    for x, own, w in device_blocks(features, groups, weight):
        total += torch_features.residual_sum(
            x, own, send(targets), w, coef=send(solution.coef), intercept=solution.intercept,
            centre=send(centre),
        ).cpu().numpy()  # fmt: skip
    return total
