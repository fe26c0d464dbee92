"""Recognise probabilities that are passed as logits."""

from __future__ import annotations

import numpy as np

from domaincal._row_arrays import parts_of, row_range
from domaincal._tensors import host_array
from domaincal._typing import Array
from domaincal._warnings import warn_caller
from domaincal.errors import ProbabilitiesWarning

# With fewer rows, logits that happen to sum to 1 are not unlikely enough.
_MINIMUM_ROWS = 3
# Rounded probabilities sum to 1 within these: those of bfloat16 within 2**-9, those with two
# decimals within 0.005 for each class. Logits of many classes could come close to a wider limit.
_TOLERANCE, _TOLERANCE_PER_CLASS, _LARGEST_TOLERANCE = 3e-3, 5.1e-3, 5e-2
# The first rows tell nearly all logits; the others are read in blocks.
_FIRST_ROWS = 16
_BLOCK = 1 << 14


def look_like_probabilities(logits: Array) -> bool:
    """Whether there are at least 3 rows, all of them non-negative with sum 1.

    Examples
    --------
    >>> import numpy as np
    >>> p = np.array([[0.2, 0.8], [0.5, 0.5], [0.9, 0.1]])
    >>> look_like_probabilities(p), look_like_probabilities(np.log(p))
    (True, False)
    """
    n_rows, n_classes = logits.shape
    if n_rows < _MINIMUM_ROWS:
        return False
    tolerance = min(max(_TOLERANCE, _TOLERANCE_PER_CLASS * n_classes), _LARGEST_TOLERANCE)
    if not _sum_to_one(logits[:_FIRST_ROWS], tolerance):
        return False
    parts = parts_of(logits)
    if parts is not None:
        return all(parts.map(_all_sum_to_one, logits, tolerance))
    return _all_sum_to_one(logits, tolerance)


def _all_sum_to_one(logits: Array, tolerance: float) -> bool:
    """Whether the rows that this process reads sum to one, without the first rows of all."""
    rows = row_range(logits)
    others = range(max(rows.start, _FIRST_ROWS), rows.stop, _BLOCK)
    return all(
        _sum_to_one(logits[start : min(start + _BLOCK, rows.stop)], tolerance) for start in others
    )


def _sum_to_one(logits: Array, tolerance: float) -> bool:
    z = host_array(logits)
    # Comparisons with NaN are false, so that rows with NaN do not count.
    if not 0 <= z.min() <= z.max() <= 1.0 + tolerance:
        return False
    return bool(np.abs(z.sum(axis=1, dtype=np.float64) - 1.0).max() < tolerance)


def warn_of_probabilities(logits: Array) -> None:
    """Warn if the logits look like probabilities."""
    if look_like_probabilities(logits):
        warn_caller(
            "logits are >= 0 and sum to 1 in each row, as probabilities do: if they are "
            "probabilities p, pass domaincal.logits_from_probabilities(p) instead.",
            ProbabilitiesWarning,
        )
