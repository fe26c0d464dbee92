"""The kernels of :mod:`domaincal.kernels.numpy_kernels` in torch, for rows on a device.

Arguments are tensors on one device. Rows are read in chunks, so that temporaries are small.
Arithmetic is float32 (float64 for float64 logits), totals are float64. Loops do not synchronise
with the device. If Triton is installed, :mod:`triton_kernels` computes temperature sums,
confidences and probabilities, in one pass over the logits.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Iterator
from typing import Any

from domaincal._tensors import loaded_torch
from domaincal._typing import Array, FloatArray, IntArray
from domaincal._warnings import warn_caller
from domaincal.errors import DomaincalWarning
from domaincal.kernels.device_groups import RowGroups

#: Size of each of the two temporaries.
CHUNK_BYTES = 1 << 25


def temperature_sums(
    logits: Any,
    labels: Any,
    beta: Any,
    groups: RowGroups,
    *,
    weight: Any = None,
    per_row: bool = False,
    step: int = 1,
) -> FloatArray:
    """Sums of :func:`domaincal.kernels.numpy_kernels.temperature_sums`, shape ``(n_groups, 6)``.

    ``beta`` (float64) has one value for each group, or one for each row (``per_row``); NaN skips a
    group or a row. With ``step > 1``, only every ``step``-th row of the groups is summed.
    """
    torch = loaded_torch()
    fused = fused_for(logits)
    if fused is not None:
        return _to_host(
            fused.temperature_sums(
                logits, labels, beta, groups, weight=weight, per_row=per_row, step=step
            )
        )
    codes = groups.codes
    if step > 1:
        order = groups.order
        rows = slice(None, None, step) if order is None else order[::step]
        logits, labels = logits[rows], labels[rows]
        weight, codes = (None if a is None else a[rows] for a in (weight, codes))
        beta = beta[rows] if per_row else beta
    if codes is not None and not per_row:
        beta = beta[codes]
    lane, n_classes = _lanes(logits), logits.shape[1]
    totals = torch.zeros((groups.n_groups, 6), dtype=torch.float64, device=logits.device)
    chunks = list(_chunks(logits, lane))
    d_buffer = torch.empty((chunks[0].stop, n_classes), dtype=lane, device=logits.device)
    p_buffer = torch.empty_like(d_buffer)
    for rows in chunks:
        d = _below_top(logits[rows], d_buffer)
        b = beta[rows] if len(beta) > 1 else beta
        terms = _row_terms(d, labels[rows], b, p_buffer[: len(d)])
        if weight is not None:
            terms *= weight[rows, None]
        terms.masked_fill_(b.isnan()[:, None], 0.0)
        if codes is None:
            totals[0] += terms.sum(0)
        else:
            totals.index_add_(0, codes[rows], terms)
    return _to_host(totals)


def _row_terms(d: Any, labels: Any, beta: Any, p: Any) -> Any:
    """Terms of each row of logits relative to their maximum, shape (n, 6); ``p`` is a buffer."""
    torch = loaded_torch()
    n_classes = d.shape[1]
    torch.mul(d, beta.to(d.dtype)[:, None], out=p).exp_()
    norm = p.sum(1).double()
    mean = p.mul_(d).sum(1).double() / norm
    variance = p.mul_(d).sum(1).double() / norm - mean * mean
    label = d.gather(1, labels[:, None])[:, 0].double()
    slope = mean - label
    average = d.sum(1).double() / n_classes
    spread = (_squares(d) / n_classes - average * average).clamp_(min=0.0).sqrt()
    nll = norm.log() - beta * label
    return torch.stack([torch.ones_like(nll), nll, slope, variance, slope * slope, spread], dim=1)


def top_label(logits: Any, beta: Any, *, double: bool = False) -> tuple[Any, Any, bool]:
    """Largest softmax probability at ``beta`` (float64) and its first class, as tensors.

    The last result is whether all logits are finite; the probability is NaN for a row that is not.
    With ``double``, arithmetic is float64.
    """
    torch = loaded_torch()
    fused = None if double else fused_for(logits)
    if fused is not None:
        confidence, predicted, bad = fused.top_label(logits, beta)
        return confidence, predicted, not int(bad)
    lane = torch.float64 if double else _lanes(logits)
    confidences, classes = [], []
    buffer = None
    for rows in _chunks(logits, lane):
        if buffer is None:
            buffer = torch.empty_like(logits[rows], dtype=lane)
        d = _below_top(logits[rows], buffer)
        finite = d.amin(1).isfinite()
        b = beta[rows] if len(beta) > 1 else beta
        classes.append(d.argmax(1))
        norm = d.mul_(b.to(lane)[:, None]).exp_().sum(1).double()
        confidences.append(torch.where(finite, 1.0 / norm, torch.nan))
    confidence = torch.cat(confidences)
    return confidence, torch.cat(classes), bool(confidence.isfinite().all())


def softmax(logits: Any, beta: Any) -> tuple[Any, bool]:
    """``softmax(beta * logits)`` of each row, and whether all logits are finite."""
    torch = loaded_torch()
    fused = fused_for(logits)
    if fused is not None:
        out, bad = fused.softmax(logits, beta)
        return out, not int(bad)
    lane = _lanes(logits)
    out = torch.empty(logits.shape, dtype=lane, device=logits.device)
    finite = torch.ones((), dtype=torch.bool, device=logits.device)
    for rows in _chunks(logits, lane):
        p = _below_top(logits[rows], out[rows])
        finite &= p.amin().isfinite()
        b = beta[rows] if len(beta) > 1 else beta
        p.mul_(b.to(lane)[:, None]).exp_()
        p /= p.sum(1, keepdim=True)
    return out, bool(finite)


def share_the_rest(logits: Any, confidences: Any, classes: Any) -> Any:
    """Probabilities with the given confidence for one class of each row.

    The other classes share the rest in proportion to their softmax.
    """
    torch = loaded_torch()
    out = torch.empty(logits.shape, dtype=_lanes(logits), device=logits.device)
    for rows in _chunks(logits, torch.float64):
        own, c = classes[rows, None], confidences[rows, None]
        others = logits[rows].to(torch.float64, copy=True).scatter_(1, own, -torch.inf)
        out[rows] = others.softmax(1).mul_(1.0 - c).scatter_(1, own, c)
    return out


def label_and_square(probabilities: Any, labels: Any) -> tuple[FloatArray, FloatArray]:
    """Probability of the label of each row, and sum of squared probabilities of each row."""
    torch = loaded_torch()
    of_label = probabilities.gather(1, labels[:, None])[:, 0].double()
    squares = [
        _squares(probabilities[rows]) for rows in _chunks(probabilities, probabilities.dtype)
    ]
    return _to_host(of_label), _to_host(torch.cat(squares))


def sorted_and_centred(logits: Any) -> Any:
    """Logits of each row, sorted in descending order and centred, in float64."""
    z = logits.double().sort(dim=1, descending=True).values
    return z - z.mean(1, keepdim=True)


def first_class(logits: Any) -> Array:
    """First class with the largest logit, as a numpy array."""
    return _to_host(logits.argmax(1))


def counts(codes: Any, n_codes: int) -> IntArray:
    """How often each code from 0 to ``n_codes - 1`` occurs."""
    return _to_host(loaded_torch().bincount(codes.long(), minlength=n_codes))


@functools.cache
def fused_kernels(device: Any) -> Any:
    """Module of the fused kernels; None if they cannot be compiled (Triton needs a C compiler)."""
    torch = loaded_torch()
    if device.type != "cuda" or importlib.util.find_spec("triton") is None:
        return None
    try:
        from domaincal.kernels import triton_kernels

        ones = torch.ones((1, 2), device=device)
        triton_kernels.softmax(ones, ones[0, :1].double())
    except Exception as error:  # of any class: torch operations give the same results
        reason = (str(error) or repr(error)).splitlines()[0]
        warn_caller(
            f"the fused kernels cannot be compiled ({reason}); slower torch operations are used. "
            "Triton needs a C compiler.",
            DomaincalWarning,
        )
        return None
    return triton_kernels


def fused_for(logits: Any) -> Any:
    """Module of the fused kernels, if they can read these logits."""
    if _lanes(logits) != loaded_torch().float32 or logits.stride(1) != 1:
        return None
    fused = fused_kernels(logits.device)
    return fused if fused is not None and logits.shape[1] <= fused.MOST_CLASSES else None


def _lanes(logits: Any) -> Any:
    """Dtype of the arithmetic: float32 for floats of up to 32 bits, otherwise float64."""
    torch = loaded_torch()
    single = logits.dtype.is_floating_point and logits.element_size() <= 4
    return torch.float32 if single else torch.float64


def _chunks(rows: Any, dtype: Any) -> Iterator[slice]:
    n, width = rows.shape
    size = max(1, CHUNK_BYTES // (width * dtype.itemsize))
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def _below_top(logits: Any, out: Any) -> Any:
    """Logits minus the largest of their row, in the first rows of ``out``."""
    d = out[: len(logits)]
    if logits.dtype != d.dtype:
        logits = d.copy_(logits)
    return loaded_torch().sub(logits, logits.amax(1, keepdim=True), out=d)


def _squares(rows: Any) -> Any:
    """Sum of squares of each row, without a temporary of all squares."""
    return loaded_torch().linalg.vector_norm(rows, dim=1).double().square()


def _to_host(tensor: Any) -> Array:
    array: Array = tensor.cpu().numpy()
    return array
