"""Number of rows of each domain, and which domains occur in a block of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from domaincal._row_arrays import is_row_array, row_range, sum_over_parts
from domaincal._tensors import on_device
from domaincal._typing import Array, FloatArray, IntArray
from domaincal.kernels import torch_kernels
from domaincal.statistics.blocks import row_blocks


def domain_counts(domain: Array, n_domains: int, weight: FloatArray | None = None) -> FloatArray:
    """Number of rows of each domain, or their total weight; ``domain`` is the code of each row.

    Examples
    --------
    >>> import numpy as np
    >>> domain_counts(np.array([0, 2, 0]), 3).tolist()
    [2.0, 0.0, 1.0]
    """
    if on_device(domain) and weight is None:
        return torch_kernels.counts(domain.tensor, n_domains).astype(np.float64)
    if not is_row_array(domain):
        return np.bincount(domain, weight, minlength=n_domains).astype(np.float64)
    return sum_over_parts(_count_blocks, domain, n_domains, weight)


def _count_blocks(domain: Array, n_domains: int, weight: FloatArray | None) -> FloatArray:
    total = np.zeros(n_domains)
    for block in row_blocks(row_range(domain), 8):
        total += np.bincount(
            domain[block], None if weight is None else weight[block], minlength=n_domains
        )
    return total


def present_domains(codes: IntArray, n_domains: int) -> tuple[Any, IntArray, int]:
    """Domains to sum in a block, the number of each row's domain among them, and how many.

    In a block with fewer rows than there are domains, only those that occur: the sums of all
    domains would be larger than the block. Otherwise all of them, as a slice.

    Examples
    --------
    >>> import numpy as np
    >>> present, codes, n = present_domains(np.array([7, 7]), 9)
    >>> present.tolist(), codes.tolist(), n
    ([7], [0, 0], 1)
    """
    if len(codes) >= n_domains:
        return slice(None), codes, n_domains
    present, own = np.unique(codes, return_inverse=True)
    return present, own, len(present)
