"""Mean features of each domain, which tell which domains are similar."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from domaincal._row_arrays import RowArray, is_row_array, row_range, sum_over_parts
from domaincal._tensors import on_device
from domaincal._typing import Array, FeatureMatrix, FloatArray, IntArray
from domaincal._validation import non_finite_features_error
from domaincal.kernels import torch_kernels
from domaincal.statistics.blocks import read_ahead
from domaincal.statistics.normal_equations import feature_blocks


def domain_means(
    features: FeatureMatrix,
    domain: IntArray,
    n_domains: int,
    *,
    rows: IntArray | None = None,
    weight: FloatArray | None = None,
) -> FloatArray:
    """Weighted mean features of each domain, shape (n_domains, n_features), in one pass.

    ``rows`` are the numbers of the rows to read, by default all. Domains without rows get 0. With
    domains that are read in blocks, all rows are read, and they have no weights.

    Examples
    --------
    >>> import numpy as np
    >>> domain_means(np.array([[1.0], [3.0], [8.0]]), np.array([0, 0, 1]), 2).tolist()
    [[2.0], [8.0]]
    """
    if is_row_array(domain):
        return _means_of_blocks(features, domain, n_domains)
    rows = np.arange(len(domain)) if rows is None else rows
    n_features = features.shape[1]
    first = features[:1]
    device = on_device(first)
    empty = np.zeros((n_domains, n_features))
    sums: Any = first.send(empty) if on_device(first) else empty
    for block in feature_blocks(len(rows), n_features, device=device):
        own = rows[block]
        x = features[block] if len(rows) == len(domain) else features[own]
        w = np.ones(len(own)) if weight is None else weight[own]
        if on_device(x):
            torch_kernels.add_domain_sums(x.tensor, x.send(domain[own]), x.send(w), sums=sums)
            continue
        _add_sums(sums, x, domain[own], w)
    sums = sums.cpu().numpy() if device else sums
    if not np.isfinite(sums).all():
        raise non_finite_features_error(features)
    total = np.bincount(domain[rows], None if weight is None else weight[rows], n_domains)
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
