"""Row formulas in numpy, float64 inside: for small inputs, and as the reference of the compiled."""

import numpy as np

from domaincal._typing import Array, FloatArray, IntArray


def temperature_sums(
    logits: Array,
    labels: IntArray,
    beta: FloatArray,
    weight: FloatArray,
    group: IntArray,
    n_groups: int,
) -> FloatArray:
    """Temperature sums of each group, shape ``(n_groups, 6)``.

    With ``d`` the logits of a row relative to their maximum and ``p = softmax(beta d)``, the
    columns sum, over the rows of a group: the weight; the NLL ``log sum exp(beta d) - beta d_y``;
    its slope in ``beta``, ``g = E_p d - d_y``; its curvature ``Var_p d``; ``g**2``; and the plain
    standard deviation of ``d``.

    ``beta`` has shape (n,) or (1,), and a row with NaN is skipped; ``weight`` and ``group`` may be
    empty, for weight 1 and group 0.
    """
    n = len(labels)
    # Classes down, rows across: numpy then adds whole rows of memory, also for few classes.
    d = np.array(logits.T, np.float64, order="C")
    # inf - inf and overflow make the sums NaN or infinite, and the caller says so.
    with np.errstate(invalid="ignore", over="ignore"):
        d -= d.max(axis=0)
        label = d[labels, np.arange(n)]
        p = d * beta
        np.exp(p, out=p)
        norm = p.sum(axis=0)
        p *= d
        mean = p.sum(axis=0) / norm
        p *= d
        variance = p.sum(axis=0) / norm - mean * mean
        slope = mean - label
        average = d.mean(axis=0)
        np.square(d, out=d)
        spread = np.sqrt(np.maximum(d.mean(axis=0) - average * average, 0.0))
    terms = np.stack([np.ones(n), np.log(norm) - beta * label, slope, variance, slope**2, spread])
    if weight.size:
        terms *= weight
    if np.isnan(beta).any():
        terms[:, np.broadcast_to(np.isnan(beta), n)] = 0.0
    if not group.size:
        return np.asarray(terms.sum(axis=1)[None, :])
    return np.stack([np.bincount(group, term, minlength=n_groups) for term in terms], axis=1)


def top_label(logits: Array, beta: FloatArray) -> tuple[FloatArray, IntArray]:
    """Largest softmax probability at ``beta`` (shape (n,) or (1,)) and its first class.

    NaN for a row that is not finite.
    """
    d = logits.astype(np.float64)
    predicted = d.argmax(axis=1)
    with np.errstate(invalid="ignore", over="ignore"):
        d -= d.max(axis=1, keepdims=True)
    confidence = 1.0 / np.exp(beta[:, None] * d).sum(axis=1)
    return np.where(np.isfinite(d).all(axis=1), confidence, np.nan), predicted


def softmax(logits: Array, beta: FloatArray, out: Array) -> None:
    """Write ``softmax(beta * logits)`` of each row to ``out``."""
    with np.errstate(invalid="ignore", over="ignore"):
        np.subtract(logits, logits.max(axis=1, keepdims=True), out=out, dtype=out.dtype)
        out *= beta[:, None].astype(out.dtype)
    np.exp(out, out=out)
    out /= out.sum(axis=1, keepdims=True)


def bin_index(confidence: FloatArray, edges: FloatArray) -> IntArray:
    """Bin of each confidence: bin m is ``(edges[m], edges[m + 1]]``, the first also its left end.

    The float64 edges decide, by comparison: ``ceil(c * M) - 1`` misplaces 5 of the 99 inner edges
    at M = 100.

    Examples
    --------
    >>> import numpy as np
    >>> bin_index(np.array([0.0, 0.25, 0.5, 0.75, 1.0]), np.linspace(0, 1, 3)).tolist()
    [0, 0, 0, 1, 1]
    """
    index = np.searchsorted(edges, confidence, side="left") - 1
    return np.clip(index, 0, len(edges) - 2)
