"""Arithmetic of one lane, written so that LLVM can run it on whole vectors.

numba calls libm one number at a time for ``exp`` and ``log``, takes maxima of floats one by one and
has no float16; these do without. They exist in compiled code only: numba inlines them into the
kernels of ``compiled.py``. Its cache does not notice that this file changed: touch that one too.
"""

from typing import Any

import numpy as np
from numba import types
from numba.extending import overload


def lane(stored: Any) -> Any:
    """Value of a stored logit in the precision of its lanes; see the overload below."""
    raise TypeError(f"only for compiled code, got {stored!r}")


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
        # Exponent and mantissa move to float32's places; the product corrects the exponent's
        # bias and makes subnormal halves exact.
        magnitude = np.uint32((bits & np.uint32(0x7FFF)) << np.uint32(13)).view(np.float32)
        value = np.float32(magnitude * two_to_112)
        sign = (bits & np.uint32(0x8000)) << np.uint32(16)
        signed = np.uint32(value.view(np.uint32) | sign).view(np.float32)
        return nan if (bits & np.uint32(0x7C00)) == np.uint32(0x7C00) else signed

    return from_half_bits


def exp2(x: Any) -> Any:
    """2**x for x <= 0, at least the smallest normal number; see the overload below."""
    raise TypeError(f"only for compiled code, got {x!r}")


# Minimax polynomials of 2**f on [-1/2, 1/2] for the relative error, exact at 0: 9.1e-8 and 3e-16.
# numba calls a scalar exp, which cannot be vectorised; these can.
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


# Without "reassoc": the rounding below must not be simplified away.
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


def log(x: Any) -> Any:
    """Log x for x >= 1; see the overload below."""
    raise TypeError(f"only for compiled code, got {x!r}")


# Minimax polynomial of log(1 + f) / f on [sqrt(1/2) - 1, sqrt(2) - 1]: relative error 2.6e-8.
_LOG32 = tuple(
    np.float32(c)
    for c in (
        0.9999999741896042,
        -0.49999987963992093,
        0.3333418562558042,
        -0.25002074084911313,
        0.19956833577256755,
        -0.16562392743606177,
        0.14952266076517007,
        -0.1436684509723436,
        0.08722359723732097,
    )
)


@overload(log, jit_options={"fastmath": {"contract"}, "error_model": "numpy"})
def _log_overload(x: Any) -> Any:
    if x != types.float32:

        def double(x: Any) -> Any:
            return np.log(x)

        return double

    ln_2 = np.float32(np.log(2.0))
    one = np.float32(1.0)

    def single(x: Any) -> Any:
        # x = 2**whole * (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)); 0x3F3504F3 is sqrt(1/2).
        bits = np.float32(x).view(np.int32) - np.int32(0x3F3504F3)
        whole = bits >> np.int32(23)
        f = np.int32((bits & np.int32(0x7FFFFF)) + np.int32(0x3F3504F3)).view(np.float32) - one
        p = _LOG32[7] + f * _LOG32[8]
        p = _LOG32[5] + f * (_LOG32[6] + f * p)
        p = _LOG32[3] + f * (_LOG32[4] + f * p)
        p = _LOG32[1] + f * (_LOG32[2] + f * p)
        return np.float32(whole) * ln_2 + f * (_LOG32[0] + f * p)

    return single


def key_of(x: Any) -> Any:
    """Integer in the order of the floats, NaN at the ends; see the overload below."""
    raise TypeError(f"only for compiled code, got {x!r}")


def from_key(key: Any) -> Any:
    """Float of a key; see the overload below."""
    raise TypeError(f"only for compiled code, got {key!r}")


@overload(key_of)
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


@overload(from_key)
def _from_key_overload(key: Any) -> Any:
    if key == types.int32:

        def single(key: Any) -> Any:
            return np.int32(key ^ ((key >> np.int32(31)) & np.int32(0x7FFFFFFF))).view(np.float32)

        return single

    def double(key: Any) -> Any:
        bits = np.int64(key ^ ((key >> np.int64(63)) & np.int64(0x7FFFFFFFFFFFFFFF)))
        return bits.view(np.float64)

    return double
