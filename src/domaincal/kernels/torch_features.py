"""Sums and products of features on a device, in torch; totals are float64.

Features are tensors of shape (n, n_features). If Triton is installed, :mod:`triton_features`
reads them once, in the precision in which they are stored.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from domaincal._tensors import loaded_torch
from domaincal.kernels import torch_kernels
from domaincal.kernels.device_groups import RowGroups

# Size of the float64 copy of a block of features.
_BLOCK_BYTES = 1 << 28
#: Rows of one product of 16-bit features. With more, its rounding errors grow; with fewer, the
#: addition of the products to the total takes as long as the products.
PRODUCT_ROWS = 4096
# Products that are computed in one call.
_PRODUCTS = 16


def feature_sums(features: Any, groups: RowGroups, weight: Any = None) -> Any:
    """Weighted sum of the rows of each group, shape (n_groups, n_features).

    A row of weight 0 still makes the sum NaN if it is not finite.
    """
    torch = loaded_torch()
    fused = _fused_for(features)
    if fused is not None:
        return fused.feature_sums(features, groups, weight)
    shape = groups.n_groups, features.shape[1]
    totals = torch.zeros(shape, dtype=torch.float64, device=features.device)
    for rows in _blocks(features):
        x = features[rows].double()
        if weight is not None:
            x = x * weight[rows, None]
        if groups.codes is None:
            totals[0] += x.sum(0)
        else:
            totals.index_add_(0, groups.codes[rows], x)
    return totals


def linear_values(features: Any, coef: Any) -> Any:
    """``features @ coef`` in float64; ``coef`` has shape (n_features,) or (n_features, n_maps)."""
    torch = loaded_torch()
    fused = _fused_for(features) if coef.ndim == 1 else None
    if fused is not None:
        return fused.linear_values(features, coef)
    return torch.cat([features[rows].double() @ coef for rows in _blocks(features)])


def residual_sum(
    features: Any,
    groups: RowGroups,
    targets: Any,
    weight: Any,
    *,
    coef: Any,
    intercept: float,
    centre: Any,
) -> Any:
    """``sum w (x - centre) (t - x'c - b)``; rows of groups whose target is NaN are left out."""
    torch = loaded_torch()
    target = targets[0] if groups.codes is None else targets[groups.codes]
    residual = (target - (linear_values(features, coef) + intercept)).masked_fill_(
        target.isnan(), 0.0
    )
    if weight is not None:
        residual *= weight
    everything = RowGroups(len(features), features.device)
    total = feature_sums(features, everything, residual)[0]
    return torch.sub(total, centre * residual.sum())


def gram_matrix(features: Any, rows: Any, shift: Any, weight: Any) -> Any:
    """``sum w (x - shift) (x - shift)'`` over the given rows, from float64 products."""
    torch = loaded_torch()
    n_features = features.shape[1]
    gram = torch.zeros((n_features,) * 2, dtype=torch.float64, device=features.device)
    for block in _blocks(features[:1].expand(len(rows), -1)):
        x = features[rows[block]].double() - shift
        if weight is not None:
            x *= weight[rows[block], None].sqrt()
        gram.addmm_(x.T, x)
    return gram


def gram_of_products(features: Any, rows: Any) -> Any:
    """``sum x x'`` over the given rows of 16-bit features.

    Products of two 16-bit numbers are exact in float32, in which those of few rows are summed; the
    sums are added in float64.
    """
    torch = loaded_torch()
    n_features = features.shape[1]
    gram = torch.zeros((n_features,) * 2, dtype=torch.float64, device=features.device)
    for block in rows.split(PRODUCT_ROWS * _PRODUCTS):
        whole = len(block) // PRODUCT_ROWS * PRODUCT_ROWS
        x = features[block]
        if whole:
            gram += _products(x[:whole].view(-1, PRODUCT_ROWS, n_features)).sum(
                0, dtype=torch.float64
            )
        if whole < len(block):
            gram += _products(x[whole:].unsqueeze(0))[0]
    return gram


@functools.cache
def multiplies_16_bits(device: Any, dtype: Any) -> bool:
    """Whether the device sums products of 16-bit numbers of this dtype in float32."""
    torch = loaded_torch()
    if dtype not in (torch.float16, torch.bfloat16):
        return False
    try:
        _products(torch.zeros((1, 8, 8), dtype=dtype, device=device))
    except (RuntimeError, TypeError):  # TypeError: torch before 2.8 has no out_dtype
        return False
    return True


def _products(x: Any) -> Any:
    """``x.T @ x`` of each matrix in float32."""
    torch = loaded_torch()
    if x.is_cuda:
        return torch.bmm(x.mT, x, out_dtype=torch.float32)
    x = x.float()
    return torch.bmm(x.mT, x)


def _fused_for(features: Any) -> Any:
    """Module of the fused kernels, if they can read these features."""
    floats = features.dtype.is_floating_point and features.stride(1) == 1
    if not floats or torch_kernels.fused_kernels(features.device) is None:
        return None
    from domaincal.kernels import triton_features

    return triton_features


def _blocks(features: Any) -> Iterator[slice]:
    """Blocks of rows whose float64 copies have a bounded size."""
    n, width = features.shape
    size = max(1, _BLOCK_BYTES // (8 * width))
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))
