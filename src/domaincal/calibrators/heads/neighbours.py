"""Nearest neighbours: the mean target of the rows that look most alike."""

from dataclasses import dataclass

import numpy as np
from sklearn.neighbors import KNeighborsRegressor, NearestNeighbors

from domaincal._tensors import on_device
from domaincal._typing import Array, FeatureRows, FloatArray, IntArray
from domaincal.calibrators.heads.grid_search import deal_folds, search_candidates
from domaincal.calibrators.heads.regression_problem import (
    HeadFit,
    HeadProblem,
    device_values,
    values_of,
)
from domaincal.kernels import torch_maps
from domaincal.statistics.normal_equations import feature_blocks

#: Candidates for the number of neighbours, as far as there are rows.
NEIGHBOUR_GRID = (1, 3, 10, 30, 100, 300)
_DEFAULT = 3


@dataclass(frozen=True, eq=False)
class NeighbourMap:
    """Mean of ``targets`` over the ``n_neighbors`` rows that are nearest (Euclid).

    Among rows at the same distance scikit-learn decides; on a device, the order in the fit.
    """

    rows: Array
    targets: FloatArray
    n_neighbors: int

    def __call__(self, features: FeatureRows) -> FloatArray:
        """Value for each row."""
        first = features[:1]
        if on_device(first):
            means = torch_maps.NeighbourMeans(first.send(self.rows), first.send(self.targets))
            one = [self.n_neighbors]
            return device_values(lambda x: means(x, one)[:, 0], features, like=self.rows)
        regressor = KNeighborsRegressor(self.n_neighbors, algorithm="brute")
        regressor.fit(self.rows, self.targets)

        def predict(x: Array) -> Array:
            return np.asarray(regressor.predict(x))

        blocks = feature_blocks(*features.shape)
        return values_of(predict, features, blocks, dtype=self.rows.dtype)


def fit_neighbours(problem: HeadProblem, *, max_rows: int) -> HeadFit:
    """Nearest neighbours; their number by holding out domains."""
    rows = problem.at_most(max_rows)
    fold, n_folds = deal_folds(problem.targets)
    held_out = np.bincount(fold[problem.codes[rows]]).max() if n_folds > 1 else 0
    numbers = [k for k in NEIGHBOUR_GRID if k <= len(rows) - held_out]

    def predict(k: int, train: IntArray, test: IntArray) -> FloatArray:
        first = problem.features[:1]
        if on_device(first):
            x, t = problem.read(train), problem.targets[problem.codes[train]]
            means = torch_maps.NeighbourMeans(first.send(x), first.send(t))
            rows = problem.features[test]
            return device_values(lambda x: means(x, numbers), rows, like=x)
        search = NearestNeighbors(n_neighbors=numbers[-1], algorithm="brute")
        search.fit(problem.read(train))
        nearest = search.kneighbors(problem.read(test), return_distance=False)
        sums = np.cumsum(problem.targets[problem.codes[train]][nearest], axis=1)
        return np.stack([sums[:, n - 1] / n for n in numbers], axis=1)

    candidates = [{"n_neighbors": n} for n in numbers]
    best, table = search_candidates(
        problem, rows, candidates, predict, default=min(_DEFAULT, len(numbers) - 1)
    )
    head = NeighbourMap(problem.read(rows), problem.targets[problem.codes[rows]], numbers[best])
    return HeadFit(head, candidates[best], table, len(rows))
