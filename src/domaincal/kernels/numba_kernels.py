"""Row kernels compiled by numba: serial, without the GIL, in one pass over the logits.

Each thread calls a kernel on a block of rows, so that callers control the parallelism. Lanes (SIMD)
compute in the precision of the logits, and in float32 for float16, which is passed as ``uint16``
bits. Totals are float64. The terms of a row do not depend on its position in a block. A NaN or
infinite logit makes the sums of its row NaN, so that callers need no separate check.

numba does not vectorise ``exp`` or the maximum of floats, and it has no float16. The first half of
this file replaces them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from domaincal.kernels.numba_jit import jit

# LLVM vectorises sums only if it may reorder them; NaN and infinity are preserved.
_FAST = {"reassoc", "contract", "nsz"}

_LN_2 = 0.6931471805599453

#: From this many classes on, lanes hold classes of one row; below, rows of one class.
WIDE_FROM = 64
#: Rows of one tile of narrow_sums, and consecutive rows of a sample in wide_sums.
TILE_ROWS = 128
RUN_ROWS = 16


def lane(stored: Any) -> Any:
    """Logit in the precision of the lanes; implemented by the overload below."""
    raise TypeError(f"this function is for compiled code only, got {stored!r}")


@overload(lane)
def _lane_overload(stored: Any) -> Any:
    if stored != types.uint16:

        def unchanged(stored: Any) -> Any:
            return stored

        return unchanged

    two_to_112 = np.float32(2.0**112)
    nan = np.float32(np.nan)

    def from_half_bits(stored: Any) -> Any:
        bits = np.uint32(stored)
        # Exponent and mantissa move to their positions in float32. The product corrects the bias
        # of the exponent and is exact for subnormal numbers.
        magnitude = np.uint32((bits & np.uint32(0x7FFF)) << np.uint32(13)).view(np.float32)
        value = np.float32(magnitude * two_to_112)
        sign = (bits & np.uint32(0x8000)) << np.uint32(16)
        signed = np.uint32(value.view(np.uint32) | sign).view(np.float32)
        return nan if (bits & np.uint32(0x7C00)) == np.uint32(0x7C00) else signed

    return from_half_bits


def exp2(x: Any) -> Any:
    """2**x for x <= 0, at least the smallest normal number; implemented by the overload below."""
    raise TypeError(f"this function is for compiled code only, got {x!r}")


# Minimax polynomials of 2**f on [-1/2, 1/2], exact at 0, with relative errors 9.1e-8 and 3e-16.
# Unlike numba's exp, which calls libm for each number, they are vectorised.
_P32 = tuple(
    np.float32(c)
    for c in (
        1.0,
        0.6931469775140667,
        0.24022242070693714,
        0.05550733821470499,
        0.009671513325961209,
        0.0013264710185842312,
    )
)
_P64 = (
    1.0,
    0.6931471805599466,
    0.24022650695909525,
    0.05550410866473918,
    0.009618129107838057,
    0.0013333558163429748,
    0.00015403530138077373,
    1.5252718801904619e-05,
    1.321559751101549e-06,
    1.0184007435990766e-07,
    7.045725057872453e-09,
    3.589387824435287e-10,
)
_LOWEST32 = np.float32(-126.0)
_LOWEST64 = -1022.0


# Without "reassoc", which would remove the rounding below.
@overload(exp2, jit_options={"fastmath": {"contract"}, "error_model": "numpy"})
def _exp2_overload(x: Any) -> Any:
    if x == types.float32:

        def single(x: Any) -> Any:
            x = max(x, _LOWEST32)
            whole = np.rint(x)
            f = x - whole
            p = _P32[4] + f * _P32[5]
            p = _P32[2] + f * (_P32[3] + f * p)
            p = np.float32(_P32[0] + f * (_P32[1] + f * p))
            return np.int32(p.view(np.int32) + (np.int32(whole) << np.int32(23))).view(np.float32)

        return single

    def double(x: Any) -> Any:
        x = max(x, _LOWEST64)
        whole = np.rint(x)
        f = x - whole
        p = _P64[10] + f * _P64[11]
        p = _P64[8] + f * (_P64[9] + f * p)
        p = _P64[6] + f * (_P64[7] + f * p)
        p = _P64[4] + f * (_P64[5] + f * p)
        p = _P64[2] + f * (_P64[3] + f * p)
        p = np.float64(_P64[0] + f * (_P64[1] + f * p))
        shift = np.int64(np.int32(whole)) << np.int64(52)
        return np.int64(p.view(np.int64) + shift).view(np.float64)

    return double


def _key(x: Any) -> Any:
    """Integer that sorts like the float, NaN first or last; implemented by the overload below."""
    raise TypeError(f"this function is for compiled code only, got {x!r}")


def _from_key(key: Any) -> Any:
    """Float of a key; implemented by the overload below."""
    raise TypeError(f"this function is for compiled code only, got {key!r}")


@overload(_key)
def _key_overload(x: Any) -> Any:
    if x == types.float32:

        def single(x: Any) -> Any:
            bits = np.float32(x).view(np.int32)
            return np.int32(bits ^ ((bits >> np.int32(31)) & np.int32(0x7FFFFFFF)))

        return single

    def double(x: Any) -> Any:
        bits = np.float64(x).view(np.int64)
        return np.int64(bits ^ ((bits >> np.int64(63)) & np.int64(0x7FFFFFFFFFFFFFFF)))

    return double


@overload(_from_key)
def _from_key_overload(key: Any) -> Any:
    if key == types.int32:

        def single(key: Any) -> Any:
            return np.int32(key ^ ((key >> np.int32(31)) & np.int32(0x7FFFFFFF))).view(np.float32)

        return single

    def double(key: Any) -> Any:
        bits = np.int64(key ^ ((key >> np.int64(63)) & np.int64(0x7FFFFFFFFFFFFFFF)))
        return bits.view(np.float64)

    return double


@jit(fastmath=_FAST)
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


@jit()
def _top(row):  # type: ignore[no-untyped-def]
    """Largest value of a row, from integer keys: LLVM does not vectorise the maximum of floats."""
    best = _key(lane(row[0]))
    for j in range(row.size):
        key = _key(lane(row[j]))
        best = key if key > best else best
    return _from_key(best)


@jit(fastmath=_FAST)
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
                out, domain[i] if domain.size > 0 else 0, weight[i] if weight.size > 0 else 1.0,
                np.log(total) - beta[k] * label, mean - label, second / total - mean * mean,
                np.sqrt(max(average_square - average * average, 0.0)),
            )  # fmt: skip


@jit(fastmath=_FAST)
def narrow_sums(  # type: ignore[no-untyped-def]
    z, y, beta, scaled, weight, domain, offset, every, out
):
    """:func:`wide_sums` for few classes: tiles of rows are transposed, so that lanes hold rows."""
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
        # Lanes beyond ``rows`` hold numbers of an earlier tile; they are not added to the sums.
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
            norm[r] = np.log(norm[r]) - ln_2 * b[r] * label[r]
        _add_tile(out, begin, rows, beta, weight, domain, norm, first, second, plain)


@jit(fastmath=_FAST)
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


@jit(fastmath=_FAST)
def top_label(z, scaled, confidence, predicted):  # type: ignore[no-untyped-def]
    """Largest softmax probability of each row at ``beta = scaled * log(2)``; its first class."""
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
            check += d * zero  # NaN if a logit is not finite
        confidence[i] = 1.0 / np.float64(norm + check)
        predicted[i] = 0
        for j in range(n_classes):
            if lane(row[j]) == top:
                predicted[i] = j
                break
