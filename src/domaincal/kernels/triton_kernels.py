"""Temperature sums in two Triton kernels that read every logit once.

Triton comes with CUDA builds of torch. This module is imported only for logits on a GPU.
"""

from typing import Any

import triton
import triton.language as tl

from domaincal._tensors import loaded_torch

#: Largest number of classes that fit into registers; torch operations handle more.
MOST_CLASSES = 8192
#: Rows that one program of domain_sums adds up.
SLAB_ROWS = 4096
_TILE = 2048
_N_TERMS = 6


def temperature_sums(
    logits: Any,
    labels: Any,
    beta: Any,
    *,
    weight: Any,
    domain: Any,
    n_domains: int,
) -> Any:
    """Sums of :func:`numpy_kernels.temperature_sums`, in float32 lanes, on the device.

    Logits have at most 32 bits, and the classes of a row are contiguous. The result is
    deterministic: the order of all additions is fixed.
    """
    torch = loaded_torch()
    n, n_classes = logits.shape
    terms = torch.empty((n, _N_TERMS), dtype=torch.float64, device=logits.device)
    block = triton.next_power_of_2(n_classes)
    rows = max(1, _TILE // block)
    row_terms[(triton.cdiv(n, rows),)](
        logits, labels, beta, terms, n, n_classes, logits.stride(0),
        one_beta=len(beta) == 1, block=block, height=rows, num_warps=8 if block >= 4096 else 4,
    )  # fmt: skip
    if weight is not None:
        terms *= weight[:, None]
    if domain is None:
        return terms.sum(0, keepdim=True)
    slabs = triton.cdiv(n, SLAB_ROWS)
    width = min(128, max(16, triton.next_power_of_2(n_domains)))
    parts = torch.empty((slabs, n_domains, _N_TERMS), dtype=torch.float64, device=logits.device)
    domain_sums[(slabs, triton.cdiv(n_domains, width), _N_TERMS)](
        terms, domain, parts, n, n_domains,
        slab_rows=SLAB_ROWS, height=64, width=width, n_terms=_N_TERMS,
    )  # fmt: skip
    return parts.sum(0)


# Triton evaluates annotations and rejects Any: only constexpr parameters have one.
@triton.jit  # type: ignore[untyped-decorator]
def row_terms(  # type: ignore[no-untyped-def]
    logits,
    labels,
    beta,
    terms,
    n,
    n_classes,
    stride,
    one_beta: tl.constexpr,
    block: tl.constexpr,
    height: tl.constexpr,
):
    """Terms of each row: 1, NLL, slope, curvature, squared slope, spread; all 0 for NaN beta."""
    row = tl.program_id(0).to(tl.int64) * height + tl.arange(0, height)
    there = row < n
    column = tl.arange(0, block)
    inside = there[:, None] & (column < n_classes)[None, :]
    z = tl.load(logits + row[:, None] * stride + column[None, :], mask=inside, other=-float("inf"))
    z = z.to(tl.float32)
    top = tl.max(z, axis=1)
    d = tl.where(inside, z - top[:, None], 0.0)
    b = tl.load(beta + tl.zeros_like(row), mask=there) if one_beta else tl.load(
        beta + row, mask=there, other=1.0
    )  # fmt: skip
    p = tl.where(inside, tl.exp(d * b.to(tl.float32)[:, None]), 0.0)
    norm = tl.sum(p, axis=1).to(tl.float64)
    p = p * d
    mean = tl.sum(p, axis=1).to(tl.float64) / norm
    variance = tl.sum(p * d, axis=1).to(tl.float64) / norm - mean * mean
    average = tl.sum(d, axis=1) / n_classes
    away = tl.where(inside, d - average[:, None], 0.0)
    spread = tl.sqrt(tl.sum(away * away, axis=1) / n_classes).to(tl.float64)
    y = tl.load(labels + row, mask=there, other=0)
    label = tl.load(logits + row * stride + y, mask=there, other=0.0).to(tl.float32) - top
    label = label.to(tl.float64)
    slope = mean - label
    nll = tl.log(norm) - b * label
    asked = b == b
    out = terms + row * 6
    tl.store(out, tl.where(asked, 1.0, 0.0).to(tl.float64), mask=there)
    tl.store(out + 1, tl.where(asked, nll, 0.0), mask=there)
    tl.store(out + 2, tl.where(asked, slope, 0.0), mask=there)
    tl.store(out + 3, tl.where(asked, variance, 0.0), mask=there)
    tl.store(out + 4, tl.where(asked, slope * slope, 0.0), mask=there)
    tl.store(out + 5, tl.where(asked, spread, 0.0), mask=there)


@triton.jit  # type: ignore[untyped-decorator]
def domain_sums(  # type: ignore[no-untyped-def]
    terms,
    domain,
    parts,
    n,
    n_domains,
    slab_rows: tl.constexpr,
    height: tl.constexpr,
    width: tl.constexpr,
    n_terms: tl.constexpr,
):
    """Sum one term over the rows of a slab, for ``width`` domains."""
    slab = tl.program_id(0).to(tl.int64)
    wanted = tl.program_id(1) * width + tl.arange(0, width)
    term = tl.program_id(2)
    total = tl.zeros((width,), tl.float64)
    for start in range(0, slab_rows, height):
        row = slab * slab_rows + start + tl.arange(0, height)
        own = tl.load(domain + row, mask=row < n, other=-1)
        value = tl.load(terms + row * n_terms + term, mask=row < n, other=0.0)
        total += tl.sum(tl.where(own[:, None] == wanted[None, :], value[:, None], 0.0), axis=0)
    place = (slab * n_domains + wanted) * n_terms + term
    tl.store(parts + place, total, mask=wanted < n_domains)
