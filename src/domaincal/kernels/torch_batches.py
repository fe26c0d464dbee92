"""Sums over the rows of unlabelled batches on a device, in torch.

If Triton is installed, :mod:`triton_batches` computes them in one pass over the logits.
"""

from __future__ import annotations

from typing import Any

from domaincal._tensors import loaded_torch
from domaincal.kernels import torch_kernels
from domaincal.kernels.device_groups import RowGroups

#: Values of each row: those of :func:`domaincal.kernels.numpy_kernels.row_statistics`, and the
#: square of the confidence.
N_VALUES = 6
# Size of the float64 copy of a block of logits.
_BLOCK_BYTES = 1 << 26


def batch_sums(logits: Any, beta: float, groups: RowGroups, edges: Any) -> tuple[Any, Any, Any]:
    """Sums over the rows of each batch at ``beta``, as float64 tensors on the device.

    Parameters
    ----------
    logits : tensor of shape (n, n_classes)
    beta : float
        One over the temperature.
    groups : RowGroups
        Batch of each row.
    edges : float64 tensor
        Edges of equal bins of the confidence, from 0 to 1.

    Returns
    -------
    values : tensor of shape (n_batches, 6)
        NaN for a batch with a logit that is not finite.
    probabilities : tensor of shape (n_batches, n_classes)
    histogram : tensor of shape (n_batches, n_bins)
        Number of rows in each bin of the confidence.
    """
    torch, n_classes, n_bins = loaded_torch(), logits.shape[1], len(edges) - 1
    if torch_kernels.fused_for(logits) is not None:
        from domaincal.kernels import triton_batches

        sums = triton_batches.batch_sums(logits, beta, groups, n_bins)
        return tuple(sums.split([N_VALUES, n_classes, n_bins], dim=1))
    totals = [
        torch.zeros((groups.n_groups, width), dtype=torch.float64, device=logits.device)
        for width in (N_VALUES, n_classes)
    ]
    counts = torch.zeros(groups.n_groups * n_bins, dtype=torch.int64, device=logits.device)
    size = max(1, _BLOCK_BYTES // (8 * n_classes))
    for start in range(0, len(logits), size):
        rows = slice(start, start + size)
        values, p = _row_statistics(logits[rows].double(), beta)
        bins = torch.searchsorted(edges, values[:, 0].contiguous()) - 1
        bins = bins.clamp_(0, n_bins - 1)
        if groups.codes is None:
            codes = torch.zeros(len(p), dtype=torch.int64, device=logits.device)
        else:
            codes = groups.codes[rows]
        for total, terms in zip(totals, (values, p), strict=True):
            total.index_add_(0, codes, terms)
        counts += torch.bincount(codes * n_bins + bins, minlength=len(counts))
    return totals[0], totals[1], counts.double().view(-1, n_bins)


def _row_statistics(z: Any, beta: float) -> tuple[Any, Any]:
    """Values of each row, shape (n, 6), and ``softmax(beta * z)``."""
    torch = loaded_torch()
    finite = z.isfinite().all(1)
    top, second = z.topk(2, dim=1).values.T
    # The square of a masked logit must not overflow.
    d = ((z - top[:, None]) * beta).clamp_(min=-1e100)
    p = d.exp()
    norm = p.sum(1)
    p /= norm[:, None]
    confidence = torch.where(finite, 1.0 / norm, torch.nan)
    values = [
        confidence,
        norm.log() - (p * d).sum(1),
        ((top - second) * beta).clamp_(max=1e100),
        -d.mean(1),
        d.std(1, correction=0),
        confidence.square(),
    ]
    return torch.stack(values, dim=1), p
