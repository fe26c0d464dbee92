"""Triton kernels that read every feature once: sums of rows, and products with coefficients.

This module is imported only for features on a GPU. The features of a row are contiguous;
arithmetic is float64, in the order that the groups give, so that results are deterministic.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from domaincal._tensors import loaded_torch
from domaincal.kernels.device_groups import RowGroups

# Rows and columns that a program holds in registers, as float64 numbers.
_HEIGHT, _WIDTH = 8, 256


def feature_sums(features: Any, groups: RowGroups, weight: Any) -> Any:
    """Weighted sum of the rows of each group, shape (n_groups, n_features), in float64."""
    torch = loaded_torch()
    runs, first_run = groups.runs()
    n_features, order = features.shape[1], groups.order
    parts = torch.empty((len(runs), n_features), dtype=torch.float64, device=features.device)
    n_tiles = triton.cdiv(n_features, _WIDTH)
    if len(runs):
        run_sums[(len(runs), n_tiles)](
            features, features if weight is None else weight, runs if order is None else order,
            runs, parts, n_features, features.stride(0),
            weighted=weight is not None, ordered=order is not None, height=_HEIGHT, width=_WIDTH,
        )  # fmt: skip
    return add_runs_of_groups(parts, first_run, groups.n_groups)


def add_runs_of_groups(parts: Any, first_run: Any, n_groups: int) -> Any:
    """Sum the rows of the runs of each group, shape (n_groups, width)."""
    if n_groups == 1:  # one program would add all runs
        return parts.sum(0, keepdim=True)
    totals = parts.new_empty((n_groups, parts.shape[1]))
    add_run_rows[(n_groups, triton.cdiv(parts.shape[1], _WIDTH))](
        parts, first_run, totals, parts.shape[1], height=_HEIGHT, width=_WIDTH
    )
    return totals


def linear_values(features: Any, coef: Any) -> Any:
    """``features @ coef`` in float64; ``coef`` has shape (n_features,)."""
    n, n_features = features.shape
    out = loaded_torch().empty((n,), dtype=coef.dtype, device=features.device)
    row_products[(triton.cdiv(n, _HEIGHT),)](
        features, coef, out, n, n_features, features.stride(0), height=_HEIGHT, width=_WIDTH
    )
    return out


@triton.jit  # type: ignore[untyped-decorator]
def run_sums(  # type: ignore[no-untyped-def]
    features,
    weight,
    order,
    runs,
    parts,
    n_features,
    stride,
    weighted: tl.constexpr,
    ordered: tl.constexpr,
    height: tl.constexpr,
    width: tl.constexpr,
):
    """Sums of some columns over the rows of one run."""
    run = tl.program_id(0).to(tl.int64)
    first = tl.load(runs + 3 * run)
    last = tl.load(runs + 3 * run + 1)
    column = tl.program_id(1) * width + tl.arange(0, width)
    total = tl.zeros((height, width), tl.float64)
    for start in range(first, last, height):
        row = start + tl.arange(0, height).to(tl.int64)
        there = row < last
        if ordered:
            row = tl.load(order + row, mask=there, other=0)
        inside = there[:, None] & (column < n_features)[None, :]
        x = tl.load(features + row[:, None] * stride + column[None, :], mask=inside, other=0.0)
        x = x.to(tl.float64)
        if weighted:
            x = x * tl.load(weight + row, mask=there, other=0.0)[:, None]
        total += x
    tl.store(parts + run * n_features + column, tl.sum(total, axis=0), mask=column < n_features)


@triton.jit  # type: ignore[untyped-decorator]
def add_run_rows(  # type: ignore[no-untyped-def]
    parts, first_run, totals, n_features, height: tl.constexpr, width: tl.constexpr
):
    """Sum the runs of one group."""
    group = tl.program_id(0).to(tl.int64)
    first = tl.load(first_run + group)
    last = tl.load(first_run + group + 1)
    column = tl.program_id(1) * width + tl.arange(0, width)
    total = tl.zeros((height, width), tl.float64)
    for start in range(first, last, height):
        run = start + tl.arange(0, height).to(tl.int64)
        inside = (run < last)[:, None] & (column < n_features)[None, :]
        total += tl.load(
            parts + run[:, None] * n_features + column[None, :], mask=inside, other=0.0
        )
    tl.store(totals + group * n_features + column, tl.sum(total, axis=0), mask=column < n_features)


@triton.jit  # type: ignore[untyped-decorator]
def row_products(  # type: ignore[no-untyped-def]
    features, coef, out, n, n_features, stride, height: tl.constexpr, width: tl.constexpr
):
    """Product of each row with the coefficients."""
    row = tl.program_id(0).to(tl.int64) * height + tl.arange(0, height)
    total = tl.zeros((height, width), tl.float64)
    for start in range(0, n_features, width):
        column = start + tl.arange(0, width)
        inside = (row < n)[:, None] & (column < n_features)[None, :]
        x = tl.load(features + row[:, None] * stride + column[None, :], mask=inside, other=0.0)
        c = tl.load(coef + column, mask=column < n_features, other=0.0)
        total += x.to(tl.float64) * c[None, :]
    tl.store(out + row, tl.sum(total, axis=1), mask=row < n)
