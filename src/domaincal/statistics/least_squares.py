"""Solve normal equations by Cholesky, or by eigenvectors if features are linearly dependent."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from scipy.linalg import lapack

from domaincal._tensors import is_tensor
from domaincal._typing import FloatArray
from domaincal.kernels import torch_factors
from domaincal.kernels.torch_factors import DeviceFactor
from domaincal.statistics.feature_products import LinearMap
from domaincal.statistics.normal_equations import NormalEquations
from domaincal.statistics.positive_definite import safe_blas_threads

#: Singular values of the features under this fraction of the largest count as zero.
SINGULAR_TOLERANCE = 1e-6

# Safety factor: LAPACK's estimate of a condition number can be a few times too small.
_DOUBT = 10.0
# From a random start, the power method underestimates by at most about n**(1 / 16): 1.6 for 2048.
_POWER_STEPS = 8


class LeastSquares:
    """Solver of normal equations for any targets and any ridge penalty.

    A Gram matrix on a device is factorised there.

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
        self._on_device = is_tensor(self._gram)
        if fit_intercept:
            centred = torch_factors.centred if self._on_device else _centred
            self._gram = centred(self._gram, self.mean, float(equations.weight.sum()))
        self._latest: tuple[float, HostFactor | DeviceFactor | None] | None = None

    @property
    def centre(self) -> FloatArray:
        """Point that is subtracted from the features, in their original units."""
        return self.mean + self.equations.shift

    @functools.cached_property
    def spectrum(self) -> tuple[FloatArray, Any]:
        """Eigenvalues of the (centred) Gram matrix in ascending order, and eigenvectors."""
        if self._on_device:
            values, vectors = torch_factors.eigenvectors(self._gram)
        else:
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
        if isinstance(factor, DeviceFactor):
            return float(np.sqrt(factor.condition))
        largest = _norm(lambda v: self._gram @ v + alpha * v, len(self._gram))
        return float(np.sqrt(largest * _norm(factor.solve, len(self._gram))))

    def solve(self, targets: FloatArray, *, alpha: float = 0.0) -> LinearMap:
        """Minimise ``sum w (x'c + b - t)**2 + alpha |c|**2``; at alpha 0, with minimum norm.

        ``targets`` has one value for each domain.
        """
        equations = self.equations
        right = equations.weighted_moments(targets) - (targets @ equations.weight) * self.mean
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
            return factor.solve(right)
        values, vectors = self.spectrum
        # With a penalty, small eigenvalues are kept as far as they are not rounding errors.
        least = SINGULAR_TOLERANCE**2 if alpha == 0.0 else len(values) * np.finfo(np.float64).eps
        kept = values + alpha > least * values[-1]
        # The kept eigenvectors are the last ones.
        basis, values = vectors[:, len(values) - kept.sum() :], values[kept]
        if self._on_device:
            parts = torch_factors.weighted_rows(right, basis) / (values + alpha)
            return torch_factors.product(basis, parts)
        return np.asarray(basis @ ((right @ basis) / (values + alpha)))

    def _factor(self, alpha: float) -> HostFactor | DeviceFactor | None:
        """Cholesky factor of ``gram + alpha * I``; None if a singular value counts as zero."""
        if self._latest is None or self._latest[0] != alpha:
            self._latest = (alpha, None)  # free the old factor before the next is allocated
            factor: HostFactor | DeviceFactor | None
            if self._on_device:
                factor = DeviceFactor.of(torch_factors.with_penalty(self._gram, alpha))
                if factor is not None and not self._is_regular(factor, alpha):
                    factor = None
            else:
                factor = HostFactor.of(self._gram, alpha)
            self._latest = (alpha, factor)
        return self._latest[1]

    def _is_regular(self, factor: DeviceFactor, alpha: float) -> bool:
        """Whether no singular value of a matrix on a device counts as zero."""
        most = 1.0 / (_DOUBT * SINGULAR_TOLERANCE**2)
        # The trace bounds the largest eigenvalue. This spares small heads the estimate.
        if alpha > 0.0 and 1.0 + float(self._gram.trace()) / alpha < most:
            return True
        return factor.condition < most

    def _with_intercept(self, coef: FloatArray, targets: FloatArray) -> LinearMap:
        if not self.fit_intercept:
            return LinearMap(coef)
        weight = self.equations.weight
        return LinearMap(coef, float(targets @ weight / weight.sum() - self.centre @ coef))


@dataclass(frozen=True, eq=False)
class HostFactor:
    """Lower triangular Cholesky factor in host memory."""

    factor: FloatArray

    @classmethod
    def of(cls, gram: FloatArray, alpha: float) -> HostFactor | None:
        """Factor of ``gram + alpha * I``; None if a singular value counts as zero."""
        matrix = gram.copy(order="F")
        diagonal = matrix.diagonal()
        # Features that are always zero get the coefficient 0, without the eigenvectors.
        added = np.where(diagonal != 0, alpha, diagonal.max() or 1.0)
        matrix[np.diag_indices_from(matrix)] += added
        norm = np.abs(matrix).sum(axis=0).max()
        with safe_blas_threads(len(matrix)):
            factor, failed = lapack.dpotrf(matrix, lower=1, clean=0, overwrite_a=1)
        if failed:
            return None
        inverse_condition, _ = lapack.dpocon(factor, norm, uplo="L")
        return cls(factor) if inverse_condition > _DOUBT * SINGULAR_TOLERANCE**2 else None

    def solve(self, right: FloatArray) -> FloatArray:
        """Solve for one right-hand side."""
        solution, _ = lapack.dpotrs(self.factor, right, lower=1)
        return np.asarray(solution)


def _centred(gram: FloatArray, mean: FloatArray, weight: float) -> FloatArray:
    """``gram - weight * mean mean'``."""
    return gram - weight * np.outer(mean, mean)


def _norm(multiply: Callable[[FloatArray], FloatArray], n: int) -> float:
    """Estimate of the 2-norm of a symmetric operator, from below, by the power method."""
    vector = np.random.default_rng(0).normal(size=n)
    for _ in range(_POWER_STEPS):
        vector = multiply(vector / np.linalg.norm(vector))
    return float(np.linalg.norm(vector))
