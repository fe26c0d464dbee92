"""Divergence of two samples over the temperatures of a grid (section 5 of the paper)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from domaincal._tensors import host_array
from domaincal._typing import Array, ArrayLike, FloatArray
from domaincal._validation import check_logits, check_sample_weight
from domaincal.calibrators.softmax import confidences_at
from domaincal.errors import InputError

#: The default grid, in multiples of the pooled temperature: from 1/4 to 4 in steps of 2^(1/4).
GRID: FloatArray = 2.0 ** (np.arange(-8, 9) / 4)


@dataclass(frozen=True)
class Divergence:
    """Where two samples differ most.

    Attributes
    ----------
    value : float
        Largest difference of the shares of rows with a gap |h_T - h_T'| of at most t; 0 to 1.
    temperatures : pair of float
        T and T' at which it occurs.
    threshold : float
        The gap t at which it occurs.

    Examples
    --------
    >>> divergence([[0.0, 0.0]], [[4.0, 0.0]], [1.0, 2.0])
    Divergence(value=1.0, temperatures=(1.0, 2.0), threshold=0.0)
    """

    value: float
    temperatures: tuple[float, float]
    threshold: float


def divergence(
    first: ArrayLike,
    second: ArrayLike,
    temperatures: ArrayLike,
    *,
    first_weight: ArrayLike | None = None,
    second_weight: ArrayLike | None = None,
) -> Divergence:
    """Divergence d of two samples over H-bar, for the maps h_T of a grid of temperatures.

    d is the largest difference ``|P(A) - P'(A)|`` over the sets ``A = {x : |h_T(x) - h_T'(x)| <=
    t}`` for all pairs of temperatures of the grid and all t. For a pair, this is the two-sample
    Kolmogorov-Smirnov statistic of the gaps |h_T - h_T'|. It is exact, and takes O(n log n) for
    each pair. More temperatures never make it smaller.

    Parameters
    ----------
    first, second : arrays of shape (n, n_classes) and (m, n_classes)
        Logits of the two samples.
    temperatures : array of at least two temperatures
        The grid, for example ``GRID`` times the pooled temperature.
    first_weight, second_weight : arrays of shape (n,) and (m,), optional
        Weights of the rows, for example those of a mixture of domains.

    Examples
    --------
    >>> import numpy as np
    >>> close, far = np.array([[0.1, 0.0], [0.2, 0.0]]), np.array([[2.0, 0.0], [3.0, 0.0]])
    >>> found = divergence(close, far, [1.0, 2.0])
    >>> found.value, found.temperatures
    (1.0, (1.0, 2.0))
    >>> divergence(close, close, [1.0, 2.0]).value
    0.0
    """
    z = check_logits(first), check_logits(second)
    if z[0].shape[1] != z[1].shape[1]:
        raise InputError(
            f"first has {z[0].shape[1]} classes and second {z[1].shape[1]}; pass logits of the "
            "same model."
        )
    grid = check_grid(temperatures)
    shares = []
    for rows, weight, sign in zip(z, (first_weight, second_weight), (1.0, -1.0), strict=True):
        w = check_sample_weight(weight, n_rows=len(rows))
        w = np.ones(len(rows)) if w is None else w
        shares.append(sign * w / w.sum())
    difference = np.concatenate(shares)
    confidence = np.hstack([grid_confidences(rows, grid) for rows in z])
    best = Divergence(0.0, (float(grid[0]), float(grid[1])), 0.0)
    for a, b in combinations(range(len(grid)), 2):
        value, threshold = kolmogorov_smirnov(np.abs(confidence[a] - confidence[b]), difference)
        if value > best.value:
            best = Divergence(value, (float(grid[a]), float(grid[b])), threshold)
    return best


def kolmogorov_smirnov(values: FloatArray, difference: FloatArray) -> tuple[float, float]:
    """Largest absolute sum of ``difference`` over values up to t, and the first such t.

    ``difference`` is the share of a row in the first sample, or minus that in the second.
    """
    order = np.argsort(values)
    ordered = values[order]
    sums = np.abs(np.cumsum(difference[order]))
    # Only between different values: rows with the same value are below a threshold together.
    sums[:-1][ordered[:-1] == ordered[1:]] = 0.0
    at = int(np.argmax(sums))
    return min(float(sums[at]), 1.0), float(ordered[at])


def grid_confidences(logits: Array, grid: FloatArray) -> FloatArray:
    """Confidence of each row at each temperature, shape (n_temperatures, n)."""
    return np.stack([host_array(confidences_at(logits, 1.0 / grid[[k]])) for k in range(len(grid))])


def check_grid(temperatures: ArrayLike) -> FloatArray:
    """Check at least two different temperatures; returns them in order."""
    grid = np.asarray(temperatures, np.float64)
    valid = grid.ndim == 1 and len(grid) > 1 and ((grid > 0) & np.isfinite(grid)).all()
    if not valid or len(np.unique(grid)) < len(grid):
        raise InputError(
            "temperatures must be at least two different positive, finite numbers, got "
            f"{temperatures!r}."
        )
    return np.sort(grid)
