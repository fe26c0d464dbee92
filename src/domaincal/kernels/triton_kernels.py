"""Triton kernels that read every logit once: temperature sums, confidences, probabilities.

Triton comes with CUDA builds of torch. This module is imported only for logits on a GPU. Logits
have at most 32 bits, and the classes of a row are contiguous; arithmetic is float32. The kernels
are compiled for each number of classes, so that the compiler knows how rows are aligned.
"""

from typing import Any

import triton
import triton.language as tl

from domaincal._tensors import loaded_torch
from domaincal.kernels.device_groups import RowGroups

#: Largest number of classes that fit into registers; torch operations handle more.
MOST_CLASSES = 8192
# Numbers that one warp holds in registers. With fewer, reductions wait for each other; with several
# warps for few rows, warps do.
_TILE = 1024
# Rows of a program: the six sums of each row are in registers, too.
_MOST_ROWS = 64
_N_TERMS = 6


def temperature_sums(
    logits: Any, labels: Any, beta: Any, groups: RowGroups, *, weight: Any, per_row: bool, step: int
) -> Any:
    """Sums of :func:`numpy_kernels.temperature_sums` for each group, on the device.

    ``beta`` has one value for each group, or one for each row (``per_row``). Totals are float64.
    The result is deterministic: the order of all additions is fixed.
    """
    torch = loaded_torch()
    runs, first_run = groups.runs(step)
    parts = torch.empty((len(runs), _N_TERMS), dtype=torch.float64, device=logits.device)
    order, (height, block, warps) = groups.order, tile(logits)
    if len(runs):
        run_terms[(len(runs),)](
            logits, labels, beta, labels if weight is None else weight,
            labels if order is None else order, runs, parts, step,
            n_classes=logits.shape[1], stride=logits.stride(0), per_row=per_row,
            weighted=weight is not None, ordered=order is not None, block=block, height=height,
            num_warps=warps,
        )  # fmt: skip
    if groups.n_groups == 1:
        return parts.sum(0, keepdim=True)
    totals = torch.empty((groups.n_groups, _N_TERMS), dtype=torch.float64, device=logits.device)
    add_runs[(groups.n_groups,)](parts, first_run, totals, width=256)
    return totals


def softmax(logits: Any, beta: Any) -> tuple[Any, Any]:
    """``softmax(beta * logits)`` of each row in float32; ``beta`` has shape (n,) or (1,).

    Also returns a tensor with the number 0, or 1 if a logit is not finite.
    """
    torch = loaded_torch()
    out = torch.empty(logits.shape, dtype=torch.float32, device=logits.device)
    bad = torch.zeros((1,), dtype=torch.int32, device=logits.device)
    height, block, warps = tile(logits)
    softmax_rows[(triton.cdiv(len(logits), height),)](
        logits, beta, out, bad, len(logits), n_classes=logits.shape[1], stride=logits.stride(0),
        one_beta=len(beta) == 1, block=block, height=height, num_warps=warps,
    )  # fmt: skip
    return out, bad


def top_label(logits: Any, beta: Any) -> tuple[Any, Any, Any]:
    """Largest probability of each row at ``beta`` in float64, its first class, and the flag.

    The flag is that of :func:`softmax`. The probability of a row that is not finite is NaN.
    """
    torch = loaded_torch()
    n, device = len(logits), logits.device
    confidences = torch.empty((n,), dtype=torch.float64, device=device)
    classes = torch.empty((n,), dtype=torch.int64, device=device)
    bad = torch.zeros((1,), dtype=torch.int32, device=device)
    height, block, warps = tile(logits)
    top_rows[(triton.cdiv(n, height),)](
        logits, beta, confidences, classes, bad, n, n_classes=logits.shape[1],
        stride=logits.stride(0), one_beta=len(beta) == 1, block=block, height=height,
        num_warps=warps,
    )  # fmt: skip
    return confidences, classes, bad


