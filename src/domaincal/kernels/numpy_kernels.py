"""Row kernels in numpy and float64: for small inputs, and the reference of the other kernels."""

from __future__ import annotations

import numpy as np

from domaincal._typing import Array, FloatArray, IntArray


def temperature_sums(
    logits: Array,
    labels: IntArray,
    beta: FloatArray,
    weight: FloatArray,
    domain: IntArray,
    n_domains: int,
) -> FloatArray:
    """Temperature sums of each domain, shape ``(n_domains, 6)``.

    With ``d`` the logits of a row relative to their maximum and ``p = softmax(beta d)``, the
    columns are sums over the rows of a domain: the weight; the NLL ``log sum exp(beta d) - beta
    d_y``; its slope in ``beta``, ``g = E_p d - d_y``; its curvature ``Var_p d``; ``g**2``; and the
    standard deviation of ``d`` over the classes.

    ``beta`` has shape (n,) or (1,); a row with NaN is skipped. Empty arrays ``weight`` and
    ``domain`` mean weight 1 and domain 0.
    """
    n = len(labels)
    # Transposed, so that sums over classes add contiguous rows, which is fast for few classes too.
    d = np.array(logits.T, np.float64, order="C")
    # inf - inf and overflow make the sums NaN or infinite, which the caller reports.
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
        nll = np.log(norm) - beta * label
        terms = np.stack([np.ones(n), nll, slope, variance, slope**2, spread])
        if weight.size:
            terms *= weight
        if np.isnan(beta).any():
            terms[:, np.broadcast_to(np.isnan(beta), n)] = 0.0
        if not domain.size:
            return np.asarray(terms.sum(axis=1)[None, :])
    return np.stack([np.bincount(domain, term, minlength=n_domains) for term in terms], axis=1)


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


def row_statistics(logits: Array, beta: float) -> tuple[FloatArray, FloatArray]:
    """Values of each row of ``z = beta * logits``, shape (n, 5), and ``p = softmax(z)``.

    The columns: confidence ``max p``, entropy ``-sum p log p``, margin of the two largest z,
    largest z minus the mean of the row, standard deviation of the row.
    """
    # A logit that is not finite gives NaN, which the caller reports.
    with np.errstate(invalid="ignore", over="ignore"):
        d = logits.astype(np.float64)
        d -= d.max(axis=1, keepdims=True)
        d *= beta
        # The square of a masked logit must not overflow.
        np.maximum(d, -1e100, out=d)
        p = np.exp(d)
        norm = p.sum(axis=1)
        p /= norm[:, None]
        # -log p = log(norm) - d, whose mean under p is the entropy.
        entropy = np.log(norm) - np.einsum("ij,ij->i", p, d)
        margin = -np.partition(d, -2, axis=1)[:, -2]
        # The limit above would hide a logit of -inf.
        confidence = np.where(np.isfinite(logits.min(axis=1)), 1.0 / norm, np.nan)
        values = [confidence, entropy, margin, -d.mean(axis=1), d.std(axis=1)]
    return np.column_stack(values), p


def label_and_square(probabilities: Array, labels: Array) -> tuple[FloatArray, FloatArray]:
    """Probability of each row's label, and the sum of the squares of the row."""
    of_label = probabilities[np.arange(len(labels)), labels].astype(np.float64)
    square = np.einsum("ij,ij->i", probabilities, probabilities, dtype=np.float64, casting="unsafe")
    return of_label, square


def row_nll(of_label: FloatArray, dtype: np.dtype) -> FloatArray:
    """``-log p_y``; a probability that was rounded to 0 counts as the smallest normal number."""
    smallest = np.finfo(dtype if dtype.kind == "f" else np.float64).tiny
    return np.asarray(-np.log(np.maximum(of_label, smallest)))


def row_brier(of_label: FloatArray, square: FloatArray) -> FloatArray:
    """``sum_j (p_j - 1{y = j})**2``."""
    return square - 2.0 * of_label + 1.0
