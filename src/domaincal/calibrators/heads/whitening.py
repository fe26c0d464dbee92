"""Whitened features for Huber's regression: an array, or a tensor on a device."""

import warnings
from typing import Any, Protocol

import numpy as np
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import HuberRegressor

from domaincal._tensors import TensorRows
from domaincal._typing import Array, FloatArray
from domaincal.kernels import torch_kernels
from domaincal.statistics.normal_equations import feature_blocks

_MAX_ITER = 1000


class White(Protocol):
    """Rows in a basis in which they are uncorrelated."""

    def times(self, coef: FloatArray) -> FloatArray:
        """``white @ coef``."""
        ...

    def sums(self, values: FloatArray) -> FloatArray:
        """``values @ white``."""
        ...

    def huber(
        self,
        t: FloatArray,
        weight: FloatArray | None,
        *,
        epsilon: float,
        intercept: bool,
        tol: float,
    ) -> tuple[FloatArray, float]:
        """Coefficients and intercept; ValueError where the solver finds no better point."""
        ...


class WhiteArray:
    """On the host, by scikit-learn."""

    def __init__(self, x: Array, centre: FloatArray, basis: FloatArray) -> None:
        self._rows = (x - centre) @ basis

    def times(self, coef: FloatArray) -> FloatArray:
        """``white @ coef``."""
        return np.asarray(self._rows @ coef)

    def sums(self, values: FloatArray) -> FloatArray:
        """``values @ white``."""
        return np.asarray(values @ self._rows)

    def huber(
        self,
        t: FloatArray,
        weight: FloatArray | None,
        *,
        epsilon: float,
        intercept: bool,
        tol: float,
    ) -> tuple[FloatArray, float]:
        """Coefficients and intercept."""
        # Without warm_start, which in scikit-learn 1.9 lets an intercept in that was not asked for.
        regressor = HuberRegressor(
            epsilon=epsilon, alpha=0.0, fit_intercept=intercept, max_iter=_MAX_ITER, tol=tol
        )
        regressor.fit(self._rows, t, sample_weight=weight)
        return regressor.coef_, float(regressor.intercept_)


class WhiteTensor:
    """On a device: the same steps of the same solver, which sees sums over the rows."""

    def __init__(self, x: TensorRows, centre: FloatArray, basis: FloatArray) -> None:
        self._x = x
        there, onto = x.send(centre), x.send(basis)
        self._rows = x.tensor.new_empty((len(x), basis.shape[1]), dtype=onto.dtype)
        for block in feature_blocks(*x.shape, device=True):
            self._rows[block] = (x.tensor[block].double() - there) @ onto

    def times(self, coef: FloatArray) -> FloatArray:
        """``white @ coef``."""
        return torch_kernels.linear_values(self._rows, self._x.send(coef))

    def sums(self, values: FloatArray) -> FloatArray:
        """``values @ white``."""
        return torch_kernels.linear_values(self._rows.T, self._x.send(values))

    def huber(
        self,
        t: FloatArray,
        weight: FloatArray | None,
        *,
        epsilon: float,
        intercept: bool,
        tol: float,
    ) -> tuple[FloatArray, float]:
        """Coefficients and intercept, by the steps of scikit-learn's HuberRegressor."""
        n_coef = self._rows.shape[1]
        target = self._x.send(t)
        w = self._x.send(np.ones(len(t)) if weight is None else weight)

        def loss(parameters: FloatArray) -> tuple[float, FloatArray]:
            constant = float(parameters[n_coef]) if intercept else 0.0
            value, slope, of_constant, of_scale = torch_kernels.huber_loss(
                self._rows, target, w, self._x.send(parameters[:n_coef]), constant,
                scale=float(parameters[-1]), epsilon=epsilon,
            )  # fmt: skip
            return value, np.array([*slope, *([of_constant] if intercept else []), of_scale])

        start = np.zeros(n_coef + 1 + intercept)
        start[-1] = 1.0
        bounds: list[tuple[Any, Any]] = [(None, None)] * (len(start) - 1)
        bounds.append((10 * float(np.finfo(np.float64).eps), None))
        found = minimize(
            loss, start, method="L-BFGS-B", jac=True, bounds=bounds,
            options={"maxiter": _MAX_ITER, "gtol": tol},
        )  # fmt: skip
        if found.status == 2:
            raise ValueError(f"convergence failed: {found.message}")
        if found.status == 1:
            warnings.warn(f"Huber's regression: {found.message}", ConvergenceWarning, stacklevel=2)
        return found.x[:n_coef], float(found.x[n_coef]) if intercept else 0.0
