"""Mean features of each domain, which tell which domains are similar."""

from __future__ import annotations

import numpy as np
import scipy.sparse

from domaincal._row_arrays import RowArray, is_row_array, row_range, sum_over_parts
from domaincal._typing import Array, FeatureMatrix, FloatArray, IntArray
from domaincal._validation import non_finite_features_error
from domaincal.kernels import torch_features
from domaincal.kernels.device_groups import RowGroups
from domaincal.statistics.blocks import read_ahead
from domaincal.statistics.feature_products import (
    device_blocks,
    feature_blocks,
    reads_on_device,
    row_groups,
)


def domain_means(
    features: FeatureMatrix,
    domain: IntArray | RowGroups,
    n_domains: int,
    *,
    rows: IntArray | None = None,
    weight: FloatArray | None = None,
) -> FloatArray:
    """Weighted mean features of each domain, shape (n_domains, n_features), in one pass.

    ``rows`` are the numbers of the rows to read, by default all. Domains without rows get 0. With
    domains that are read in blocks, and features on a device, all rows are read. Rows that are read
    in blocks have no weights. ``domain`` may be groups of rows on the device of the features.

    Examples
    --------
    >>> import numpy as np
    >>> domain_means(np.array([[1.0], [3.0], [8.0]]), np.array([0, 0, 1]), 2).tolist()
    [[2.0], [8.0]]
    """
    if is_row_array(domain):
        return _means_of_blocks(features, domain, n_domains)
    if reads_on_device(features):
        return _means_on_device(features, row_groups(features, domain, n_domains), weight)
    assert not isinstance(domain, RowGroups)
    rows = np.arange(len(domain)) if rows is None else rows
    sums = np.zeros((n_domains, features.shape[1]))
    for block in feature_blocks(len(rows), features.shape[1]):
        own = rows[block]
        x = features[block] if len(rows) == len(domain) else features[own]
        w = np.ones(len(own)) if weight is None else weight[own]
        _add_sums(sums, x, domain[own], w)
    if not np.isfinite(sums).all():
        raise non_finite_features_error(features)
    total = np.bincount(domain[rows], None if weight is None else weight[rows], n_domains)
    return np.asarray(sums / np.where(total > 0, total, 1.0)[:, None])


def _means_on_device(
    features: FeatureMatrix, groups: RowGroups, weight: FloatArray | None
) -> FloatArray:
    """Mean features of each domain of rows on a device."""
    sums, total = np.zeros((groups.n_groups, features.shape[1])), np.zeros(groups.n_groups)
    for x, own, w in device_blocks(features, groups, weight):
        sums += torch_features.feature_sums(x, own, w).cpu().numpy()
        total += own.sums(w).cpu().numpy()
    if not np.isfinite(sums).all():
        raise non_finite_features_error(features)
    return np.asarray(sums / np.where(total > 0, total, 1.0)[:, None])


def _means_of_blocks(features: FeatureMatrix, domain: RowArray, n_domains: int) -> FloatArray:
    """Mean features of each domain of rows that are read in blocks."""
    sums, counts = sum_over_parts(_sum_blocks, features, domain, n_domains)
    if not np.isfinite(sums).all():
        raise non_finite_features_error(features)
    return np.asarray(sums / np.where(counts > 0, counts, 1.0)[:, None])


def _sum_blocks(features: FeatureMatrix, domain: RowArray, n_domains: int) -> list[FloatArray]:
    """Sums of the features of each domain, and its number of rows."""
    sums, counts = np.zeros((n_domains, features.shape[1])), np.zeros(n_domains)

    def read(block: slice) -> tuple[Array, IntArray]:
        return features[block], domain[block]

    for x, codes in read_ahead(read, feature_blocks(row_range(features), features.shape[1])):
        _add_sums(sums, x, codes, np.ones(len(x)))
        counts += np.bincount(codes, minlength=n_domains)
    return [sums, counts]


def _add_sums(sums: FloatArray, x: Array, domain: IntArray, weight: FloatArray) -> None:
    """Add weighted rows to the sums of their domains, in place."""
    # Only the domains in the block: sums of all domains may be larger than the block.
    present, codes = np.unique(domain, return_inverse=True)
    indicator = scipy.sparse.csr_array(
        (weight, (codes, np.arange(len(codes)))), shape=(len(present), len(codes))
    )
    with np.errstate(over="ignore", invalid="ignore"):  # the caller reports it
        sums[present] += indicator @ x.astype(np.float64)
