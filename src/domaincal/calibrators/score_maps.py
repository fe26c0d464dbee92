"""Maps from a score in [0, 1] to a calibrated probability, stored as arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from domaincal._typing import FloatArray, IntArray
from domaincal.kernels.bins import bin_index


@dataclass(frozen=True, eq=False)
class StepMap:
    """Step function: constant in each bin ``(a, b]``; the first bin includes its left edge.

    Attributes
    ----------
    edges : array of shape (n_bins + 1,)
    values : array of shape (n_bins,)

    Examples
    --------
    >>> import numpy as np
    >>> steps = StepMap(np.array([0.0, 0.5, 1.0]), np.array([0.25, 0.75]))
    >>> steps(np.array([0.5, 0.6])).tolist()
    [0.25, 0.75]
    """

    edges: FloatArray
    values: FloatArray

    def __call__(self, scores: FloatArray) -> FloatArray:
        """Value of the bin of each score."""
        return np.asarray(self.values[bin_index(scores, self.edges)])


@dataclass(frozen=True, eq=False)
class AveragedSteps(StepMap):
    """Mean of several step functions, weighted by the posterior probability of each.

    Attributes
    ----------
    edges, values : array
        Edges and values of the mean.
    n_bins : array
        Number of bins of each averaged step function.
    posterior : array
        Weight of each averaged step function.
    """

    n_bins: IntArray
    posterior: FloatArray


@dataclass(frozen=True, eq=False)
class LineMap:
    """Linear interpolation between points; constant before the first and after the last point.

    Attributes
    ----------
    points : array of shape (n_points,)
        Scores.
    values : array of shape (n_points,)
        Probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> LineMap(np.array([0.2, 0.6]), np.array([0.0, 1.0]))(np.array([0.1, 0.4])).tolist()
    [0.0, 0.5]
    """

    points: FloatArray
    values: FloatArray

    def __call__(self, scores: FloatArray) -> FloatArray:
        """Interpolated value of each score."""
        # Rounding can leave the values; points that are very close give an infinite slope.
        return np.clip(np.interp(scores, self.points, self.values), 0.0, 1.0)


ScoreMap = StepMap | LineMap


def midpoint_edges(cuts: FloatArray, ordered: FloatArray) -> FloatArray:
    """Bin edges midway between each cut and the next larger of the ``ordered`` scores.

    No score lies on such an edge, so that rounding cannot move a score to another bin.
    """
    after = np.searchsorted(ordered, cuts, side="right")
    following = ordered[np.minimum(after, len(ordered) - 1)]
    return np.where(after < len(ordered), 0.5 * (cuts + following), cuts)
