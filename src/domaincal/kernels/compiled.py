"""Row kernels compiled by numba: serial, free of the GIL, one pass over the logits.

Callers give each thread a block of rows, so parallelism belongs to whoever owns the blocks and a
kernel may be called from any number of threads. Arithmetic runs in lanes of the stored precision
(float32 lanes for float16, whose bits arrive as ``uint16``), totals in float64, and what a row
contributes does not depend on its place in a block. A NaN or infinite logit makes the sums of its
row NaN: that is how callers learn of it without a pass of its own.
"""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from domaincal.kernels.lanes import exp2, from_key, key_of, lane, log

# What LLVM needs to sum in lanes; NaN and infinity keep their meaning.
_FAST = {"reassoc", "contract", "nsz"}

_LN_2 = 0.6931471805599453

#: From this many classes on, lanes run across the classes of a row; below, across rows.
WIDE_FROM = 64
#: Rows of one tile, and the run of consecutive rows that a sample takes at a time.
TILE_ROWS = 128
RUN_ROWS = 16


def _jit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """``numba.njit`` with a disk cache where there is a folder to write it to."""

    def decorate(function: Callable[..., Any]) -> Any:
        try:
            return numba.njit(nogil=True, error_model="numpy", cache=True, **options)(function)
        except RuntimeError:  # neither the package folder nor the user's cache is writable
            return numba.njit(nogil=True, error_model="numpy", **options)(function)

    return decorate


@_jit(fastmath=_FAST)
def _add_row(
    out: Any, group: int, weight: float, nll: float, slope: float, variance: float, spread: float
) -> None:
    """Add one row's terms to its group."""
    out[group, 0] += weight
    out[group, 1] += weight * nll
    out[group, 2] += weight * slope
    out[group, 3] += weight * variance
    out[group, 4] += weight * slope * slope
    out[group, 5] += weight * spread


@_jit()
def _top(row):  # type: ignore[no-untyped-def]
    """Largest value of a row. LLVM takes maxima in lanes for integers only: ten times as fast."""
    best = key_of(lane(row[0]))
    for j in range(row.size):
        key = key_of(lane(row[j]))
        best = key if key > best else best
    return from_key(best)


@_jit(fastmath=_FAST)
def wide_sums(  # type: ignore[no-untyped-def]
    z, y, beta, scaled, weight, group, offset, every, out
):
    """Add the temperature sums of many-class rows to ``out``, shape ``(n_groups, 6)``.

    Parameters
    ----------
    z : array of float32, float64 or uint16 (float16's bits), shape (n, n_classes)
    y : int64 array, shape (n,)
    beta : float64 array, shape (n,) or (1,)
        Inverse temperature of each row; a row with NaN is skipped.
    scaled : array of the lanes' precision, same shape
        ``beta / log(2)``.
    weight, group : float64 and int64 arrays, shape (n,) or (0,)
        Empty: weight 1, group 0.
    offset : int
        Number of the first row in the whole data.
    every : int
        Take one in ``every`` runs of rows, counted in the whole data.
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
            top = _top(row)
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
                out, group[i] if group.size > 0 else 0, weight[i] if weight.size > 0 else 1.0,
                np.log(total) - beta[k] * label, mean - label, second / total - mean * mean,
                np.sqrt(max(average_square - average * average, 0.0)),
            )  # fmt: skip


@_jit(fastmath=_FAST)
def narrow_sums(  # type: ignore[no-untyped-def]
    z, y, beta, scaled, weight, group, offset, every, out
):
    """As :func:`wide_sums` for few classes: a tile of rows is transposed, lanes run across it."""
    n, n_classes = z.shape
    dtype = scaled.dtype
    zero = dtype.type(0)
    classes = dtype.type(n_classes)
    ln_2 = dtype.type(_LN_2)
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
        block = z[begin : begin + rows]
        for r in range(rows):
            b[r] = scaled[begin + r if beta.size > 1 else 0]
        for j in range(n_classes):
            for r in range(rows):
                tile[j, r] = lane(block[r, j])
        # Lanes beyond ``rows`` hold an earlier tile's numbers: computed, never added.
        for r in range(TILE_ROWS):
            top[r] = tile[0, r]
            norm[r] = zero
            first[r] = zero
            second[r] = zero
            plain[r] = zero
            plain_square[r] = zero
        for j in range(1, n_classes):
            for r in range(TILE_ROWS):
                top[r] = max(top[r], tile[j, r])
        for j in range(n_classes):
            for r in range(TILE_ROWS):
                d = tile[j, r] - top[r]
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
        _add_tile(out, begin, rows, beta, weight, group, norm, first, second, plain)


@_jit(fastmath=_FAST)
def _add_tile(  # type: ignore[no-untyped-def]
    out, begin, rows, beta, weight, group, nll, slope, variance, spread
):
    """Add the terms of a tile of rows: in lanes where all rows count the same."""
    alike = weight.size == 0 and beta.size == 1
    if alike and group.size > 0:
        other = 0
        for r in range(rows):
            other += group[begin + r] != group[begin]
        alike = other == 0
    if not alike:
        for r in range(rows):
            i = begin + r
            if not np.isnan(beta[i if beta.size > 1 else 0]):
                _add_row(
                    out, group[i] if group.size > 0 else 0, weight[i] if weight.size > 0 else 1.0,
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
    k = group[begin] if group.size > 0 else 0
    out[k, 0] += rows
    out[k, 1] += total_nll
    out[k, 2] += total_slope
    out[k, 3] += total_variance
    out[k, 4] += total_square
    out[k, 5] += total_spread


@_jit(fastmath=_FAST)
def top_label(z, scaled, confidence, predicted):  # type: ignore[no-untyped-def]
    """Write the softmax's maximum at ``scaled * log(2)`` and its first class for each row."""
    n, n_classes = z.shape
    zero = scaled.dtype.type(0)
    for i in range(n):
        row = z[i]
        top = _top(row)
        b = scaled[i if scaled.size > 1 else 0]
        norm = zero
        check = zero
        for j in range(n_classes):
            d = lane(row[j]) - top
            norm += exp2(b * d)
            check += d * zero  # NaN where a logit is not finite
        confidence[i] = 1.0 / np.float64(norm + check)
        predicted[i] = 0
        for j in range(n_classes):
            if lane(row[j]) == top:
                predicted[i] = j
                break


@_jit()
def add_to_bins(confidence, hit, weight, edges, out):  # type: ignore[no-untyped-def]
    """Add weight, confidence and hits of each row's bin ``(a, b]`` to ``out``, shape (bins, 3)."""
    n_bins = edges.size - 1
    low = edges[0]
    per_width = n_bins / (edges[n_bins] - low)
    for i in range(confidence.size):
        c = confidence[i]
        # A guess from the width, put right by the edges themselves.
        m = min(max(int((c - low) * per_width), 0), n_bins - 1)
        while m > 0 and c <= edges[m]:
            m -= 1
        while m < n_bins - 1 and c > edges[m + 1]:
            m += 1
        w = weight[i] if weight.size > 0 else 1.0
        out[m, 0] += w
        out[m, 1] += w * c
        out[m, 2] += w * hit[i]
