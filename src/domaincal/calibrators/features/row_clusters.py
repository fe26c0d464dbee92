"""Clusters of rows with similar features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.cluster import KMeans

from domaincal._typing import FloatArray, IntArray
from domaincal.statistics.blas_threads import one_blas_thread
from domaincal.statistics.blocks import row_blocks, run_in_new_thread
from domaincal.statistics.temperature_solver import MINIMUM_ROWS

# Number of starts of k-means, of which the best is taken.
_N_STARTS = 3


@dataclass(frozen=True, eq=False)
class RowClusters:
    """Centres of clusters; a row belongs to the nearest one.

    Attributes
    ----------
    centres : array of shape (n_clusters, n_features)
    """

    centres: FloatArray

    @classmethod
    def fit(cls, rows: FloatArray, n_clusters: int, random_state: int) -> RowClusters:
        """Clusters of at least 10 rows, by k-means; there may be fewer than ``n_clusters``.

        The smallest cluster is dropped and its rows join the nearest others, until all have 10.
        """
        distinct = np.unique(rows, axis=0)
        if len(distinct) <= n_clusters:
            centres = distinct
        else:
            k_means = KMeans(n_clusters, n_init=_N_STARTS, random_state=random_state)
            with one_blas_thread():
                centres = run_in_new_thread(lambda: k_means.fit(rows)).cluster_centers_
        found = cls(centres)
        while len(found.centres) > 1:
            counts = np.bincount(found(rows), minlength=len(found.centres))
            if counts.min() >= MINIMUM_ROWS:
                break
            found = cls(np.delete(found.centres, int(np.argmin(counts)), axis=0))
        return found

    def __call__(self, rows: FloatArray) -> IntArray:
        """Number of the nearest centre of each row."""
        out = np.empty(len(rows), np.int64)
        lengths = 0.5 * (self.centres**2).sum(axis=1)
        for block in row_blocks(len(rows), 8 * len(self.centres)):
            out[block] = (lengths - rows[block] @ self.centres.T).argmin(axis=1)
        return out
