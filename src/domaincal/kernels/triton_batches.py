"""Triton kernel for the sums of unlabelled batches, which reads every logit once.

This module is imported only for logits on a GPU; see :mod:`triton_kernels` for its conventions.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from domaincal._tensors import loaded_torch
from domaincal.kernels.device_groups import RowGroups
from domaincal.kernels.triton_features import add_runs_of_groups
from domaincal.kernels.triton_kernels import rows_of_width, tile


def batch_sums(logits: Any, beta: float, groups: RowGroups, n_bins: int) -> Any:
    """Values, probabilities and histogram of :func:`torch_batches.batch_sums`, side by side."""
    torch, n_classes = loaded_torch(), logits.shape[1]
    runs, first_run = groups.runs()
    order, (height, block, bin_block, warps) = groups.order, tile_with_bins(logits, n_bins)
    width = 6 + n_classes + n_bins
    parts = torch.empty((len(runs), width), dtype=torch.float64, device=logits.device)
    if len(runs):
        run_statistics[(len(runs),)](
            logits, beta, runs if order is None else order, runs, parts,
            n_classes=n_classes, stride=logits.stride(0), ordered=order is not None,
            n_bins=n_bins, bin_block=bin_block, block=block, height=height, num_warps=warps,
        )  # fmt: skip
    return add_runs_of_groups(parts, first_run, groups.n_groups)


def tile_with_bins(logits: Any, n_bins: int) -> tuple[int, int, int, int]:
    """Rows, columns and bins that a program holds in registers, and its number of warps."""
    height, block, warps = tile(logits)
    bin_block = triton.next_power_of_2(n_bins)
    return min(height, rows_of_width(bin_block)), block, bin_block, warps


@triton.jit  # type: ignore[untyped-decorator]
def run_statistics(  # type: ignore[no-untyped-def]
    logits,
    beta,
    order,
    runs,
    parts,
    n_classes: tl.constexpr,
    stride: tl.constexpr,
    ordered: tl.constexpr,
    n_bins: tl.constexpr,
    bin_block: tl.constexpr,
    block: tl.constexpr,
    height: tl.constexpr,
):
    """Sums over one run: 6 values of the rows, their softmax, a histogram of their confidences."""
    run = tl.program_id(0).to(tl.int64)
    first = tl.load(runs + 3 * run)
    last = tl.load(runs + 3 * run + 1)
    column = tl.arange(0, block)
    bin = tl.arange(0, bin_block)
    sum_confidence = tl.zeros((height,), tl.float64)
    sum_entropy = tl.zeros((height,), tl.float64)
    sum_margin = tl.zeros((height,), tl.float64)
    sum_top = tl.zeros((height,), tl.float64)
    sum_spread = tl.zeros((height,), tl.float64)
    sum_square = tl.zeros((height,), tl.float64)
    probabilities = tl.zeros((block,), tl.float64)
    histogram = tl.zeros((bin_block,), tl.int32)
    size = tl.full((height,), 1.0, tl.float64) / n_bins
    for start in range(first, last, height):
        row = start + tl.arange(0, height).to(tl.int64)
        there = row < last
        if ordered:
            row = tl.load(order + row, mask=there, other=0)
        inside = there[:, None] & (column < n_classes)[None, :]
        z = tl.load(
            logits + row[:, None] * stride + column[None, :], mask=inside, other=-float("inf")
        ).to(tl.float32)
        finite = tl.sum(tl.where(inside, z - z, 0.0), axis=1)  # 0 or NaN
        top = tl.max(z, axis=1)
        index = tl.min(tl.where(z == top[:, None], column[None, :], block), axis=1)
        second = tl.max(tl.where(column[None, :] == index[:, None], -float("inf"), z), axis=1)
        d = tl.where(inside, (z - top[:, None]) * beta, 0.0)
        p = tl.where(inside, tl.exp(d), 0.0)
        norm = tl.sum(p, axis=1)
        norm = tl.where(there, norm, 1.0)
        p = p / norm[:, None]
        entropy = tl.log(norm) - tl.sum(p * d, axis=1)
        # In units of the smallest number, so that squares do not overflow.
        unit = -tl.min(d, axis=1)
        unit = tl.where(unit > 0.0, unit, 1.0)
        e = d / unit[:, None]
        average = tl.sum(e, axis=1) / n_classes
        away = tl.where(inside, e - average[:, None], 0.0)
        spread = unit * tl.sqrt(tl.sum(away * away, axis=1) / n_classes)
        confidence = 1.0 / (norm + finite).to(tl.float64)
        sum_confidence += tl.where(there, confidence, 0.0)
        sum_entropy += tl.where(there, entropy.to(tl.float64), 0.0)
        sum_margin += tl.where(there, ((top - second) * beta).to(tl.float64), 0.0)
        sum_top -= tl.where(there, (average * unit).to(tl.float64), 0.0)
        sum_spread += tl.where(there, spread.to(tl.float64), 0.0)
        sum_square += tl.where(there, confidence * confidence, 0.0)
        probabilities += tl.sum(p.to(tl.float64), axis=0)
        # Bin k is (k / n_bins, (k + 1) / n_bins]; products decide, as edges are such products.
        k = tl.ceil(confidence * n_bins).to(tl.int32) - 1
        k = tl.where(confidence <= k.to(tl.float64) * size, k - 1, k)
        k = tl.where(confidence > (k + 1).to(tl.float64) * size, k + 1, k)
        k = tl.minimum(tl.maximum(k, 0), n_bins - 1)
        histogram += tl.sum(((bin[None, :] == k[:, None]) & there[:, None]).to(tl.int32), axis=0)
    out = parts + run * (6 + n_classes + n_bins)
    tl.store(out, tl.sum(sum_confidence))
    tl.store(out + 1, tl.sum(sum_entropy))
    tl.store(out + 2, tl.sum(sum_margin))
    tl.store(out + 3, tl.sum(sum_top))
    tl.store(out + 4, tl.sum(sum_spread))
    tl.store(out + 5, tl.sum(sum_square))
    tl.store(out + 6 + column, probabilities, mask=column < n_classes)
    tl.store(out + 6 + n_classes + bin, histogram.to(tl.float64), mask=bin < n_bins)