def tile(logits: Any) -> tuple[int, int, int]:
    """Rows and columns that a program holds in registers, and its number of warps."""
    block = triton.next_power_of_2(logits.shape[1])
    return rows_of_width(block), block, max(1, block // _TILE)


def rows_of_width(width: int) -> int:
    """Number of rows of this width that a program holds in registers."""
    return min(max(1, _TILE // width), _MOST_ROWS)


# Triton evaluates annotations and rejects Any: only constexpr parameters have one.
@triton.jit  # type: ignore[untyped-decorator]
def run_terms(  # type: ignore[no-untyped-def]
    logits,
    labels,
    beta,
    weight,
    order,
    runs,
    parts,
    step,
    n_classes: tl.constexpr,
    stride: tl.constexpr,
    per_row: tl.constexpr,
    weighted: tl.constexpr,
    ordered: tl.constexpr,
    block: tl.constexpr,
    height: tl.constexpr,
):
    """Sums over one run: weight, NLL, slope, curvature, squared slope, spread; 0 for NaN beta."""
    run = tl.program_id(0).to(tl.int64)
    first = tl.load(runs + 3 * run)
    last = tl.load(runs + 3 * run + 1)
    group = tl.load(runs + 3 * run + 2)
    column = tl.arange(0, block)
    of_group = 1.0
    if not per_row:
        of_group = tl.load(beta + group).to(tl.float32)
        last = tl.where(of_group == of_group, last, first)  # NaN: the group has converged
    n_rows = tl.zeros((height,), tl.float64)
    sum_nll = tl.zeros((height,), tl.float64)
    sum_slope = tl.zeros((height,), tl.float64)
    sum_curvature = tl.zeros((height,), tl.float64)
    sum_square = tl.zeros((height,), tl.float64)
    sum_spread = tl.zeros((height,), tl.float64)
    for start in range(first, last, height):
        place = start + tl.arange(0, height).to(tl.int64)
        there = place < last
        row = place * step
        if ordered:
            row = tl.load(order + row, mask=there, other=0)
        inside = there[:, None] & (column < n_classes)[None, :]
        z = tl.load(
            logits + row[:, None] * stride + column[None, :], mask=inside, other=-float("inf")
        ).to(tl.float32)
        y = tl.load(labels + row, mask=there, other=0).to(tl.int64)
        label = tl.load(logits + row * stride + y, mask=there, other=0.0).to(tl.float32)
        b = tl.zeros((height,), tl.float32) + of_group
        counted = there
        if per_row:
            b = tl.load(beta + row, mask=there, other=1.0).to(tl.float32)
            counted = there & (b == b)
        top = tl.max(z, axis=1)
        d = tl.where(inside, z - top[:, None], 0.0)
        p = tl.where(inside, tl.exp(d * b[:, None]), 0.0)
        norm = tl.sum(p, axis=1)
        p = p * d
        mean = tl.sum(p, axis=1) / norm
        variance = tl.sum(p * d, axis=1) / norm - mean * mean
        average = tl.sum(d, axis=1) / n_classes
        away = tl.where(inside, d - average[:, None], 0.0)
        spread = tl.sqrt(tl.sum(away * away, axis=1) / n_classes)
        below = label - top
        slope = mean - below
        nll = tl.log(norm) - b * below
        w = tl.full((height,), 1.0, tl.float64)
        if weighted:
            w = tl.load(weight + row, mask=there, other=0.0)
        n_rows += tl.where(counted, w, 0.0)
        sum_nll += tl.where(counted, w * nll.to(tl.float64), 0.0)
        sum_slope += tl.where(counted, w * slope.to(tl.float64), 0.0)
        sum_curvature += tl.where(counted, w * variance.to(tl.float64), 0.0)
        sum_square += tl.where(counted, w * (slope * slope).to(tl.float64), 0.0)
        sum_spread += tl.where(counted, w * spread.to(tl.float64), 0.0)
    out = parts + run * 6
    tl.store(out, tl.sum(n_rows))
    tl.store(out + 1, tl.sum(sum_nll))
    tl.store(out + 2, tl.sum(sum_slope))
    tl.store(out + 3, tl.sum(sum_curvature))
    tl.store(out + 4, tl.sum(sum_square))
    tl.store(out + 5, tl.sum(sum_spread))


@triton.jit  # type: ignore[untyped-decorator]
def add_runs(parts, first_run, totals, width: tl.constexpr):  # type: ignore[no-untyped-def]
    """Sum the runs of one group."""
    group = tl.program_id(0).to(tl.int64)
    first = tl.load(first_run + group)
    last = tl.load(first_run + group + 1)
    term = tl.arange(0, 8)
    total = tl.zeros((width, 8), tl.float64)
    for start in range(first, last, width):
        run = start + tl.arange(0, width).to(tl.int64)
        there = (run < last)[:, None] & (term < 6)[None, :]
        total += tl.load(parts + run[:, None] * 6 + term[None, :], mask=there, other=0.0)
    tl.store(totals + group * 6 + term, tl.sum(total, axis=0), mask=term < 6)


@triton.jit  # type: ignore[untyped-decorator]
def softmax_rows(  # type: ignore[no-untyped-def]
    logits,
    beta,
    out,
    bad,
    n,
    n_classes: tl.constexpr,
    stride: tl.constexpr,
    one_beta: tl.constexpr,
    block: tl.constexpr,
    height: tl.constexpr,
):
    """Softmax of each row."""
    row = tl.program_id(0).to(tl.int64) * height + tl.arange(0, height)
    there = row < n
    column = tl.arange(0, block)
    inside = there[:, None] & (column < n_classes)[None, :]
    z = tl.load(logits + row[:, None] * stride + column[None, :], mask=inside, other=-float("inf"))
    z = z.to(tl.float32)
    # z - z is NaN if z is NaN or infinite.
    finite = tl.sum(tl.where(inside, z - z, 0.0), axis=1)
    tl.store(bad + tl.zeros_like(row), 1, mask=there & (finite != finite))
    b = (
        tl.load(beta + tl.zeros_like(row))
        if one_beta
        else tl.load(beta + row, mask=there, other=1.0)
    )
    d = tl.where(inside, z - tl.max(z, axis=1)[:, None], 0.0)
    p = tl.where(inside, tl.exp(d * b.to(tl.float32)[:, None]), 0.0)
    p = p / tl.sum(p, axis=1)[:, None]
    tl.store(out + row[:, None] * n_classes + column[None, :], p, mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def top_rows(  # type: ignore[no-untyped-def]
    logits,
    beta,
    confidences,
    classes,
    bad,
    n,
    n_classes: tl.constexpr,
    stride: tl.constexpr,
    one_beta: tl.constexpr,
    block: tl.constexpr,
    height: tl.constexpr,
):
    """Largest softmax probability of each row, and its first class."""
    row = tl.program_id(0).to(tl.int64) * height + tl.arange(0, height)
    there = row < n
    column = tl.arange(0, block)
    inside = there[:, None] & (column < n_classes)[None, :]
    z = tl.load(logits + row[:, None] * stride + column[None, :], mask=inside, other=-float("inf"))
    z = z.to(tl.float32)
    finite = tl.sum(tl.where(inside, z - z, 0.0), axis=1)  # 0 or NaN
    tl.store(bad + tl.zeros_like(row), 1, mask=there & (finite != finite))
    b = (
        tl.load(beta + tl.zeros_like(row))
        if one_beta
        else tl.load(beta + row, mask=there, other=1.0)
    )
    top = tl.max(z, axis=1)
    # Faster than the indices of tl.max. No class of a row with NaN is the largest.
    index = tl.min(tl.where(z == top[:, None], column[None, :], n_classes - 1), axis=1)
    d = tl.where(inside, z - top[:, None], 0.0)
    p = tl.where(inside, tl.exp(d * b.to(tl.float32)[:, None]), 0.0)
    norm = tl.sum(p, axis=1) + finite
    tl.store(confidences + row, 1.0 / norm.to(tl.float64), mask=there)
    tl.store(classes + row, index.to(tl.int64), mask=there)
