"""Histograms of scores, from which maps of scores are fitted without keeping the scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from domaincal._typing import Array, FloatArray, IntArray
from domaincal.kernels.bins import bin_index

# Scores are resolved down to this distance from 0 and from 1, as a power of two.
_SMALLEST = -30
# Bins for each factor of two of the distance from 0 or 1: a bin is at most 0.02% of it wide.
_BINS_PER_OCTAVE = 8192
_LEAST_PER_OCTAVE = 16
# Bins of all maps together.
_MOST_BINS = 1 << 21


def fine_edges(n_maps: int) -> FloatArray:
    """Edges of fine bins on [0, 1], with the same relative width near 0 and near 1.

    With many maps, which each have their own sums, the bins are wider.

    Examples
    --------
    >>> edges = fine_edges(1)
    >>> len(edges), edges[0].item(), edges[-1].item()
    (475139, 0.0, 1.0)
    """
    octaves = np.arange(_SMALLEST, -1)
    most = _MOST_BINS // (2 * len(octaves) * n_maps)
    per_octave = min(_BINS_PER_OCTAVE, max(_LEAST_PER_OCTAVE, most))
    steps = 1.0 + np.arange(per_octave) / per_octave
    low = (2.0 ** octaves[:, None] * steps).ravel()
    return np.concatenate([[0.0], low, [0.5], 1.0 - low[::-1], [1.0]])


@dataclass(frozen=True, eq=False)
class ScoreSums:
    """Number of rows, sum of scores and number of hits in each bin of each map.

    Attributes
    ----------
    edges : array of shape (n_bins + 1,)
    n, scores, hits : arrays of shape (n_maps, n_bins)

    Examples
    --------
    >>> import numpy as np
    >>> sums = ScoreSums.zeros(np.array([0.0, 0.5, 1.0]), 1)
    >>> sums.add_rows(np.array([0.5, 0.6, 0.8]), np.array([True, False, True]))
    >>> [values.tolist() for values in sums.weighted_rows(0)]
    [[0.5, 0.7, 0.7], [True, True, False], [1.0, 1.0, 1.0]]
    """

    edges: FloatArray
    n: FloatArray
    scores: FloatArray
    hits: FloatArray

    @classmethod
    def zeros(cls, edges: FloatArray, n_maps: int) -> ScoreSums:
        """Sums of no rows."""
        shape = (n_maps, len(edges) - 1)
        return cls(edges, np.zeros(shape), np.zeros(shape), np.zeros(shape))

    def __add__(self, other: ScoreSums) -> ScoreSums:
        return ScoreSums(
            self.edges, self.n + other.n, self.scores + other.scores, self.hits + other.hits
        )

    def add_rows(self, scores: FloatArray, hits: Array, maps: IntArray | None = None) -> None:
        """Add rows in place; ``maps`` holds the number of the map of each score."""
        index = bin_index(scores, self.edges)
        if maps is not None:
            index += maps * self.n.shape[1]
        for total, values in ((self.n, 1.0), (self.scores, scores), (self.hits, hits)):
            np.add.at(total.reshape(-1), index, values)

    def weighted_rows(self, k: int) -> tuple[FloatArray, Array, FloatArray]:
        """Scores, hits and weights of few rows with the sums of map k.

        A bin has at most two of them, for its hits and its misses, both at its mean score.
        """
        full = self.n[k] > 0
        n, hits = self.n[k][full], self.hits[k][full]
        # Rounding must not move the mean to another bin.
        low, high = np.nextafter(self.edges[:-1], 2.0)[full], self.edges[1:][full]
        low[self.edges[:-1][full] == 0.0] = 0.0
        mean = np.clip(self.scores[k][full] / n, low, high)
        scores, weight = np.tile(mean, 2), np.concatenate([hits, n - hits])
        is_hit = np.repeat([True, False], len(n))
        kept = weight > 0
        order = np.argsort(scores[kept], kind="stable")
        return scores[kept][order], is_hit[kept][order], weight[kept][order]
