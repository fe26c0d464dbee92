"""Normal equations solved: by Cholesky, or by eigenvectors where features are dependent."""

import functools
from contextlib import nullcontext

import numpy as np
import scipy.linalg
from scipy.linalg import lapack

from domaincal._typing import FloatArray
from domaincal.statistics.blocks import one_blas_thread
from domaincal.statistics.normal_equations import LinearMap, NormalEquations

#: Singular values of the features under this fraction of the largest count as zero.
SINGULAR_TOLERANCE = 1e-6

# With more, OpenBLAS aborts the process from some size on; see positive_definite.py.
_THREADED_UP_TO = 4096
# LAPACK's estimate of a condition number is seldom three times too small; this is for that.
_DOUBT = 10.0


class LeastSquares:
    """Normal equations, to be solved for any target and any ridge.

    Parameters
    ----------
    equations : NormalEquations
    fit_intercept : bool, default False

    Attributes
    ----------
    mean : array, shape (n_features,)
        Of the shifted features; 0 where there is no intercept.
    """

    def __init__(self, equations: NormalEquations, *, fit_intercept: bool = False) -> None:
        self.equations = equations
        self.fit_intercept = fit_intercept
        self.mean = equations.mean() if fit_intercept else np.zeros(len(equations.gram))
        self._gram = equations.gram
        if fit_intercept:
            self._gram = self._gram - equations.weight.sum() * np.outer(self.mean, self.mean)
        self._latest: tuple[float, FloatArray | None] | None = None

    @property
    def centre(self) -> FloatArray:
        """The point from which features count, in their own units."""
        return self.mean + self.equations.shift

    @functools.cached_property
    def spectrum(self) -> tuple[FloatArray, FloatArray]:
        """Eigenvalues of the (centred) Gram matrix, from small to large, and eigenvectors."""
        values, vectors = scipy.linalg.eigh(self._gram, driver="evd", check_finite=False)
        return np.maximum(values, 0.0), vectors

    def solve(self, targets: FloatArray, *, alpha: float = 0.0) -> LinearMap:
        """Minimise ``sum w (x'c + b - t)**2 + alpha |c|**2``; at alpha 0, of least norm.

        ``targets`` holds one number for each domain.
        """
        equations = self.equations
        right = targets @ equations.moments - (targets @ equations.weight) * self.mean
        return self._with_intercept(self._invert(right, alpha), targets)

    def refine(
        self, solution: LinearMap, targets: FloatArray, residual: FloatArray, *, alpha: float = 0.0
    ) -> LinearMap:
        """One step of iterative refinement with the ``residual`` of :func:`sum_residuals`.

        A residual summed over the rows does not carry the squared condition number of the Gram
        matrix: after the step, predictions are as good as those of an orthogonal factorisation.
        """
        step = self._invert(residual - alpha * solution.coef, alpha)
        return self._with_intercept(solution.coef + step, targets)

    def _invert(self, right: FloatArray, alpha: float) -> FloatArray:
        factor = self._factor(alpha)
        if factor is not None:
            solution, _ = lapack.dpotrs(factor, right, lower=1)
            return np.asarray(solution)
        values, vectors = self.spectrum
        # A penalty makes small values count, down to what is rounding.
        least = SINGULAR_TOLERANCE**2 if alpha == 0.0 else len(values) * np.finfo(np.float64).eps
        kept = values + alpha > least * values[-1]
        basis = vectors[:, kept]
        return np.asarray(basis @ ((right @ basis) / (values[kept] + alpha)))

    def _factor(self, alpha: float) -> FloatArray | None:
        """Cholesky's factor of ``gram + alpha``; None where some singular value counts as zero."""
        if self._latest is None or self._latest[0] != alpha:
            self._latest = (alpha, None)  # before another of its size is made
            matrix = self._gram.copy(order="F")
            matrix[np.diag_indices_from(matrix)] += alpha
            norm = np.abs(matrix).sum(axis=0).max()
            with one_blas_thread() if len(matrix) > _THREADED_UP_TO else nullcontext():
                factor, failed = lapack.dpotrf(matrix, lower=1, clean=0, overwrite_a=1)
            if not failed:
                inverse_condition, _ = lapack.dpocon(factor, norm, uplo="L")
                if inverse_condition > _DOUBT * SINGULAR_TOLERANCE**2:
                    self._latest = (alpha, factor)
        return self._latest[1]

    def _with_intercept(self, coef: FloatArray, targets: FloatArray) -> LinearMap:
        if not self.fit_intercept:
            return LinearMap(coef)
        weight = self.equations.weight
        return LinearMap(coef, float(targets @ weight / weight.sum() - self.centre @ coef))
