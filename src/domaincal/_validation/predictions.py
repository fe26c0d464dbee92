"""Checks of predictions: probabilities, confidences and hits."""

from __future__ import annotations

import numpy as np

from domaincal._typing import Array, ArrayLike, FloatArray
from domaincal._validation.arrays import (
    check_n_rows,
    check_not_empty,
    check_real_array,
    non_finite_error,
)
from domaincal.errors import InputError


def check_probabilities(
    probabilities: ArrayLike,
    *,
    tolerance: float = 1e-3,
    if_logits: str = "convert logits with scipy.special.softmax(logits, axis=1)",
    first_row: int = 0,
) -> Array:
    """Check rows of non-negative numbers that sum to 1.

    The default tolerance allows for the rounding of float16. ``if_logits`` is the cure if they are
    logits, and ``first_row`` the number of the first row in errors.
    """
    p = check_real_array(probabilities, "probabilities")
    if p.ndim != 2 or p.shape[1] < 2:
        raise InputError(
            f"probabilities must have shape (rows, at least 2 classes), got {p.shape}; for the "
            "probability of class 1 use numpy.column_stack([1 - p, p])."
        )
    check_not_empty(p, "probabilities")
    error = non_finite_error(p, "probabilities", "drop those rows", first_row=first_row)
    if error is not None:
        raise error
    off = np.abs(p.sum(axis=1, dtype=np.float64) - 1.0)
    if p.min() < 0 or off.max() > tolerance:
        row = int(np.argmax(off)) if p.min() >= 0 else int(np.argmin(p.min(axis=1)))
        raise InputError(
            f"probabilities must be >= 0 and sum to 1 in each row, but row {first_row + row} is "
            f"{p[row][:5]}"
            f"{'...' if p.shape[1] > 5 else ''} with sum {float(p[row].sum()):.6g}; divide "
            f"percentages by 100 and rounded rows by their sum; {if_logits}."
        )
    return p


def check_confidences(confidences: ArrayLike) -> FloatArray:
    """Check a 1-D array of numbers in [0, 1]; returns float64."""
    c = check_real_array(confidences, "confidences")
    if c.ndim != 1:
        raise InputError(
            f"confidences must be 1-D, with one confidence for each row, got shape {c.shape}; pass "
            "probabilities.max(axis=1)."
        )
    check_not_empty(c, "confidences")
    c = c.astype(np.float64, copy=False)
    # A confidence that is a sum in single precision may exceed 1 by rounding.
    c = np.where((c > 1.0) & (c < 1.0 + 1e-6), 1.0, c) if c.max() > 1.0 else c
    inside = (c >= 0.0) & (c <= 1.0)
    if not inside.all():
        raise InputError(
            f"confidences contains {c[~inside][0]} (row {int(np.argmin(inside))}); they must lie "
            "in [0, 1]."
        )
    return np.ascontiguousarray(c)


def check_hits(hits: ArrayLike, *, n_rows: int) -> Array:
    """Check a 1-D array of 0 and 1, 1 for a correct prediction; returns bool."""
    try:
        h = check_real_array(hits, "hits", allow_bool=True)
    except InputError as error:
        raise InputError(
            "hits must be True or False (1 or 0) in each row; pass predicted == labels."
        ) from error
    if h.ndim != 1:
        raise InputError(f"hits must be 1-D, got shape {h.shape}; pass predicted == labels.")
    check_n_rows(h, "hits", n_rows)
    if h.dtype.kind != "b":
        binary = (h == 0) | (h == 1)
        if not binary.all():
            raise InputError(
                f"hits contains {h[~binary][0]}; hits must be True or False (1 or 0) in each row: "
                "pass predicted == labels."
            )
    return h.astype(bool, copy=False)
