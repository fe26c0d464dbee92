"""Normal equations from float32 products of blocks, added to float64 totals.

A float32 product takes half the time of a float64 one. Its rounding errors change the solution of
the equations by a relative error of about ``1e-8 * cond(X)**2``: the solution is refined with
residuals in float64.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import blas

from domaincal._typing import Array, FloatArray, IntArray
from domaincal.kernels import dispatch

#: Rows of a float32 product: with more, its rounding errors grow; with fewer, the addition of the
#: products to the total takes as long as the products. 4 MB for 512 features.
PRODUCT_ROWS = 2048
# Mean square of the largest feature below which squares of features that count can underflow:
# singular values of 1e-6 of the largest are used, and float32 has normal numbers from 1e-38 on.
_SMALLEST_SQUARE = 1e-24
_TILE = 128


class SingleProducts:
    """Sums of rows about a point: Gram matrix, moments and weight of each domain.

    Parameters
    ----------
    n_domains : int
    near : array, shape (n_features,)
        Subtracted from the features in float64, before they are rounded to float32. A point near
        the mean makes the products small, and so their errors.
    """

    def __init__(self, n_domains: int, near: FloatArray) -> None:
        n_features = len(near)
        self._near = near
        self._gram = np.zeros((n_features, n_features), order="F")  # only the upper triangle
        self._moments = np.zeros((n_domains, n_features))
        self._weight = np.zeros(n_domains)
        self._rows = np.empty((PRODUCT_ROWS, n_features), np.float32)
        self._n_rows = 0  # rows that wait for their product
        self._n_added = 0

    def add(self, x: Array, domain: IntArray, weight: FloatArray | None) -> None:
        """Add rows; ``domain`` holds the code of the domain of each."""
        self._n_added += len(x)
        self._weight += np.bincount(domain, weight, minlength=len(self._weight))
        start = 0
        while start < len(x):
            stop = min(start + PRODUCT_ROWS - self._n_rows, len(x))
            end = self._n_rows + stop - start
            dispatch.shift_rows(
                x[start:stop], self._near, domain[start:stop],
                None if weight is None else weight[start:stop],
                out=self._rows[self._n_rows : end], moments=self._moments,
            )  # fmt: skip
            self._n_rows, start = end, stop
            if end == PRODUCT_ROWS:
                self._add_product()

    def _add_product(self) -> None:
        if self._n_rows:
            product = blas.ssyrk(1.0, self._rows[: self._n_rows].T)
            with np.errstate(over="ignore", invalid="ignore"):  # the caller detects it
                self._gram += product
            self._n_rows = 0

    def about(self, shift: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Gram matrix, moments and weight of the rows minus ``shift``, in float64.

        They are not finite if the squares of the features overflow or underflow in float32.
        """
        self._add_product()
        gram, moments, weight = self._gram, self._moments, self._weight
        if self._n_added and gram.diagonal().max() < _SMALLEST_SQUARE * self._n_added:
            gram.fill(np.nan)
        apart = self._near - shift
        if apart.any():
            centre = moments.sum(axis=0) + 0.5 * weight.sum() * apart
            gram = blas.dsyr2(1.0, centre, apart, a=gram, overwrite_a=1)
            moments += weight[:, None] * apart
        _mirror(gram)
        return gram, moments, weight


def _mirror(matrix: FloatArray) -> None:
    """Copy the upper triangle to the lower one; by tiles, which the cache holds."""
    for start in range(0, len(matrix), _TILE):
        stop = start + _TILE
        matrix[stop:, start:stop] = matrix[start:stop, stop:].T
        tile = matrix[start:stop, start:stop]
        tile += np.triu(tile, 1).T
