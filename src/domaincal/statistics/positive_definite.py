"""Large symmetric positive definite systems, tile by tile.

The Cholesky factorisation (and the symmetric product under it) of OpenBLAS, which numpy and scipy
bring along, aborts the process from about 16,400 rows on with two threads on AVX-512 machines
(OpenMathLib/OpenBLAS#2562). Tiles keep every call small, and most of the work is one plain matrix
product after another, at the same speed.
"""

from functools import partial

import numpy as np
import scipy.linalg

from domaincal._typing import FloatArray
from domaincal.statistics.blocks import Workers, one_blas_thread, row_blocks

# Far below where the trouble begins.
_SMALL = 4096
# Large enough for the products to run at full speed.
_TILE = 512


def solve_positive_definite(matrix: FloatArray, right: FloatArray) -> FloatArray:
    """Solution of ``matrix @ x = right``; a large matrix is overwritten with its Cholesky factor.

    Examples
    --------
    >>> import numpy as np
    >>> matrix = np.array([[4.0, 2.0], [2.0, 3.0]])
    >>> solve_positive_definite(matrix, np.array([8.0, 8.0])).round(9).tolist()
    [1.0, 2.0]
    """
    n = len(matrix)
    if n <= _SMALL:
        whole = scipy.linalg.cho_factor(matrix, lower=True, check_finite=False)
        return np.asarray(scipy.linalg.cho_solve(whole, right, check_finite=False))
    tiles = row_blocks(n, 1, _TILE)
    with one_blas_thread(), Workers() as workers:
        for k, own in enumerate(tiles):
            factor = np.linalg.cholesky(matrix[own, own])
            matrix[own, own] = factor
            inverse = np.linalg.inv(factor).T
            below = tiles[k + 1 :]
            list(workers.map(partial(_column, matrix, own, inverse), below))
            list(workers.map(partial(_update, matrix, own), below))

    solution = np.array(right, np.float64)
    for own in tiles:
        done = slice(0, own.start)
        known = matrix[own, done] @ solution[done]
        solution[own] = np.linalg.solve(matrix[own, own], solution[own] - known)
    for own in reversed(tiles):
        done = slice(own.stop, n)
        known = matrix[done, own].T @ solution[done]
        solution[own] = np.linalg.solve(matrix[own, own].T, solution[own] - known)
    return solution


def _column(matrix: FloatArray, own: slice, inverse: FloatArray, row: slice) -> None:
    matrix[row, own] = matrix[row, own] @ inverse


def _update(matrix: FloatArray, own: slice, row: slice) -> None:
    left = slice(own.stop, row.stop)
    matrix[row, left] -= matrix[row, own] @ matrix[left, own].T
