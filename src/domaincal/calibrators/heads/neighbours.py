"""Nearest-neighbour head: the mean target of the rows with the most similar features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.neighbors import KNeighborsRegressor, NearestNeighbors

from domaincal._tensors import on_device
from domaincal._typing import Array, FeatureMatrix, FloatArray, IntArray
from domaincal.calibrators.heads.block_predictions import predict_blocks, predict_on_device
from domaincal.calibrators.heads.grid_search import assign_folds, search_candidates
from domaincal.calibrators.heads.regression_problem import HeadFit, HeadProblem
from domaincal.kernels import torch_maps
from domaincal.statistics.blas_threads import one_blas_thread
from domaincal.statistics.blocks import run_in_new_thread
from domaincal.statistics.feature_products import feature_blocks

#: Candidates for the number of neighbours; those above the number of rows are left out.
NEIGHBOUR_GRID = (1, 3, 10, 30, 100, 300)
# Position in the grid of the candidate taken without a search.
_DEFAULT_CANDIDATE = 3


@dataclass(frozen=True, eq=False)
class NeighbourMap:
    """Mean of ``targets`` over the ``n_neighbors`` rows with the smallest Euclidean distance.

    Ties are resolved by scikit-learn; on a device, by the order of the rows in the fit.
    """

    rows: Array
    targets: FloatArray
    n_neighbors: int

    def __call__(self, features: FeatureMatrix) -> FloatArray:
        """Predicted value of each row."""
        first = features[:1]
        if on_device(first):
            means = torch_maps.NeighbourMeans(first.send(self.rows), first.send(self.targets))
            numbers = [self.n_neighbors]
            return predict_on_device(
                lambda x: means(x, numbers)[:, 0], features, reference=self.rows
            )
        regressor = KNeighborsRegressor(self.n_neighbors, algorithm="brute")
        regressor.fit(self.rows, self.targets)

        def predict(x: Array) -> Array:
            return np.asarray(run_in_new_thread(lambda: regressor.predict(x)))

        blocks = feature_blocks(*features.shape)
        with one_blas_thread():  # scikit-learn sets the same limit, but not for several threads
            return predict_blocks(predict, features, blocks, dtype=self.rows.dtype)


def fit_neighbours(problem: HeadProblem, *, max_rows: int) -> HeadFit:
    """Fit nearest neighbours; the search chooses their number."""
    problem.check_max_rows(max_rows)
    rows = problem.subsample(max_rows)
    folds, n_folds = assign_folds(problem)
    largest_fold = np.bincount(folds[problem.codes[rows]]).max() if n_folds > 1 else 0
    numbers = [k for k in NEIGHBOUR_GRID if k <= len(rows) - largest_fold]

    def predict(k: int, train: IntArray, test: IntArray) -> FloatArray:
        return _predict_candidates(problem, train, test, numbers)

    candidates = [{"n_neighbors": n} for n in numbers]
    default = min(_DEFAULT_CANDIDATE, len(numbers) - 1)
    best, table = search_candidates(problem, rows, candidates, predict, default=default)
    head = NeighbourMap(problem.host_features(rows), problem.row_targets(rows), numbers[best])
    return HeadFit(head, candidates[best], table, len(rows))


def _predict_candidates(
    problem: HeadProblem, train: IntArray, test: IntArray, numbers: list[int]
) -> FloatArray:
    """Mean targets of the nearest ``train`` rows of each ``test`` row, for several numbers."""
    first = problem.features[:1]
    x, targets = problem.host_features(train), problem.row_targets(train)
    if on_device(first):
        means = torch_maps.NeighbourMeans(first.send(x), first.send(targets))
        return predict_on_device(
            lambda rows: means(rows, numbers), problem.features[test], reference=x
        )
    search = NearestNeighbors(n_neighbors=numbers[-1], algorithm="brute").fit(x)
    tested = problem.host_features(test)
    with one_blas_thread():
        nearest = run_in_new_thread(lambda: search.kneighbors(tested, return_distance=False))
    sums = np.cumsum(targets[nearest], axis=1)
    return np.stack([sums[:, n - 1] / n for n in numbers], axis=1)
