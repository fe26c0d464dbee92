"""Cholesky factors and eigenvectors of symmetric matrices on a device, in torch and float64.

Vectors are numpy arrays. Only they and single numbers are copied between the device and the host.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from domaincal._tensors import loaded_torch
from domaincal._typing import FloatArray

# From a random start, the power method underestimates by at most about n**(1 / 16): 1.6 for 2048.
_POWER_STEPS = 8


@dataclass(frozen=True, eq=False)
class DeviceFactor:
    """Cholesky factor of a symmetric matrix.

    Attributes
    ----------
    matrix, factor : tensors of shape (n, n)
        The matrix, and its lower triangular factor.
    """

    matrix: Any
    factor: Any

    @classmethod
    def of(cls, matrix: Any) -> DeviceFactor | None:
        """Factor of a matrix; None if it is not positive definite."""
        factor, failed = loaded_torch().linalg.cholesky_ex(matrix)
        return None if int(failed) else cls(matrix, factor)

    def solve(self, right: FloatArray) -> FloatArray:
        """Solve ``matrix @ x = right``."""
        return _to_host(self._solve(_send(right, self.matrix)))

    @cached_property
    def condition(self) -> float:
        """Estimated condition number of the matrix, in the 2-norm, from below."""
        largest = self._norm(lambda vector: self.matrix @ vector)
        inverse = self._norm(self._solve)
        return float(largest * inverse)

    def _solve(self, right: Any) -> Any:
        return loaded_torch().cholesky_solve(right[:, None], self.factor)[:, 0]

    def _norm(self, multiply: Any) -> Any:
        """Estimate of the 2-norm of a symmetric operator by the power method."""
        torch = loaded_torch()
        # Signs that do not repeat: no random state of the user is changed.
        vector = torch.arange(len(self.matrix), device=self.matrix.device).double().square().cos()
        for _ in range(_POWER_STEPS):
            vector = multiply(vector / torch.linalg.vector_norm(vector))
        return torch.linalg.vector_norm(vector)


def with_penalty(matrix: Any, alpha: float) -> Any:
    """``matrix + alpha * I``; features that are always zero get the largest number instead."""
    torch = loaded_torch()
    diagonal = matrix.diagonal()
    largest = diagonal.max()
    usual = torch.where(largest != 0, largest, torch.ones_like(largest))
    return matrix + torch.diag(torch.where(diagonal != 0, alpha, usual))


def centred(matrix: Any, mean: FloatArray, weight: float) -> Any:
    """``matrix - weight * mean mean'``."""
    sent = _send(mean, matrix)
    return matrix - weight * sent[:, None] * sent


def eigenvectors(matrix: Any) -> tuple[FloatArray, Any]:
    """Eigenvalues of a symmetric matrix in ascending order, and its eigenvectors on the device."""
    values, vectors = loaded_torch().linalg.eigh(matrix)
    return _to_host(values), vectors


def weighted_rows(weights: FloatArray, rows: Any) -> FloatArray:
    """``weights @ rows``."""
    return _to_host(_send(weights, rows) @ rows)


def product(matrix: Any, vector: FloatArray) -> FloatArray:
    """``matrix @ vector``."""
    return _to_host(matrix @ _send(vector, matrix))


def _send(values: FloatArray, like: Any) -> Any:
    return loaded_torch().tensor(values, dtype=like.dtype, device=like.device)


def _to_host(tensor: Any) -> FloatArray:
    array: FloatArray = tensor.cpu().numpy()
    return array
