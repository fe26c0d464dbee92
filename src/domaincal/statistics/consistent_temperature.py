"""Temperature at which the mean confidence of each domain equals its accuracy."""

from __future__ import annotations

from typing import Any

import numpy as np

from domaincal._row_arrays import row_range, sum_over_parts
from domaincal._tensors import host_array, on_device
from domaincal._typing import Array, FloatArray, IntArray
from domaincal.kernels import dispatch, torch_kernels
from domaincal.statistics.blocks import Workers, row_blocks
from domaincal.statistics.domain_counts import domain_counts, present_domains

_ITERATIONS = 40
_TOLERANCE = 1e-7


def consistent_log_temperatures(
    logits: Array,
    labels: Array,
    domain: IntArray,
    start: FloatArray,
    *,
    reach: float,
    weight: FloatArray | None = None,
) -> FloatArray:
    """Log temperature of each domain at which its mean confidence equals its accuracy.

    The mean confidence falls with the temperature, so that the root is unique. It is searched at
    most ``reach`` from ``start``, the log temperatures of another criterion: where nearly all or
    nearly no predictions are right, the root is far away or does not exist, and the nearer end is
    returned.

    The rows may be read in blocks, once for each step of the search.
    """
    n_domains = len(start)
    total = domain_counts(domain, n_domains, weight)

    def mean(beta: FloatArray | None) -> FloatArray:
        """Mean confidence at the ``beta`` of each domain; without it, the accuracy."""
        return sum_over_parts(_value_sums, logits, labels, domain, n_domains, weight, beta) / total

    accuracy = mean(None)

    def excess(log_t: FloatArray) -> FloatArray:
        """Mean confidence minus accuracy of each domain."""
        return mean(np.exp(-log_t)) - accuracy

    low, high = start - reach, start + reach
    f_low, f_high = excess(low), excess(high)
    # Regula falsi that halves the value of an end that stays twice (Illinois).
    stayed = np.zeros(n_domains)
    # A root that is found stays: rounding would decide the next steps, which other domains need.
    found, root = np.zeros(n_domains, bool), np.asarray(start, np.float64)
    for _ in range(_ITERATIONS):
        with np.errstate(divide="ignore", invalid="ignore"):
            middle = (low * f_high - high * f_low) / (f_high - f_low)
        inside = (middle > low) & (middle < high)
        middle = np.where(found, root, np.where(inside, middle, (low + high) / 2))
        f, root = excess(middle), middle
        positive = f > 0  # the root is above
        f_high = np.where(positive & (stayed > 0), f_high / 2, f_high)
        f_low = np.where(~positive & (stayed < 0), f_low / 2, f_low)
        low, f_low = np.where(positive, middle, low), np.where(positive, f, f_low)
        high, f_high = np.where(positive, high, middle), np.where(positive, f_high, f)
        stayed = np.where(positive, 1.0, -1.0)
        found |= np.minimum(high - low, np.abs(f)) < _TOLERANCE
        if found.all():
            break
    return root


def _value_sums(
    logits: Array,
    labels: Array,
    domain: IntArray,
    n_domains: int,
    weight: FloatArray | None,
    beta: FloatArray | None,
) -> FloatArray:
    """Sum of the confidences of each domain at its ``beta``; without it, of the hits."""
    compiled = dispatch.use_compiled(logits.size)
    known = None
    if beta is not None and on_device(logits):
        found = torch_kernels.top_label(logits.tensor, logits.send(beta[domain]))[0]
        known = host_array(found)

    def values(block: slice) -> Array:
        if known is not None:
            return known[block]
        z = logits[block]
        if beta is None:
            return np.asarray(dispatch.predicted_classes(z) == labels[block])
        return dispatch.top_label(z, beta[domain[block]], compiled=compiled)[0]

    def block_sums(block: slice) -> tuple[Any, FloatArray]:
        found = values(block).astype(np.float64)
        if weight is not None:
            found = found * weight[block]
        present, codes, n_present = present_domains(domain[block], n_domains)
        return present, np.bincount(codes, found, n_present).astype(np.float64)

    sums = np.zeros(n_domains)
    blocks = row_blocks(row_range(logits), logits.shape[1] * logits.itemsize)
    with Workers() as workers:
        for present, found in workers.map(block_sums, blocks):
            sums[present] += found
    return sums
