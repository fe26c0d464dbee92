"""Sums over rows of features compiled by numba: serial, without the GIL, float64 arithmetic.

Rows are float64, float32 or ``uint16`` (bits of float16). Each is converted while it is read: no
float64 copy of a block is made.
"""

from __future__ import annotations

import numpy as np

from domaincal.kernels.numba_jit import jit
from domaincal.kernels.numba_lanes import FAST, lane


@jit(fastmath=FAST)
def shift_rows(x, near, domain, weight, out, moments):  # type: ignore[no-untyped-def]
    """Write ``sqrt(w) (x - near)`` to ``out``, in float32; add ``w (x - near)`` to ``moments``.

    ``moments`` is float64, of shape (n_domains, n_features); an empty ``weight`` means 1.
    """
    n_rows, n_features = x.shape
    for i in range(n_rows):
        row = x[i]
        w = weight[i] if weight.size > 0 else 1.0
        root = np.sqrt(w)
        written = out[i]
        total = moments[domain[i]]
        for j in range(n_features):
            d = np.float64(lane(row[j])) - near[j]
            written[j] = np.float32(root * d)
            total[j] += w * d


@jit(fastmath=FAST)
def add_residuals(x, target, weight, coef, intercept, centre, out):  # type: ignore[no-untyped-def]
    """Add ``w (t - (x - centre)'coef - intercept) (x - centre)`` of each row to ``out``.

    Rows whose target is NaN are skipped; an empty ``weight`` means 1.
    """
    n_rows, n_features = x.shape
    for i in range(n_rows):
        if np.isnan(target[i]):
            continue
        row = x[i]
        value = 0.0
        for j in range(n_features):
            value += (np.float64(lane(row[j])) - centre[j]) * coef[j]
        residual = target[i] - value - intercept
        if weight.size > 0:
            residual *= weight[i]
        for j in range(n_features):
            out[j] += residual * (np.float64(lane(row[j])) - centre[j])
