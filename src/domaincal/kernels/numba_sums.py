"""Temperature sums compiled by numba: serial, without the GIL, in one pass over the logits.

Each thread calls a kernel on a block of rows, so that callers control the parallelism. Lanes (SIMD)
compute in the precision of the logits, and in float32 for float16, which is passed as ``uint16``
bits. Totals are float64. The terms of a row do not depend on its position in a block. A NaN or
infinite logit makes the sums of its row NaN, so that callers need no separate check.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from domaincal.kernels.numba_jit import jit
from domaincal.kernels.numba_lanes import (
    FAST,
    LN_2,
    TILE_ROWS,
    exp2,
    fill_tile,
    lane,
    log,
    top_of_row,
)

#: Consecutive rows of a sample in wide_sums. A sample of a file is read in as many parts as runs.
RUN_ROWS = 64


@jit(fastmath=FAST)
def _add_row(
    out: Any, domain: int, weight: float, nll: float, slope: float, variance: float, spread: float
) -> None:
    """Add the terms of a row to the sums of its domain."""
    out[domain, 0] += weight
    out[domain, 1] += weight * nll
    out[domain, 2] += weight * slope
    out[domain, 3] += weight * variance
    out[domain, 4] += weight * slope * slope
    out[domain, 5] += weight * spread


@jit(fastmath=FAST)
def wide_sums(  # type: ignore[no-untyped-def]
    z, y, beta, scaled, weight, domain, offset, every, out
):
    """Add the temperature sums of rows of many classes to ``out``, shape ``(n_domains, 6)``.

    Parameters
    ----------
    z : array of float32, float64 or uint16 (bits of float16), shape (n, n_classes)
    y : int64 array, shape (n,)
    beta : float64 array, shape (n,) or (1,)
        Inverse temperature of each row; a row with NaN is skipped.
    scaled : array of the dtype of the lanes, same shape
        ``beta / log(2)``.
    weight, domain : float64 and int64 arrays, shape (n,) or (0,)
        Empty arrays mean weight 1 and domain 0.
    offset : int
        Index of the first row in the whole data.
    every : int
        Only one in ``every`` runs of rows is summed; runs are counted over the whole data.
    """
    n, n_classes = z.shape
    zero = scaled.dtype.type(0)
    first_run = offset // RUN_ROWS
    for run in range(first_run + (-first_run) % every, (offset + n - 1) // RUN_ROWS + 1, every):
        begin = max(run * RUN_ROWS - offset, 0)
        end = min((run + 1) * RUN_ROWS - offset, n)
        for i in range(begin, end):
            k = i if beta.size > 1 else 0
            if np.isnan(beta[k]):
                continue
            b = scaled[k]
            row = z[i]
            top = top_of_row(row)
            norm = zero
            first = zero
            second = zero
            plain = zero
            plain_square = zero
            for j in range(n_classes):
                d = lane(row[j]) - top
                e = exp2(b * d)
                ed = e * d
                norm += e
                first += ed
                second += ed * d
                plain += d
                plain_square += d * d
            total = np.float64(norm)
            mean = first / total
            average = np.float64(plain) / n_classes
            average_square = np.float64(plain_square) / n_classes
            label = np.float64(lane(row[y[i]]) - top)
            _add_row(
                out, domain[i] if domain.size > 0 else 0, weight[i] if weight.size > 0 else 1.0,
                np.log(total) - beta[k] * label, mean - label, second / total - mean * mean,
                np.sqrt(max(average_square - average * average, 0.0)),
            )  # fmt: skip


@jit(fastmath=FAST)
def narrow_sums(  # type: ignore[no-untyped-def]
    z, y, beta, scaled, weight, domain, offset, every, out
):
    """:func:`wide_sums` for few classes: tiles of rows are transposed, so that lanes hold rows."""
    n, n_classes = z.shape
    dtype = scaled.dtype
    zero = dtype.type(0)
    classes = dtype.type(n_classes)
    ln_2 = dtype.type(LN_2)
    tile = np.zeros((n_classes, TILE_ROWS), dtype)
    top = np.zeros(TILE_ROWS, dtype)
    b = np.zeros(TILE_ROWS, dtype)
    label = np.zeros(TILE_ROWS, dtype)
    norm = np.zeros(TILE_ROWS, dtype)
    first = np.zeros(TILE_ROWS, dtype)
    second = np.zeros(TILE_ROWS, dtype)
    plain = np.zeros(TILE_ROWS, dtype)
    plain_square = np.zeros(TILE_ROWS, dtype)
    first_run = offset // TILE_ROWS
    for run in range(first_run + (-first_run) % every, (offset + n - 1) // TILE_ROWS + 1, every):
        begin = max(run * TILE_ROWS - offset, 0)
        rows = min((run + 1) * TILE_ROWS - offset, n) - begin
        fill_tile(z, scaled, begin, rows, tile, top, b)
        # Lanes beyond ``rows`` hold numbers of an earlier tile; they are not added to the sums.
        for r in range(TILE_ROWS):
            norm[r] = zero
            first[r] = zero
            second[r] = zero
            plain[r] = zero
            plain_square[r] = zero
        # Two classes at a time: the sums are loaded and stored half as often.
        for j in range(0, n_classes - 1, 2):
            for r in range(TILE_ROWS):
                d0 = tile[j, r] - top[r]
                d1 = tile[j + 1, r] - top[r]
                e0 = exp2(b[r] * d0)
                e1 = exp2(b[r] * d1)
                ed0 = e0 * d0
                ed1 = e1 * d1
                norm[r] += e0 + e1
                first[r] += ed0 + ed1
                second[r] += ed0 * d0 + ed1 * d1
                plain[r] += d0 + d1
                plain_square[r] += d0 * d0 + d1 * d1
        if n_classes % 2 == 1:
            for r in range(TILE_ROWS):
                d = tile[n_classes - 1, r] - top[r]
                e = exp2(b[r] * d)
                ed = e * d
                norm[r] += e
                first[r] += ed
                second[r] += ed * d
                plain[r] += d
                plain_square[r] += d * d
        for r in range(rows):
            label[r] = tile[y[begin + r], r] - top[r]
        for r in range(TILE_ROWS):
            mean = first[r] / norm[r]
            second[r] = second[r] / norm[r] - mean * mean
            first[r] = mean - label[r]
            average = plain[r] / classes
            plain[r] = np.sqrt(max(plain_square[r] / classes - average * average, zero))
            norm[r] = log(norm[r]) - ln_2 * b[r] * label[r]
        _add_tile(out, begin, rows, beta, weight, domain, norm, first, second, plain)


@jit(fastmath=FAST)
def _add_tile(  # type: ignore[no-untyped-def]
    out, begin, rows, beta, weight, domain, nll, slope, variance, spread
):
    """Add the terms of a tile; lanes sum them if all rows have the same weight and domain."""
    # A block of one row has one beta, which can be NaN: the row is skipped.
    alike = weight.size == 0 and domain.size == 0 and beta.size == 1 and not np.isnan(beta[0])
    if not alike:
        for r in range(rows):
            i = begin + r
            if not np.isnan(beta[i if beta.size > 1 else 0]):
                _add_row(
                    out, domain[i] if domain.size > 0 else 0, weight[i] if weight.size > 0 else 1.0,
                    np.float64(nll[r]), np.float64(slope[r]), np.float64(variance[r]),
                    np.float64(spread[r]),
                )  # fmt: skip
        return
    total_nll = 0.0
    total_slope = 0.0
    total_variance = 0.0
    total_square = 0.0
    total_spread = 0.0
    for r in range(rows):
        total_nll += np.float64(nll[r])
        total_slope += np.float64(slope[r])
        total_variance += np.float64(variance[r])
        total_square += np.float64(slope[r]) * np.float64(slope[r])
        total_spread += np.float64(spread[r])
    out[0, 0] += rows
    out[0, 1] += total_nll
    out[0, 2] += total_slope
    out[0, 3] += total_variance
    out[0, 4] += total_square
    out[0, 5] += total_spread
