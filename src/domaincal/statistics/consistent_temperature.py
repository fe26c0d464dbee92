"""Temperature at which the mean confidence of each domain equals its accuracy."""

from __future__ import annotations

import numpy as np

from domaincal._tensors import host_array, on_device
from domaincal._typing import Array, FloatArray, IntArray
from domaincal.kernels import dispatch, torch_kernels
from domaincal.statistics.blocks import Workers, row_blocks

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
    """
    n_domains = len(start)
    w = np.ones(len(domain)) if weight is None else weight
    total = np.bincount(domain, w, minlength=n_domains)
    hits = np.asarray(dispatch.predicted_classes(logits) == labels, np.float64)
    accuracy = np.bincount(domain, w * hits, minlength=n_domains) / total

    def excess(log_t: FloatArray) -> FloatArray:
        """Mean confidence minus accuracy of each domain."""
        confidence = _confidences(logits, np.exp(-log_t)[domain])
        return np.bincount(domain, w * confidence, minlength=n_domains) / total - accuracy

    low, high = start - reach, start + reach
    f_low, f_high = excess(low), excess(high)
    # Regula falsi that halves the value of an end that stays twice (Illinois).
    stayed = np.zeros(n_domains)
    for _ in range(_ITERATIONS):
        with np.errstate(divide="ignore", invalid="ignore"):
            middle = (low * f_high - high * f_low) / (f_high - f_low)
        inside = (middle > low) & (middle < high)
        middle = np.where(inside, middle, (low + high) / 2)
        f = excess(middle)
        positive = f > 0  # the root is above
        f_high = np.where(positive & (stayed > 0), f_high / 2, f_high)
        f_low = np.where(~positive & (stayed < 0), f_low / 2, f_low)
        low, f_low = np.where(positive, middle, low), np.where(positive, f, f_low)
        high, f_high = np.where(positive, high, middle), np.where(positive, f_high, f)
        stayed = np.where(positive, 1.0, -1.0)
        if (np.minimum(high - low, np.abs(f)) < _TOLERANCE).all():
            break
    return np.asarray(middle)


def _confidences(logits: Array, beta: FloatArray) -> FloatArray:
    """Largest softmax probability of each row at its ``beta``."""
    if on_device(logits):
        return host_array(torch_kernels.top_label(logits.tensor, logits.send(beta))[0])
    compiled = dispatch.use_compiled(logits.size)
    with Workers() as workers:
        blocks = workers.map(
            lambda block: dispatch.top_label(logits[block], beta[block], compiled=compiled)[0],
            row_blocks(len(logits), logits.shape[1] * logits.itemsize),
        )
        return np.concatenate([*blocks])
