"""Solve normal equations by Cholesky, or by eigenvectors if features are linearly dependent."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import scipy.linalg
from scipy.linalg import lapack

from domaincal._typing import FloatArray
from domaincal.statistics.normal_equations import LinearMap, NormalEquations
from domaincal.statistics.positive_definite import safe_blas_threads

#: Singular values of the features under this fraction of the largest count as zero.
SINGULAR_TOLERANCE = 1e-6

# Safety factor: LAPACK's estimate of a condition number can be a few times too small.
_DOUBT = 10.0
# From a random start, the power method underestimates by at most about n**(1 / 16): 1.6 for 2048.
_POWER_STEPS = 8


class LeastSquares:
    """Solver of normal equations for any targets and any ridge penalty.

    Parameters
    ----------
    equations : NormalEquations
    fit_intercept : bool, default False

    Attributes
    ----------
    mean : array, shape (n_features,)
        Mean of the shifted features; 0 without an intercept.
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
        """Point that is subtracted from the features, in their original units."""
        return self.mean + self.equations.shift

    @functools.cached_property
    def spectrum(self) -> tuple[FloatArray, FloatArray]:
        """Eigenvalues of the (centred) Gram matrix in ascending order, and eigenvectors."""
        values, vectors = scipy.linalg.eigh(self._gram, driver="evd", check_finite=False)
        return np.maximum(values, 0.0), vectors

    def condition(self, *, alpha: float = 0.0) -> float:
        """Estimated condition number of the features, at most about 1.6 times too small.

        It is the square root of that of ``gram + alpha * I``, in the 2-norm; infinite if a singular
        value counts as zero.
        """
        factor = self._factor(alpha)
        if factor is None:
            return np.inf
        largest = _norm(lambda v: self._gram @ v + alpha * v, len(factor))
        inverse = _norm(lambda v: lapack.dpotrs(factor, v, lower=1)[0], len(factor))
        return float(np.sqrt(largest * inverse))

    def solve(self, targets: FloatArray, *, alpha: float = 0.0) -> LinearMap:
        """Minimise ``sum w (x'c + b - t)**2 + alpha |c|**2``; at alpha 0, with minimum norm.

        ``targets`` has one value for each domain.
        """
        equations = self.equations
        right = targets @ equations.moments - (targets @ equations.weight) * self.mean
        return self._with_intercept(self._invert(right, alpha), targets)

    def refine(
        self, solution: LinearMap, targets: FloatArray, residual: FloatArray, *, alpha: float = 0.0
    ) -> LinearMap:
        """One step of iterative refinement with the ``residual`` of :func:`sum_residuals`.

        The residual comes from the rows, so that its error does not grow with the condition number
        of the Gram matrix: after the step, predictions are as accurate as with a QR factorisation.
        """
        step = self._invert(residual - alpha * solution.coef, alpha)
        return self._with_intercept(solution.coef + step, targets)

    def _invert(self, right: FloatArray, alpha: float) -> FloatArray:
        factor = self._factor(alpha)
        if factor is not None:
            solution, _ = lapack.dpotrs(factor, right, lower=1)
            return np.asarray(solution)
        values, vectors = self.spectrum
        # With a penalty, small eigenvalues are kept as far as they are not rounding errors.
        least = SINGULAR_TOLERANCE**2 if alpha == 0.0 else len(values) * np.finfo(np.float64).eps
        kept = values + alpha > least * values[-1]
        basis = vectors[:, kept]
        return np.asarray(basis @ ((right @ basis) / (values[kept] + alpha)))

    def _factor(self, alpha: float) -> FloatArray | None:
        """Cholesky factor of ``gram + alpha * I``; None if a singular value counts as zero."""
        if self._latest is None or self._latest[0] != alpha:
            self._latest = (alpha, None)  # free the old factor before the next is allocated
            matrix = self._gram.copy(order="F")
            diagonal = matrix.diagonal()
            # Features that are always zero get the coefficient 0, without the eigenvectors.
            added = np.where(diagonal != 0, alpha, diagonal.max() or 1.0)
            matrix[np.diag_indices_from(matrix)] += added
            norm = np.abs(matrix).sum(axis=0).max()
            with safe_blas_threads(len(matrix)):
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


def _norm(multiply: Callable[[FloatArray], FloatArray], n: int) -> float:
    """Estimate of the 2-norm of a symmetric operator, from below, by the power method."""
    vector = np.random.default_rng(0).normal(size=n)
    for _ in range(_POWER_STEPS):
        vector = multiply(vector / np.linalg.norm(vector))
    return float(np.linalg.norm(vector))
