"""The row kernels behind one face: compiled for large inputs, numpy for small ones.

The choice is made once per fit, from the total size (:func:`use_compiled`), so that the same data
cut into other blocks gives the same numbers. numba is imported only when the choice falls on it.
What it reads is read-only always: it compiles arrays that can be written to once more.
"""

from types import ModuleType

import numpy as np

from domaincal._tensors import on_device, read_only
from domaincal._typing import Array, FloatArray, IntArray
from domaincal.kernels import numpy_kernels, torch_kernels

#: Below this many numbers, loading compiled code costs more than it saves.
_COMPILED_FROM = 1 << 18
_LOG2_E = 1.4426950408889634


def use_compiled(n_elements: int) -> bool:
    """Whether an input of so many numbers is worth the compiled kernels."""
    return n_elements >= _COMPILED_FROM


def _compiled() -> ModuleType:
    from domaincal.kernels import numba_kernels

    return numba_kernels


def _compiled_bins() -> ModuleType:
    from domaincal.kernels import numba_bins

    return numba_bins


def _stored(logits: Array) -> tuple[Array, type[np.floating]]:
    """Rows as the compiled kernels take them, and the precision of their lanes."""
    if logits.dtype.kind == "f" and logits.dtype.itemsize == 2:
        return np.ascontiguousarray(logits, np.float16).view(np.uint16), np.float32
    if logits.dtype.kind == "f" and logits.dtype.itemsize == 4:
        return np.ascontiguousarray(logits, np.float32), np.float32
    return np.ascontiguousarray(logits, np.float64), np.float64


def reads_in_place(logits: Array) -> bool:
    """Whether the compiled kernels read these rows without a copy."""
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
    group: Array | None = None,
    n_groups: int = 1,
    offset: int = 0,
    every: int = 1,
    compiled: bool = False,
) -> FloatArray:
    """Sums of :func:`numpy_kernels.temperature_sums`; ``beta`` is of shape (n,) or (1,).

    ``every > 1`` takes one in ``every`` runs of consecutive rows, counted from ``offset``, the
    number of the first row in the whole data (compiled kernels only).
    """
    y = np.ascontiguousarray(labels, np.int64)
    w = np.empty(0) if weight is None else np.ascontiguousarray(weight, np.float64)
    g = np.empty(0, np.int64) if group is None else np.ascontiguousarray(group, np.int64)
    if not compiled:
        return numpy_kernels.temperature_sums(logits, y, beta, w, g, n_groups)
    z, lane = _stored(logits)
    kernels = _compiled()
    kernel = kernels.wide_sums if z.shape[1] >= kernels.WIDE_FROM else kernels.narrow_sums
    out = np.zeros((n_groups, 6))
    z, y, w, g = map(read_only, (z, y, w, g))
    kernel(z, y, beta, (beta * _LOG2_E).astype(lane), w, g, offset, every, out)
    return out


def top_label(
    logits: Array, beta: FloatArray, *, compiled: bool = False
) -> tuple[FloatArray, IntArray]:
    """Largest softmax probability at ``beta`` (shape (n,) or (1,)) and its first class."""
    if not compiled:
        return numpy_kernels.top_label(logits, beta)
    z, lane = _stored(logits)
    confidence = np.empty(len(z))
    predicted = np.empty(len(z), np.int64)
    _compiled().top_label(read_only(z), (beta * _LOG2_E).astype(lane), confidence, predicted)
    return confidence, predicted


def predicted_classes(logits: Array) -> IntArray:
    """First class with the largest logit, on the host."""
    if on_device(logits):
        return torch_kernels.first_class(logits.tensor)
    return np.asarray(np.argmax(logits, axis=1))


def bin_sums(
    confidence: FloatArray,
    hit: Array,
    edges: FloatArray,
    *,
    weight: Array | None = None,
    compiled: bool = False,
) -> FloatArray:
    """Weight, confidence and hits of each bin, shape (n_bins, 3)."""
    if compiled:
        out = np.zeros((len(edges) - 1, 3))
        w = np.empty(0) if weight is None else np.ascontiguousarray(weight, np.float64)
        h = np.ascontiguousarray(hit)
        _compiled_bins().add_to_bins(*map(read_only, (confidence, h, w, edges)), out)
        return out
    index = numpy_kernels.bin_index(confidence, edges)
    w = np.ones(len(confidence)) if weight is None else np.asarray(weight, np.float64)
    columns = (w, w * confidence, w * hit)
    return np.stack([np.bincount(index, c, minlength=len(edges) - 1) for c in columns], axis=1)
