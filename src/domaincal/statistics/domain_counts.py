"""Number of rows of each domain."""

from __future__ import annotations

import numpy as np

from domaincal._row_arrays import is_row_array, row_range, sum_over_parts
from domaincal._typing import Array, FloatArray
from domaincal.statistics.blocks import row_blocks


def domain_counts(domain: Array, n_domains: int, weight: FloatArray | None = None) -> FloatArray:
    """Number of rows of each domain, or their total weight; ``domain`` is the code of each row.

    Examples
    --------
    >>> import numpy as np
    >>> domain_counts(np.array([0, 2, 0]), 3).tolist()
    [2.0, 0.0, 1.0]
    """
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
