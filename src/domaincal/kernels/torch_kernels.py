"""The kernels of :mod:`domaincal.kernels.numpy_kernels` in torch, for rows on a device.

Arguments are tensors on one device. Rows are read in chunks, so that temporaries are small.
Arithmetic is float32 (float64 for float64 logits), totals are float64. Loops do not synchronise
with the device. If Triton is installed, :mod:`triton_kernels` computes the temperature sums, on
which fits spend most of their time.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Iterator
from typing import Any

from domaincal._tensors import loaded_torch
from domaincal._typing import Array, FloatArray
from domaincal._warnings import warn_caller
from domaincal.errors import DomaincalWarning

#: Size of each of the two temporaries.
CHUNK_BYTES = 1 << 25
# Rows of one call of a fused kernel, which writes 48 bytes for each row.
_FUSED_ROWS = 1 << 23


def temperature_sums(
    logits: Any,
    labels: Any,
    beta: Any,
    *,
    weight: Any = None,
    domain: Any = None,
    n_domains: int = 1,
) -> FloatArray:
    """Sums of :func:`domaincal.kernels.numpy_kernels.temperature_sums`, shape ``(n_domains, 6)``.

    ``beta`` (float64) has shape (n,) or (1,); a row with NaN is skipped.
    """
    torch = loaded_torch()
    lane, n_classes = _lanes(logits), logits.shape[1]
    totals = torch.zeros((n_domains, 6), dtype=torch.float64, device=logits.device)
    fused = (
        fused_kernels(logits.device) if lane == torch.float32 and logits.stride(1) == 1 else None
    )
    if fused is not None and n_classes <= fused.MOST_CLASSES:
        for start in range(0, len(logits), _FUSED_ROWS):
            rows = slice(start, start + _FUSED_ROWS)
            own = [None if a is None else a[rows] for a in (weight, domain)]
            totals += fused.temperature_sums(
                logits[rows], labels[rows], beta[rows] if len(beta) > 1 else beta,
                weight=own[0], domain=own[1], n_domains=n_domains,
            )  # fmt: skip
        return _to_host(totals)
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
        if domain is None:
            totals[0] += terms.sum(0)
        else:
            totals.index_add_(0, domain[rows], terms)
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


def top_label(logits: Any, beta: Any, *, double: bool = False) -> tuple[Any, Any]:
    """Largest softmax probability at ``beta`` (float64) and its first class, as tensors.

    The probability is NaN for a row that is not finite. With ``double``, arithmetic is float64.
    """
    torch = loaded_torch()
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
    return torch.cat(confidences), torch.cat(classes)


def softmax(logits: Any, beta: Any) -> tuple[Any, bool]:
    """``softmax(beta * logits)`` of each row, and whether all logits are finite."""
    torch = loaded_torch()
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


def add_domain_sums(features: Any, domain: Any, weight: Any, *, sums: Any) -> None:
    """Add the weighted sum of the rows of each domain to ``sums``."""
    x = features.double()
    sums.index_add_(0, domain, x if weight is None else x * weight[:, None])


def add_moments(
    features: Any, domain: Any, weight: Any, shift: Any, *, gram: Any, moments: Any
) -> None:
    """Add to ``gram`` and ``moments`` of :class:`NormalEquations` for features minus ``shift``."""
    x = features.double() - shift
    moments.index_add_(0, domain, x if weight is None else x * weight[:, None])
    if weight is not None:
        x *= weight.sqrt()[:, None]
    gram.addmm_(x.T, x)


def residual_sum(
    features: Any, target: Any, weight: Any, *, coef: Any, intercept: float, centre: Any
) -> FloatArray:
    """``sum w (x - centre) (t - (x - centre)'c - b)``."""
    x = features.double() - centre
    residual = target - (x @ coef + intercept)
    if weight is not None:
        residual *= weight
    return _to_host(residual @ x)


def linear_values(features: Any, coef: Any) -> FloatArray:
    """``features @ coef`` in float64."""
    return _to_host(features.double() @ coef)


def sorted_and_centred(logits: Any) -> Any:
    """Logits of each row, sorted in descending order and centred, in float64."""
    z = logits.double().sort(dim=1, descending=True).values
    return z - z.mean(1, keepdim=True)


def first_class(logits: Any) -> Array:
    """First class with the largest logit, as a numpy array."""
    return _to_host(logits.argmax(1))


@functools.cache
def fused_kernels(device: Any) -> Any:
    """Module of the fused kernels; None if they cannot be compiled (Triton needs a C compiler)."""
    torch = loaded_torch()
    if device.type != "cuda" or importlib.util.find_spec("triton") is None:
        return None
    try:
        from domaincal.kernels import triton_kernels

        ones = torch.ones((1, 2), device=device)
        triton_kernels.temperature_sums(
            ones, ones[0, :1].long(), ones[0, :1].double(), weight=None, domain=None, n_domains=1
        )
    except Exception as error:  # of any class: torch operations give the same results
        reason = (str(error) or repr(error)).splitlines()[0]
        warn_caller(
            f"the fused kernels cannot be compiled ({reason}); slower torch operations are used. "
            "Triton needs a C compiler.",
            DomaincalWarning,
        )
        return None
    return triton_kernels


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
