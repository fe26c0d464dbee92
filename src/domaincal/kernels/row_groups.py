"""Row numbers of each group of rows, from one sort for all groups."""

from __future__ import annotations

import numpy as np

from domaincal._typing import FloatArray, IntArray


def rows_of_codes(codes: IntArray, n_codes: int) -> list[IntArray]:
    """Increasing numbers of the rows with each code from 0 to ``n_codes - 1``.

    A mask for each code would read all rows ``n_codes`` times.

    Examples
    --------
    >>> import numpy as np
    >>> [rows.tolist() for rows in rows_of_codes(np.array([1, 0, 1]), 3)]
    [[1], [0, 2], []]
    """
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes, minlength=n_codes)).tolist()
    return [order[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]


def group_means(values: FloatArray, codes: IntArray) -> FloatArray:
    """Mean of the values of each code; every code from 0 to the largest must occur.

    Examples
    --------
    >>> import numpy as np
    >>> group_means(np.array([1.0, 2.0, 3.0]), np.array([1, 0, 1])).tolist()
    [2.0, 2.0]
    """
    counts = np.bincount(codes)
    starts = np.cumsum(counts) - counts
    return np.asarray(np.add.reduceat(values[np.argsort(codes, kind="stable")], starts) / counts)
