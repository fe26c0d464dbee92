"""Bin sums compiled by numba: serial, without the GIL, in one pass over the confidences."""

from __future__ import annotations

from domaincal.kernels.numba_jit import jit


@jit()
def add_to_bins(confidence, hit, weight, domain, edges, out):  # type: ignore[no-untyped-def]
    """Add the weight, confidence and hit of each row to the bin ``(a, b]`` of its domain.

    ``out`` is of shape (n_domains, n_bins, 3); without ``domain`` (of size 0), all rows are in one.
    """
    n_bins = edges.size - 1
    low = edges[0]
    per_width = n_bins / (edges[n_bins] - low)
    for i in range(confidence.size):
        c = confidence[i]
        # The mean width of a bin gives a guess; comparison with the edges corrects it.
        m = min(max(int((c - low) * per_width), 0), n_bins - 1)
        while m > 0 and c <= edges[m]:
            m -= 1
        while m < n_bins - 1 and c > edges[m + 1]:
            m += 1
        w = weight[i] if weight.size > 0 else 1.0
        k = domain[i] if domain.size > 0 else 0
        out[k, m, 0] += w
        out[k, m, 1] += w * c
        out[k, m, 2] += w * hit[i]
