"""Huber regression on whitened features, in a numpy array or in a tensor on a device."""

from typing import Any, Protocol

import numpy as np
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import HuberRegressor

from domaincal._tensors import DeviceArray
from domaincal._typing import Array, FloatArray
from domaincal._warnings import warn_caller
from domaincal.kernels import torch_kernels
from domaincal.statistics.normal_equations import feature_blocks

_MAX_ITER = 1000


class WhitenedRows(Protocol):
    """Rows of the matrix ``W = (features - centre) @ basis``, whose columns are uncorrelated."""

    def product(self, coef: FloatArray) -> FloatArray:
        """``W @ coef``."""
        ...

    def transposed_product(self, values: FloatArray) -> FloatArray:
        """``values @ W``."""
        ...

    def fit_huber(
        self,
        t: FloatArray,
        weight: FloatArray | None,
        *,
        epsilon: float,
        intercept: bool,
        tol: float,
    ) -> tuple[FloatArray, float]:
        """Coefficients and intercept; raises ValueError if the solver does not converge."""
        ...


class WhitenedArray:
    """Whitened rows on the host; Huber regression by scikit-learn."""

    def __init__(self, x: Array, centre: FloatArray, basis: FloatArray) -> None:
        self._rows = (x - centre) @ basis

    def product(self, coef: FloatArray) -> FloatArray:
        """``W @ coef``."""
        return np.asarray(self._rows @ coef)

    def transposed_product(self, values: FloatArray) -> FloatArray:
        """``values @ W``."""
        return np.asarray(values @ self._rows)

    def fit_huber(
        self,
        t: FloatArray,
        weight: FloatArray | None,
        *,
        epsilon: float,
        intercept: bool,
        tol: float,
    ) -> tuple[FloatArray, float]:
        """Coefficients and intercept, by scikit-learn's HuberRegressor."""
        # warm_start is off: in scikit-learn 1.9 it adds an intercept despite fit_intercept=False.
        regressor = HuberRegressor(
            epsilon=epsilon, alpha=0.0, fit_intercept=intercept, max_iter=_MAX_ITER, tol=tol
        )
        regressor.fit(self._rows, t, sample_weight=weight)
        return regressor.coef_, float(regressor.intercept_)


class WhitenedTensor:
    """Whitened rows on a device; Huber regression by the solver that scikit-learn uses.

    The loss and its gradient are sums over the rows, computed on the device.
    """

    def __init__(self, x: DeviceArray, centre: FloatArray, basis: FloatArray) -> None:
        self._x = x
        device_centre, device_basis = x.send(centre), x.send(basis)
        self._rows = x.tensor.new_empty((len(x), basis.shape[1]), dtype=device_basis.dtype)
        for block in feature_blocks(*x.shape, device=True):
            self._rows[block] = (x.tensor[block].double() - device_centre) @ device_basis

    def product(self, coef: FloatArray) -> FloatArray:
        """``W @ coef``."""
        return torch_kernels.linear_values(self._rows, self._x.send(coef))

    def transposed_product(self, values: FloatArray) -> FloatArray:
        """``values @ W``."""
        return torch_kernels.linear_values(self._rows.T, self._x.send(values))

    def fit_huber(
        self,
        t: FloatArray,
        weight: FloatArray | None,
        *,
        epsilon: float,
        intercept: bool,
        tol: float,
    ) -> tuple[FloatArray, float]:
        """Coefficients and intercept, by the same steps as scikit-learn's HuberRegressor."""
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
            warn_caller(f"Huber's regression: {found.message}", ConvergenceWarning)
        return found.x[:n_coef], float(found.x[n_coef]) if intercept else 0.0
