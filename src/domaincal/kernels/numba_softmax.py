"""Softmax of rows compiled by numba: serial, without the GIL, in one pass over the logits.

Lanes compute in the precision of the logits, and in float32 for float16, which is passed as
``uint16`` bits. ``scaled`` is ``beta / log(2)`` in the dtype of the lanes, shape (n,) or (1,). The
numbers of a row do not depend on its position in a block; those of a row with a NaN or infinite
logit are NaN.
"""

from __future__ import annotations

import numpy as np

from domaincal.kernels.numba_jit import jit
from domaincal.kernels.numba_lanes import (
    FAST,
    TILE_ROWS,
    exp2,
    exp2_or_0,
    fill_tile,
    lane,
    top_of_row,
)


@jit(fastmath=FAST)
def wide_top_label(z, scaled, confidence, predicted):  # type: ignore[no-untyped-def]
    """Write the largest softmax probability of each row, and its first class."""
    n, n_classes = z.shape
    zero = scaled.dtype.type(0)
    for i in range(n):
        row = z[i]
        top = top_of_row(row)
        b = scaled[i if scaled.size > 1 else 0]
        norm = zero
        check = zero
        for j in range(n_classes):
            d = lane(row[j]) - top
            norm += exp2(b * d)
            check += d * zero  # NaN if a logit is not finite
        confidence[i] = 1.0 / np.float64(norm + check)
        predicted[i] = 0
        for j in range(n_classes):
            if lane(row[j]) == top:
                predicted[i] = j
                break


@jit(fastmath=FAST)
def narrow_top_label(z, scaled, confidence, predicted):  # type: ignore[no-untyped-def]
    """:func:`wide_top_label` for few classes: tiles are transposed, so that lanes hold rows."""
    n, n_classes = z.shape
    dtype = scaled.dtype
    zero = dtype.type(0)
    tile = np.zeros((n_classes, TILE_ROWS), dtype)
    top = np.zeros(TILE_ROWS, dtype)
    b = np.zeros(TILE_ROWS, dtype)
    norm = np.zeros(TILE_ROWS, dtype)
    first = np.zeros(TILE_ROWS, dtype)
    classes = dtype.type(n_classes)
    for begin in range(0, n, TILE_ROWS):
        rows = min(TILE_ROWS, n - begin)
        fill_tile(z, scaled, begin, rows, tile, top, b)
        for r in range(TILE_ROWS):
            norm[r] = zero
            first[r] = classes
        for j in range(n_classes):
            for r in range(TILE_ROWS):
                d = tile[j, r] - top[r]
                norm[r] += exp2(b[r] * d) + d * zero  # NaN if a logit is not finite
        # In floats, whose comparison and minimum are vectorised.
        for j in range(n_classes):
            number = dtype.type(j)
            for r in range(TILE_ROWS):
                at = number if tile[j, r] == top[r] else classes
                first[r] = min(first[r], at)
        for r in range(rows):
            confidence[begin + r] = 1.0 / np.float64(norm[r])
            predicted[begin + r] = np.int64(first[r]) if first[r] < classes else 0


@jit(fastmath=FAST)
def wide_softmax(z, scaled, out):  # type: ignore[no-untyped-def]
    """Write the softmax of each row; return whether all logits are finite."""
    n, n_classes = z.shape
    zero = scaled.dtype.type(0)
    one = scaled.dtype.type(1)
    checked = zero
    for i in range(n):
        row = z[i]
        written = out[i]
        top = top_of_row(row)
        b = scaled[i if scaled.size > 1 else 0]
        norm = zero
        check = zero
        for j in range(n_classes):
            d = lane(row[j]) - top
            e = exp2_or_0(b * d)
            norm += e
            check += d * zero  # NaN if a logit is not finite
            written[j] = e
        factor = one / (norm + check)
        checked += factor
        for j in range(n_classes):
            written[j] *= factor
    return np.isfinite(checked)


@jit(fastmath=FAST)
def narrow_softmax(z, scaled, out):  # type: ignore[no-untyped-def]
    """:func:`wide_softmax` for few classes: tiles are transposed, so that lanes hold rows."""
    n, n_classes = z.shape
    dtype = scaled.dtype
    zero = dtype.type(0)
    one = dtype.type(1)
    tile = np.zeros((n_classes, TILE_ROWS), dtype)
    top = np.zeros(TILE_ROWS, dtype)
    b = np.zeros(TILE_ROWS, dtype)
    norm = np.zeros(TILE_ROWS, dtype)
    checked = zero
    for begin in range(0, n, TILE_ROWS):
        rows = min(TILE_ROWS, n - begin)
        fill_tile(z, scaled, begin, rows, tile, top, b)
        for r in range(TILE_ROWS):
            norm[r] = zero
        for j in range(n_classes):
            for r in range(TILE_ROWS):
                d = tile[j, r] - top[r]
                e = exp2_or_0(b[r] * d)
                norm[r] += e + d * zero  # NaN if a logit is not finite
                tile[j, r] = e
        for r in range(rows):
            norm[r] = one / norm[r]
            checked += norm[r]
        for r in range(rows):
            for j in range(n_classes):
                out[begin + r, j] = tile[j, r] * norm[r]
    return np.isfinite(checked)
