"""Softmax of rows at given temperatures, on worker threads or on the device of the logits."""

from __future__ import annotations

import numpy as np

from domaincal._row_arrays import row_range
from domaincal._tensors import on_device
from domaincal._typing import Array, FloatArray
from domaincal._validation import non_finite_logits_error
from domaincal.kernels import dispatch, numpy_kernels, torch_kernels
from domaincal.statistics.blocks import Workers, row_blocks

_BETA_ONE = np.ones(1)


def confidences_at(z: Array, beta: FloatArray) -> FloatArray:
    """Largest probability of each row of ``softmax(beta * z)``; beta has shape (n,) or (1,)."""
    beta = _in_precision(beta, z)
    if on_device(z):
        confidences, _, finite = torch_kernels.top_label(z.tensor, z.send(beta))
        if not finite:
            raise non_finite_logits_error(z)
        return confidences  # type: ignore[no-any-return]  # a tensor
    compiled = dispatch.use_compiled(z.size)

    def block_confidences(block: slice) -> FloatArray:
        block_beta = beta if beta.size == 1 else beta[block]
        return dispatch.top_label(z[block], block_beta, compiled=compiled)[0]

    with Workers() as workers:
        out = np.concatenate([*workers.map(block_confidences, logit_blocks(z))])
    if not np.isfinite(out).all():
        raise non_finite_logits_error(z)
    return out


def probabilities_at(z: Array, beta: FloatArray) -> Array:
    """``softmax(beta * z)`` of each row; beta has shape (n,) or (1,)."""
    beta = _in_precision(beta, z)
    if on_device(z):
        probabilities, finite = torch_kernels.softmax(z.tensor, z.send(beta))
        if not finite:
            raise non_finite_logits_error(z)
        return probabilities  # type: ignore[no-any-return]  # a tensor
    out = np.empty(z.shape, probability_dtype(z))
    compiled = dispatch.use_compiled(z.size)

    def fill(block: slice) -> bool:
        block_beta = beta if beta.size == 1 else beta[block]
        return dispatch.softmax(z[block], block_beta, out[block], compiled=compiled)

    with Workers() as workers:
        finite = all([*workers.map(fill, logit_blocks(z))])
    if not finite:
        raise non_finite_logits_error(z)
    return out


def top_scores(z: Array) -> tuple[FloatArray, Array]:
    """Largest softmax probability of each row, and its class, as numpy arrays.

    Computed in float64: near 1, a map of scores can be so steep that the rounding of float32
    would show.
    """
    if on_device(z):
        found = torch_kernels.top_label(z.tensor, z.send(_BETA_ONE), double=True)
        confidences, predicted = (part.cpu().numpy() for part in found[:2])
    else:
        with Workers() as workers:
            blocks = workers.map(
                lambda block: numpy_kernels.top_label(z[block], _BETA_ONE), logit_blocks(z)
            )
            confidences, predicted = (np.concatenate(part) for part in zip(*blocks, strict=True))
    if not np.isfinite(confidences).all():
        raise non_finite_logits_error(z)
    return np.minimum(confidences, 1.0), predicted


def probabilities_from_confidences(z: Array, confidences: FloatArray, predicted: Array) -> Array:
    """Probabilities with the given confidence for the predicted class of each row.

    The other classes share the rest in the proportions of their softmax.
    """
    if on_device(z):
        arrays = z.send(confidences), z.send(predicted)
        return torch_kernels.share_the_rest(z.tensor, *arrays)  # type: ignore[no-any-return]  # a tensor
    out = np.empty(z.shape, probability_dtype(z))

    def fill(block: slice) -> None:
        out[block] = _block_probabilities(z[block], confidences[block], predicted[block])

    with Workers() as workers:
        list(workers.map(fill, logit_blocks(z)))
    return out


def logit_blocks(z: Array) -> list[slice]:
    """Blocks of rows for the worker threads."""
    return row_blocks(row_range(z), z.shape[1] * z.itemsize)


def probability_dtype(z: Array) -> type[np.floating]:
    """float32 for float16 and float32 logits, otherwise float64."""
    single = z.dtype.kind == "f" and z.dtype.itemsize <= 4
    return np.float32 if single else np.float64


def _in_precision(beta: FloatArray, z: Array) -> FloatArray:
    """Beta, limited to half the largest number of the precision that kernels use for z."""
    # Infinite in float32, it would give the largest logit 0 * inf. Kernels multiply by log2(e).
    most = 0.5 * float(np.finfo(probability_dtype(z)).max)
    return beta.clip(max=most)


def _block_probabilities(z: Array, confidences: FloatArray, predicted: Array) -> FloatArray:
    rows = np.arange(len(z))
    others = z.astype(np.float64)
    # The softmax of the other classes alone is exact even if the predicted class is near 1.
    others[rows, predicted] = -np.inf
    p = np.empty(others.shape)
    numpy_kernels.softmax(others, _BETA_ONE, p)
    p *= (1.0 - confidences)[:, None]
    p[rows, predicted] = confidences
    return p
