"""Maps from a score in [0, 1] to a calibrated probability, as arrays."""

from dataclasses import dataclass

import numpy as np

from domaincal._typing import FloatArray, IntArray
from domaincal.kernels import numpy_kernels


@dataclass(frozen=True, eq=False)
class StepMap:
    """Constant in each bin ``(a, b]``; the first bin holds its left end too.

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
        """Value of each score's bin."""
        return np.asarray(self.values[numpy_kernels.bin_index(scores, self.edges)])


@dataclass(frozen=True, eq=False)
class AveragedSteps(StepMap):
    """The mean of several step maps, weighted by the posterior of each.

    Attributes
    ----------
    n_bins : array
        Number of bins of each binning.
    posterior : array
        Its weight in the mean.
    """

    n_bins: IntArray
    posterior: FloatArray


@dataclass(frozen=True, eq=False)
class LineMap:
    """Straight lines between points, constant beyond the first and the last.

    Examples
    --------
    >>> import numpy as np
    >>> LineMap(np.array([0.2, 0.6]), np.array([0.0, 1.0]))(np.array([0.1, 0.4])).tolist()
    [0.0, 0.5]
    """

    points: FloatArray
    values: FloatArray

    def __call__(self, scores: FloatArray) -> FloatArray:
        """Value on the lines."""
        return np.interp(scores, self.points, self.values)


ScoreMap = StepMap | LineMap


def edges_after(cuts: FloatArray, ordered: FloatArray) -> FloatArray:
    """Edges half-way from each cut to the next larger one of the ``ordered`` scores.

    On such an edge lies no score, whose rounding would decide on which side it is.
    """
    after = np.searchsorted(ordered, cuts, side="right")
    following = ordered[np.minimum(after, len(ordered) - 1)]
    return np.where(after < len(ordered), 0.5 * (cuts + following), cuts)
