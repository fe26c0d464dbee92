"""Softmax of rows at their temperatures: on worker threads, or on the device of the rows."""

import numpy as np

from domaincal._tensors import on_device
from domaincal._typing import Array, FloatArray
from domaincal._validation import non_finite_logits
from domaincal.kernels import dispatch, numpy_kernels, torch_kernels
from domaincal.statistics.blocks import Workers, row_blocks

_ONE = np.ones(1)


def confidences_at(z: Array, beta: FloatArray) -> FloatArray:
    """Largest probability of each row at ``beta``, shape (n,) or (1,)."""
    if on_device(z):
        confidences = torch_kernels.top_label(z.tensor, z.send(beta))[0]
        if not bool(confidences.isfinite().all()):
            raise non_finite_logits(z)
        return confidences  # type: ignore[no-any-return]  # a tensor
    compiled = dispatch.use_compiled(z.size)

    def confidences_of(block: slice) -> FloatArray:
        rows = beta if beta.size == 1 else beta[block]
        return dispatch.top_label(z[block], rows, compiled=compiled)[0]

    with Workers() as workers:
        out = np.concatenate([*workers.map(confidences_of, logit_blocks(z))])
    if not np.isfinite(out).all():
        raise non_finite_logits(z)
    return out


def probabilities_at(z: Array, beta: FloatArray) -> Array:
    """``softmax(beta * z)`` of each row; ``beta`` has shape (n,) or (1,)."""
    if on_device(z):
        probabilities, finite = torch_kernels.softmax(z.tensor, z.send(beta))
        if not finite:
            raise non_finite_logits(z)
        return probabilities  # type: ignore[no-any-return]  # a tensor
    out = np.empty(z.shape, probability_dtype(z))

    def fill(block: slice) -> bool:
        numpy_kernels.softmax(z[block], beta if beta.size == 1 else beta[block], out[block])
        # -inf gives the probability 0, but is refused here as everywhere else.
        return bool(np.isfinite(out[block]).all() and np.isfinite(z[block].min()))

    with Workers() as workers:
        finite = all([*workers.map(fill, logit_blocks(z))])
    if not finite:
        raise non_finite_logits(z)
    return out


def top_scores(z: Array) -> tuple[FloatArray, Array]:
    """Largest softmax probability of each row, and its class, on the host.

    Always in double precision: near 1 a map may be steeper than single precision is fine.
    """
    if on_device(z):
        found = torch_kernels.top_label(z.tensor, z.send(_ONE), double=True)
        confidences, predicted = (part.cpu().numpy() for part in found)
    else:
        with Workers() as workers:
            blocks = workers.map(
                lambda block: numpy_kernels.top_label(z[block], _ONE), logit_blocks(z)
            )
            confidences, predicted = (np.concatenate(part) for part in zip(*blocks, strict=True))
    if not np.isfinite(confidences).all():
        raise non_finite_logits(z)
    return np.minimum(confidences, 1.0), predicted


def with_shared_rest(z: Array, confidences: FloatArray, predicted: Array) -> Array:
    """The confidence for the predicted class, the rest in the proportions of the softmax."""
    if on_device(z):
        given = z.send(confidences), z.send(predicted)
        return torch_kernels.share_the_rest(z.tensor, *given)  # type: ignore[no-any-return]  # a tensor
    out = np.empty(z.shape, probability_dtype(z))

    def fill(block: slice) -> None:
        out[block] = _share_the_rest(z[block], confidences[block], predicted[block])

    with Workers() as workers:
        list(workers.map(fill, logit_blocks(z)))
    return out


def logit_blocks(z: Array) -> list[slice]:
    """Blocks of rows for the worker threads."""
    return row_blocks(len(z), z.shape[1] * z.itemsize)


def probability_dtype(z: Array) -> type[np.floating]:
    """float32 for float16 and float32 logits, float64 for all else."""
    single = z.dtype.kind == "f" and z.dtype.itemsize <= 4
    return np.float32 if single else np.float64


def _share_the_rest(z: Array, confidences: FloatArray, predicted: Array) -> FloatArray:
    rows = np.arange(len(z))
    others = z.astype(np.float64)
    others[rows, predicted] = -np.inf  # a softmax of the others alone: no rounding against 1
    p = np.empty(others.shape)
    numpy_kernels.softmax(others, _ONE, p)
    p *= (1.0 - confidences)[:, None]
    p[rows, predicted] = confidences
    return p
