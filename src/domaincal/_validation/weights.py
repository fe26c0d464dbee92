"""Checks of the weights of rows."""

from __future__ import annotations

import numpy as np

from domaincal._typing import Array, ArrayLike, FloatArray, IntArray
from domaincal._validation.arrays import check_n_rows, check_real_array
from domaincal._wording import list_domains
from domaincal.errors import InputError

#: Largest sum of weights and smallest positive weight: products of weights, logits and features
#: stay within the range of float64.
LARGEST_WEIGHT = 1e100
SMALLEST_WEIGHT = 1e-120


def check_sample_weight(sample_weight: ArrayLike | None, *, n_rows: int) -> FloatArray | None:
    """Check finite, non-negative weights with a positive sum; None is allowed.

    A weight counts as that many rows: weights are not normalised.
    """
    if sample_weight is None:
        return None
    w = check_real_array(sample_weight, "sample_weight").astype(np.float64)
    if w.ndim != 1:
        raise InputError(f"sample_weight must be 1-D, got shape {w.shape}; pass one weight a row.")
    check_n_rows(w, "sample_weight", n_rows)
    if not np.isfinite(w).all() or w.min() < 0:
        wrong = w[~(np.isfinite(w) & (w >= 0))][0]
        raise InputError(f"sample_weight contains {wrong}; weights must be finite and >= 0.")
    with np.errstate(over="ignore"):
        total = w.sum()
    if total == 0:
        raise InputError("sample_weight sums to zero; at least one row needs a positive weight.")
    if total > LARGEST_WEIGHT:
        raise InputError(
            f"sample_weight sums to {total:.3g}, more than {LARGEST_WEIGHT:g}; divide the weights "
            "by a constant."
        )
    smallest = w[w > 0].min()
    if smallest < SMALLEST_WEIGHT:
        raise InputError(
            f"sample_weight contains {smallest:.3g}, less than {SMALLEST_WEIGHT:g}; multiply the "
            "weights by a constant, or set negligible ones to 0."
        )
    return w


def check_domain_weights(weight: FloatArray | None, codes: IntArray, names: Array) -> None:
    """Raise InputError if all rows of a domain have weight 0: nothing is known about it."""
    if weight is None:
        return
    empty = names[np.bincount(codes, weight, minlength=len(names)) == 0]
    if len(empty):
        raise InputError(
            f"sample_weight sums to zero in {list_domains(empty.tolist())}; drop those rows."
        )
