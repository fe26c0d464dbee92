"""Symmetric positive definite systems."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import numpy as np
import scipy.linalg

from domaincal._typing import FloatArray
from domaincal.statistics.blas_threads import one_blas_thread

#: A factorisation with two threads crashes in OpenBLAS 0.3.31 from about 16,400 rows on AVX-512
#: machines (OpenMathLib/OpenBLAS#2562). One thread takes 3.7 s for 8,000 rows and 34 s for 17,000.
THREADED_UP_TO = 4096


def solve_positive_definite(matrix: FloatArray, right: FloatArray) -> FloatArray:
    """Solve ``matrix @ x = right`` by a Cholesky factorisation, which overwrites ``matrix``.

    Examples
    --------
    >>> import numpy as np
    >>> matrix = np.array([[4.0, 2.0], [2.0, 3.0]])
    >>> solve_positive_definite(matrix, np.array([8.0, 8.0])).round(9).tolist()
    [1.0, 2.0]
    """
    with safe_blas_threads(len(matrix)):
        # The transpose is in Fortran order, so that LAPACK works in place.
        factor = scipy.linalg.cho_factor(matrix.T, lower=True, overwrite_a=True, check_finite=False)
        return np.asarray(scipy.linalg.cho_solve(factor, right, check_finite=False))


def safe_blas_threads(n_rows: int) -> AbstractContextManager[object]:
    """Context manager that limits BLAS to one thread for a large matrix."""
    return one_blas_thread() if n_rows > THREADED_UP_TO else nullcontext()
