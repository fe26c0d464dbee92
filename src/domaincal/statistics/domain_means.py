"""Mean features of each domain, which tell which domains are similar."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from domaincal._tensors import on_device
from domaincal._typing import FeatureMatrix, FloatArray, IntArray
from domaincal._validation import non_finite_features_error
from domaincal.kernels import torch_kernels
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

    ``rows`` are the numbers of the rows to read, by default all. Domains without rows get 0.

    Examples
    --------
    >>> import numpy as np
    >>> domain_means(np.array([[1.0], [3.0], [8.0]]), np.array([0, 0, 1]), 2).tolist()
    [[2.0], [8.0]]
    """
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
        # Only the domains in the block: sums of all domains may be larger than the block.
        present, codes = np.unique(domain[own], return_inverse=True)
        indicator = scipy.sparse.csr_array(
            (w, (codes, np.arange(len(own)))), shape=(len(present), len(own))
        )
        with np.errstate(over="ignore", invalid="ignore"):  # reported below
            sums[present] += indicator @ x.astype(np.float64)
    sums = sums.cpu().numpy() if device else sums
    if not np.isfinite(sums).all():
        raise non_finite_features_error(features)
    total = np.bincount(domain[rows], None if weight is None else weight[rows], n_domains)
    return np.asarray(sums / np.where(total > 0, total, 1.0)[:, None])
