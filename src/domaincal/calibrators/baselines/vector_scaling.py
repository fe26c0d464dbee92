"""Vector scaling: a factor and an offset for the logits of each class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import minimize

from domaincal._tensors import host_array
from domaincal._typing import Array, ArrayLike, FloatArray
from domaincal._validation import non_finite_logits_error
from domaincal.calibrators.base import Calibrator, RowValues
from domaincal.calibrators.inputs import TrainingRows
from domaincal.calibrators.softmax import logit_blocks, probability_dtype
from domaincal.calibrators.temperature import fit_pooled_temperature
from domaincal.statistics.blas_threads import one_blas_thread
from domaincal.statistics.blocks import Workers, row_blocks

#: Factor of the penalty, in rows: it counts as much as the NLL of this many rows.
PENALTY = 1.0

# Size of the float64 logits that are computed at a time.
_BLOCK_BYTES = 1 << 22
#: Products of a factor and a logit are limited to this size, so that they stay finite.
LARGEST_LOGIT = 1e300


class VectorScaling(Calibrator):
    """Vector scaling (Guo et al. 2017): ``softmax(a * z + b)`` with an a and a b for each class.

    ``z`` are the logits of a row minus their mean, so that a constant that is added to all logits
    of a row changes nothing. Unlike a temperature, a and b correct classes that are predicted too
    often or too rarely. They may change which class has the largest probability;
    ``predict_confidence`` stays the probability of the argmax of the logits.

    Attributes
    ----------
    coef_, intercept_ : array of shape (n_classes,)
        a and b.
    temperature_ : float
        T of :class:`TemperatureScaling`, towards which the penalty pulls: a = 1 / T, b = 0.
    n_iter_ : int
        Number of iterations.
    n_classes_ : int
        Number of classes.
    class_names_ : tuple of str or None
        Names of the classes, if the data of the fit had names.

    Notes
    -----
    a and b minimise the sum of the NLL over all rows plus a small penalty::

        1/2 sum_k [ s^2 (a_k - 1/T)^2 + b_k^2 ]

    where s is the mean standard deviation of the logits of a row. Without it there is no minimum if
    a class never occurs (its b would tend to minus infinity) or if the classes can be separated.
    The penalty does not grow with the number of rows, and so vanishes against the NLL of many.

    References
    ----------
    Guo et al., On Calibration of Modern Neural Networks, ICML 2017.

    Examples
    --------
    >>> from domaincal import VectorScaling, make_multi_domain
    >>> data, _ = make_multi_domain(n_domains=4, random_state=0)
    >>> calibrator = VectorScaling().fit(data)
    >>> calibrator.coef_.shape, calibrator.predict_proba(data).shape == data.logits.shape
    ((10,), True)
    """

    coef_: FloatArray
    intercept_: FloatArray
    temperature_: float
    n_iter_: int

    def _learn(self, rows: TrainingRows) -> None:
        # Every iteration reads all logits: those of a device are copied once.
        rows = replace(rows, logits=host_array(rows.logits))
        pooled = fit_pooled_temperature(rows)
        temperature, scale = float(pooled.temperature[0]), float(pooled.scale[0])
        unit = scale if scale > 0 else 1.0
        n_classes = rows.logits.shape[1]
        start = np.concatenate([np.full(n_classes, unit / temperature), np.zeros(n_classes)])
        objective = PenalisedLoss(rows, unit, start)
        found, n_iter = minimise(objective, start)
        self.coef_ = found[:n_classes] / unit
        self.intercept_ = found[n_classes:].copy()
        self.temperature_ = temperature
        self.n_iter_ = n_iter

    def _prepare(
        self, logits: Array, features: ArrayLike | None, domains: ArrayLike | None
    ) -> RowValues:
        return ()

    def _confidences(self, logits: Array, values: RowValues) -> FloatArray:
        def block_confidences(block: slice) -> FloatArray:
            z = np.asarray(logits[block])
            p = self._block_probabilities(z)
            return np.asarray(p[np.arange(len(p)), np.argmax(z, axis=1)])

        with Workers() as workers:
            out = np.concatenate([*workers.map(block_confidences, logit_blocks(logits))])
        if np.isnan(out).any():
            raise non_finite_logits_error(logits)
        return out

    def _probabilities(self, logits: Array, values: RowValues) -> Array:
        out = np.empty(logits.shape, probability_dtype(logits))

        def fill(block: slice) -> None:
            out[block] = self._block_probabilities(np.asarray(logits[block]))

        with Workers() as workers:
            list(workers.map(fill, logit_blocks(logits)))
        if np.isnan(out).any():
            raise non_finite_logits_error(logits)
        return out

    def _block_probabilities(self, logits: Array) -> FloatArray:
        """Probabilities of a block of rows; NaN for rows that are not finite."""
        with np.errstate(over="ignore", invalid="ignore"):
            z = _centred(logits) * self.coef_
            z = np.clip(z, -LARGEST_LOGIT, LARGEST_LOGIT) + self.intercept_
            p = np.exp(z - z.max(axis=1, keepdims=True))
        return np.asarray(p / p.sum(axis=1, keepdims=True))

    def _torch_module(self) -> Any:
        from domaincal.calibrators.baselines.vector_module import VectorModule

        return VectorModule(type(self).__name__, self.coef_, self.intercept_)

    def _facts(self) -> dict[str, str]:
        return {
            "pooled temperature": f"{self.temperature_:.4g}",
            "factors": f"{self.coef_.min():.4g} to {self.coef_.max():.4g}",
            "offsets": f"{self.intercept_.min():.4g} to {self.intercept_.max():.4g}",
        }


class PenalisedLoss:
    """Mean NLL plus penalty, and its derivatives, as a function of (unit * a, b).

    Parameters
    ----------
    rows : TrainingRows
    unit : float
        Unit of the logits: factors are multiplied by it.
    centre : array of shape (2 * n_classes,)
        Values towards which the penalty pulls.
    """

    def __init__(self, rows: TrainingRows, unit: float, centre: FloatArray) -> None:
        self._rows, self._unit, self._centre = rows, unit, centre
        n_rows = len(rows.labels)
        total = float(n_rows) if rows.weight is None else float(rows.weight.sum())
        self._share = np.full(n_rows, 1.0 / n_rows) if rows.weight is None else rows.weight / total
        self._penalty = PENALTY / total

    def __call__(self, parameters: FloatArray) -> tuple[float, FloatArray]:
        """Value and gradient."""
        sums = self._sum(self._block_gradient, parameters)
        away = parameters - self._centre
        value = float(sums[0] + 0.5 * self._penalty * (away @ away))
        return value, np.asarray(sums[1:] + self._penalty * away)

    def hessian(self, parameters: FloatArray) -> FloatArray:
        """Second derivatives."""
        second = self._sum(self._block_hessian, parameters)
        second[np.diag_indices_from(second)] += self._penalty
        return second

    def _sum(
        self, of_block: Callable[[slice, FloatArray], FloatArray], parameters: FloatArray
    ) -> FloatArray:
        logits = self._rows.logits
        blocks = row_blocks(len(logits), 8 * logits.shape[1], _BLOCK_BYTES)
        with Workers() as workers, one_blas_thread():
            return np.asarray(workers.sum(lambda block: of_block(block, parameters), blocks))

    def _softmax(
        self, block: slice, parameters: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Centred logits in their unit, probabilities and NLL of the rows of a block."""
        a, b = np.split(parameters, 2)
        x = _centred(np.asarray(self._rows.logits[block])) / self._unit
        z = x * a + b
        z -= z.max(axis=1, keepdims=True)
        of_label = z[np.arange(len(z)), self._rows.labels[block]]
        p = np.exp(z)
        norm = p.sum(axis=1)
        p /= norm[:, None]
        return x, p, np.log(norm) - of_label

    def _block_gradient(self, block: slice, parameters: FloatArray) -> FloatArray:
        """Weighted sums of the NLL and of its gradient over the rows of a block."""
        x, p, nll = self._softmax(block, parameters)
        share = self._share[block]
        p[np.arange(len(p)), self._rows.labels[block]] -= 1.0  # the derivative of the NLL in z
        p *= share[:, None]
        return np.concatenate([[share @ nll], np.einsum("ij,ij->j", p, x), p.sum(axis=0)])

    def _block_hessian(self, block: slice, parameters: FloatArray) -> FloatArray:
        """Weighted sum of ``J' (diag(p) - p p') J`` over the rows, with ``J = (diag(x), 1)``."""
        x, p, _ = self._softmax(block, parameters)
        share = self._share[block]
        products = np.concatenate([p * x, p], axis=1) * np.sqrt(share)[:, None]
        second = -(products.T @ products)
        n, index = x.shape[1], np.arange(x.shape[1])
        p *= share[:, None]
        mixed = np.einsum("ij,ij->j", p, x)
        second[index, index] += np.einsum("ij,ij,ij->j", p, x, x)
        second[index, n + index] += mixed
        second[n + index, index] += mixed
        second[n + index, n + index] += p.sum(axis=0)
        return np.asarray(second)


def minimise(loss: PenalisedLoss, start: FloatArray) -> tuple[FloatArray, int]:
    """Parameters with the smallest loss, and the number of iterations of L-BFGS."""
    found = minimize(
        loss, start, jac=True, method="L-BFGS-B",
        options={"gtol": 1e-10, "ftol": 0.0, "maxiter": 2000, "maxfun": 4000, "maxcor": 20},
    )  # fmt: skip
    # L-BFGS stops when the loss no longer changes. The gradient has more digits left: one step of
    # Newton's method makes the result independent of the path to it.
    # Large weights can make the penalty negligible, and the second derivatives singular.
    step = np.linalg.lstsq(loss.hessian(found.x), found.jac, rcond=1e-12)[0]
    last = found.x - step
    is_better = np.linalg.norm(loss(last)[1]) < np.linalg.norm(found.jac)
    return (last if is_better else found.x), int(found.nit)


def _centred(logits: Array) -> FloatArray:
    """Logits minus the mean of their row, in float64."""
    z = logits.astype(np.float64)
    z -= z.max(axis=1, keepdims=True)  # the sum of large logits could overflow
    return np.asarray(z - z.mean(axis=1, keepdims=True))
