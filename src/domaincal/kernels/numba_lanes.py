"""Numbers of compiled kernels in lanes (SIMD): float16, exp, log, maximum, and tiles of rows.

numba does not vectorise ``exp``, ``log`` or the maximum of floats, and it has no float16.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from domaincal.kernels.numba_jit import jit

#: LLVM vectorises sums only if it may reorder them; NaN and infinity are preserved.
FAST = {"reassoc", "contract", "nsz"}

LN_2 = 0.6931471805599453

#: From this many classes on, lanes hold classes of one row; below, rows of one class.
WIDE_FROM = 64
#: Rows of a tile, which is transposed so that lanes hold rows.
TILE_ROWS = 128


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


def exp2_or_0(x: Any) -> Any:
    """:func:`exp2`, but 0 below its smallest value; implemented by the overload below."""
    raise TypeError(f"this function is for compiled code only, got {x!r}")


@overload(exp2_or_0, jit_options={"fastmath": {"contract"}, "error_model": "numpy"})
def _exp2_or_0_overload(x: Any) -> Any:
    if x == types.float32:

        def single(x: Any) -> Any:
            return exp2(x) if x > _LOWEST32 else np.float32(0)

        return single

    def double(x: Any) -> Any:
        return exp2(x) if x > _LOWEST64 else 0.0

    return double


def log(x: Any) -> Any:
    """Natural logarithm of a positive normal number; implemented by the overload below."""
    raise TypeError(f"this function is for compiled code only, got {x!r}")


# log(m) = 2 s (1 + s**2 / 3 + s**4 / 5 + ...) with s = (m - 1) / (m + 1). m is between sqrt(1/2)
# and sqrt(2), so that |s| < 0.172: the terms left out are below the rounding of the dtype.
_L32 = tuple(np.float32(1.0 / (2 * k + 1)) for k in range(5))
_L64 = tuple(1.0 / (2 * k + 1) for k in range(11))
_LN_2_32 = np.float32(LN_2)
# Bits of sqrt(1/2).
_HALF32 = np.int32(0x3F3504F3)
_HALF64 = np.int64(0x3FE6A09E667F3BCD)


@overload(log, jit_options={"fastmath": {"contract"}, "error_model": "numpy"})
def _log_overload(x: Any) -> Any:
    if x == types.float32:

        def single(x: Any) -> Any:
            bits = np.float32(x).view(np.int32)
            exponent = np.int32((bits - _HALF32) >> np.int32(23))
            m = np.int32(bits - np.int32(exponent << np.int32(23))).view(np.float32)
            s = (m - np.float32(1)) / (m + np.float32(1))
            q = s * s
            p = _L32[3] + q * _L32[4]
            p = _L32[0] + q * (_L32[1] + q * (_L32[2] + q * p))
            # NaN and infinity have no mantissa: the last term makes the result NaN.
            rest = np.float32(2) * s * p + x * np.float32(0)
            return np.float32(np.float32(exponent) * _LN_2_32 + rest)

        return single

    def double(x: Any) -> Any:
        bits = np.float64(x).view(np.int64)
        exponent = np.int64((bits - _HALF64) >> np.int64(52))
        m = np.int64(bits - np.int64(exponent << np.int64(52))).view(np.float64)
        s = (m - 1.0) / (m + 1.0)
        q = s * s
        p = _L64[9] + q * _L64[10]
        p = _L64[7] + q * (_L64[8] + q * p)
        p = _L64[5] + q * (_L64[6] + q * p)
        p = _L64[3] + q * (_L64[4] + q * p)
        p = _L64[0] + q * (_L64[1] + q * (_L64[2] + q * p))
        return np.float64(exponent) * LN_2 + (2.0 * s * p + x * 0.0)

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


@jit()
def top_of_row(row):  # type: ignore[no-untyped-def]
    """Largest value of a row, from integer keys: LLVM does not vectorise the maximum of floats."""
    best = _key(lane(row[0]))
    for j in range(row.size):
        key = _key(lane(row[j]))
        best = key if key > best else best
    return _from_key(best)


@jit(fastmath=FAST)
def fill_tile(z, scaled, begin, rows, tile, top, b):  # type: ignore[no-untyped-def]
    """Transposed logits of some rows, their largest logits, and ``scaled``.

    Lanes beyond ``rows`` keep numbers of an earlier tile.
    """
    n_classes = z.shape[1]
    block = z[begin : begin + rows]
    for r in range(rows):
        b[r] = scaled[begin + r if scaled.size > 1 else 0]
    for j in range(n_classes):
        for r in range(rows):
            tile[j, r] = lane(block[r, j])
    for r in range(TILE_ROWS):
        top[r] = tile[0, r]
    for j in range(1, n_classes):
        for r in range(TILE_ROWS):
            top[r] = max(top[r], tile[j, r])
