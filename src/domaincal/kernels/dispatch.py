"""Choice between the numba kernels, for large inputs, and the numpy kernels, for small ones.

The choice is made once per fit from the total size (:func:`use_compiled`), so that results do not
depend on how the data are cut into blocks. numba is imported only when its kernels are used. All
arrays are passed to it as read-only: numba would compile a second version for writable arrays.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np

from domaincal._tensors import on_device, read_only
from domaincal._typing import Array, FloatArray, IntArray
from domaincal.kernels import numpy_kernels, torch_kernels
from domaincal.kernels.bins import bin_index

#: Below this many numbers, loading compiled code costs more than it saves.
COMPILED_FROM = 1 << 18
_LOG2_E = 1.4426950408889634
# Numbers of 16 bits that are widened at a time.
_WIDENED = 1 << 20


def use_compiled(n_elements: int) -> bool:
    """Whether the compiled kernels are faster for an input of this many numbers.

    They are not used if the compiler is switched off (``NUMBA_DISABLE_JIT=1``).
    """
    if n_elements < COMPILED_FROM:
        return False
    import numba

    return not getattr(numba.config, "DISABLE_JIT", False)


def _compiled_sums() -> ModuleType:
    from domaincal.kernels import numba_sums

    return numba_sums


def _compiled_softmax() -> ModuleType:
    from domaincal.kernels import numba_softmax

    return numba_softmax


def _is_wide(n_classes: int) -> bool:
    """Whether compiled kernels hold the classes of one row in lanes, not one class of rows."""
    from domaincal.kernels.numba_lanes import WIDE_FROM

    return n_classes >= WIDE_FROM


def _compiled_bins() -> ModuleType:
    from domaincal.kernels import numba_bins

    return numba_bins


def _compiled_linear() -> ModuleType:
    from domaincal.kernels import numba_linear

    return numba_linear


def _stored(logits: Array) -> tuple[Array, type[np.floating]]:
    """Logits as the compiled kernels take them (float16 as bits), and the dtype of their lanes."""
    if logits.dtype.kind == "f" and logits.dtype.itemsize == 2:
        return np.ascontiguousarray(logits, np.float16).view(np.uint16), np.float32
    if logits.dtype.kind == "f" and logits.dtype.itemsize == 4:
        return np.ascontiguousarray(logits, np.float32), np.float32
    return np.ascontiguousarray(logits, np.float64), np.float64


def reads_in_place(logits: Array) -> bool:
    """Whether the compiled kernels read these logits without a copy."""
    native = logits.dtype in (np.float16, np.float32, np.float64) and logits.dtype.isnative
    return bool(native and logits.flags.c_contiguous)


def lane_precision(dtype: np.dtype) -> float:
    """Machine epsilon of the arithmetic that the compiled kernels use for ``dtype``."""
    single = dtype.kind == "f" and dtype.itemsize <= 4
    return float(np.finfo(np.float32 if single else np.float64).eps)


def temperature_sums(
    logits: Array,
    labels: Array,
    beta: FloatArray,
    *,
    weight: Array | None = None,
    domain: Array | None = None,
    n_domains: int = 1,
    offset: int = 0,
    every: int = 1,
    compiled: bool = False,
) -> FloatArray:
    """Sums of :func:`numpy_kernels.temperature_sums`; ``beta`` is of shape (n,) or (1,).

    With ``every > 1``, only one in ``every`` runs of consecutive rows is summed. Runs are counted
    over the whole data; ``offset`` is the index of the first row in it. The numpy kernels sum all
    rows.
    """
    y = np.ascontiguousarray(labels, np.int64)
    w = np.empty(0) if weight is None else np.ascontiguousarray(weight, np.float64)
    g = np.empty(0, np.int64) if domain is None else np.ascontiguousarray(domain, np.int64)
    if not compiled:
        return numpy_kernels.temperature_sums(logits, y, beta, w, g, n_domains)
    z, lane = _stored(logits)
    kernels = _compiled_sums()
    kernel = kernels.wide_sums if _is_wide(z.shape[1]) else kernels.narrow_sums
    out = np.zeros((n_domains, 6))
    z, y, w, g = map(read_only, (z, y, w, g))
    kernel(z, y, beta, (beta * _LOG2_E).astype(lane), w, g, offset, every, out)
    return out


def sampled_rows(start: int, stop: int, *, n_classes: int, every: int) -> IntArray:
    """Numbers of the rows from ``start`` to ``stop`` that :func:`temperature_sums` would sum.

    For rows that are not in memory: only these need to be read.
    """
    kernels = _compiled_sums()
    run = kernels.RUN_ROWS if _is_wide(n_classes) else kernels.TILE_ROWS
    rows = np.arange(start, stop)
    return np.asarray(rows[(rows // run) % every == 0])


def top_label(
    logits: Array, beta: FloatArray, *, compiled: bool = False
) -> tuple[FloatArray, IntArray]:
    """Largest softmax probability at ``beta``, of shape (n,) or (1,), and its first class."""
    if not compiled:
        return numpy_kernels.top_label(logits, beta)
    z, lane = _stored(logits)
    kernels = _compiled_softmax()
    kernel = kernels.wide_top_label if _is_wide(z.shape[1]) else kernels.narrow_top_label
    confidence = np.empty(len(z))
    predicted = np.empty(len(z), np.int64)
    kernel(read_only(z), (beta * _LOG2_E).astype(lane), confidence, predicted)
    return confidence, predicted


def softmax(logits: Array, beta: FloatArray, out: Array, *, compiled: bool = False) -> bool:
    """Write ``softmax(beta * logits)`` of each row to ``out``; return whether all is finite.

    ``beta`` has shape (n,) or (1,). The compiled kernels need an ``out`` of their lanes: float32
    for logits of up to 32 bits, otherwise float64.
    """
    if not compiled:
        numpy_kernels.softmax(logits, beta, out)
        # A logit of -inf gives a finite probability of 0, but is an error like all others.
        return bool(np.isfinite(out).all() and np.isfinite(logits.min()))
    z, lane = _stored(logits)
    kernels = _compiled_softmax()
    kernel = kernels.wide_softmax if _is_wide(z.shape[1]) else kernels.narrow_softmax
    return bool(kernel(read_only(z), (beta * _LOG2_E).astype(lane), out))


def predicted_classes(logits: Array) -> IntArray:
    """First class with the largest logit, as a numpy array."""
    if on_device(logits):
        return torch_kernels.first_class(logits.tensor)
    if logits.dtype != np.float16:
        return np.asarray(np.argmax(logits, axis=1))
    # numpy compares numbers of 16 bits four times as slowly as it widens and compares them.
    predicted = np.empty(len(logits), np.int64)
    size = max(1, _WIDENED // max(1, logits.shape[1]))
    for start in range(0, len(logits), size):
        rows = slice(start, start + size)
        predicted[rows] = logits[rows].astype(np.float32).argmax(axis=1)
    return predicted


def bin_sums(
    confidence: FloatArray,
    hit: Array,
    edges: FloatArray,
    *,
    weight: Array | None = None,
    compiled: bool = False,
) -> FloatArray:
    """Sums of weight, confidence and hits in each bin, shape (n_bins, 3)."""
    sums = domain_bin_sums(
        confidence, hit, np.empty(0, np.int64), 1, edges, weight=weight, compiled=compiled
    )
    return np.asarray(sums[0])


def domain_bin_sums(
    confidence: FloatArray,
    hit: Array,
    domain: IntArray,
    n_domains: int,
    edges: FloatArray,
    *,
    weight: Array | None = None,
    compiled: bool = False,
) -> FloatArray:
    """Sums of weight, confidence and hits in each bin of each domain.

    Returns an array of shape (n_domains, n_bins, 3). An empty ``domain`` means one domain.
    """
    shape = (n_domains, len(edges) - 1, 3)
    g = np.ascontiguousarray(domain, np.int64)
    if compiled:
        out = np.zeros(shape)
        w = np.empty(0) if weight is None else np.ascontiguousarray(weight, np.float64)
        h = np.ascontiguousarray(hit)
        _compiled_bins().add_to_bins(*map(read_only, (confidence, h, w, g, edges)), out)
        return out
    index = bin_index(confidence, edges)
    if len(g):
        index = index + g * shape[1]
    w = np.ones(len(confidence)) if weight is None else np.asarray(weight, np.float64)
    columns = (w, w * confidence, w * hit)
    sums = [np.bincount(index, c, minlength=shape[0] * shape[1]) for c in columns]
    return np.stack(sums, axis=1).astype(np.float64, copy=False).reshape(shape)


def shift_rows(
    x: Array,
    near: FloatArray,
    domain: IntArray,
    weight: FloatArray | None,
    *,
    out: Array,
    moments: FloatArray,
) -> None:
    """Shift rows of features and add their moments, as :func:`numba_linear.shift_rows`."""
    w = np.empty(0) if weight is None else np.ascontiguousarray(weight, np.float64)
    g = np.ascontiguousarray(domain, np.int64)
    x, near, g, w = map(read_only, (_stored(x)[0], near, g, w))
    _compiled_linear().shift_rows(x, near, g, w, out, moments)


def residual_sum(
    x: Array,
    target: FloatArray,
    weight: FloatArray | None,
    *,
    coef: FloatArray,
    intercept: float,
    centre: FloatArray,
) -> FloatArray:
    """Sum of :func:`numba_linear.add_residuals` over the rows, shape (n_features,)."""
    w = np.empty(0) if weight is None else np.ascontiguousarray(weight, np.float64)
    out = np.zeros(x.shape[1])
    x, target, w, coef, centre = map(read_only, (_stored(x)[0], target, w, coef, centre))
    _compiled_linear().add_residuals(x, target, w, coef, intercept, centre, out)
    return out
