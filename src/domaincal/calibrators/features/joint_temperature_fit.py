"""Joint fit of a log-temperature that is linear in the features, by the NLL of all rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg

from domaincal._typing import Array, FloatArray
from domaincal.statistics import LabelledRows, TemperatureSums, fit_temperature
from domaincal.statistics.blocks import Workers

# Largest change of the log-temperature of a row in one step.
_LONGEST_STEP = 1.0
_MAX_ITER = 50
_MAX_HALVINGS = 20
#: Steps end when the log-temperature of no row changes by more; the error is then its square.
TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class JointRows:
    """Labelled rows whose log-temperature is ``features @ coef + intercept``.

    Attributes
    ----------
    logits : array of shape (n, n_classes)
    labels : array of shape (n,)
    features : array of shape (n, n_features)
    share : array of shape (n,)
        Weight of each row; the weights sum to 1.
    """

    logits: Array
    labels: Array
    features: FloatArray
    share: FloatArray

    def select(self, chosen: Array) -> JointRows:
        """Rows of a mask, with weights that sum to 1."""
        rows = np.flatnonzero(chosen)
        share = self.share[rows]
        return JointRows(
            self.logits[rows], self.labels[rows], self.features[rows], share / share.sum()
        )

    @cached_property
    def _labelled(self) -> LabelledRows:
        """The rows, each a domain of its own."""
        n = len(self.labels)
        return LabelledRows(self.logits, self.labels, np.arange(n), n)

    def sums(self, log_temperature: FloatArray, workers: Workers | None = None) -> TemperatureSums:
        """Sums of each row."""
        return self._labelled.sums(np.exp(-log_temperature), workers=workers)

    def curvature(self, log_temperature: float) -> float:
        """Mean curvature of the NLL in log T, if all rows have the same temperature.

        Its expectation under the model, which is not negative.
        """
        beta = np.exp(-log_temperature)
        sums = self.sums(np.full(len(self.labels), log_temperature))
        return float(beta * (self.share @ sums.curvature) * beta)

    def fit_constant(self) -> tuple[FloatArray, bool]:
        """Coefficients 0 and one log-temperature, and whether the rows determine it."""
        fit = fit_temperature(LabelledRows(self.logits, self.labels, weight=self.share))
        constant = np.zeros(self.features.shape[1] + 1)
        constant[-1] = np.log(fit.temperature[0])
        return constant, not fit.at_bound[0]

    def fit(self, penalty: float, start: FloatArray) -> FloatArray:
        """Coefficients, then the intercept: minimum of ``mean NLL + penalty / 2 |coef|**2``.

        Newton's method. If the matrix of second derivatives is not positive definite, its
        expectation under the model replaces it. Steps are halved until the objective falls.
        """
        with Workers() as workers:
            return self._descend(penalty, start, workers)

    def _descend(self, penalty: float, start: FloatArray, workers: Workers) -> FloatArray:
        x = np.column_stack([self.features, np.ones(len(self.labels))])
        ridge = np.full(x.shape[1], penalty)
        ridge[-1] = 0.0
        theta = start
        u = x @ theta
        sums = self.sums(u, workers)
        objective = self._objective(sums, theta, ridge)
        for _ in range(_MAX_ITER):
            step = self._newton_step(x, u, sums, theta, ridge)
            change = x @ step
            longest = np.abs(change).max()
            if longest > _LONGEST_STEP:
                step, change = step * (_LONGEST_STEP / longest), change * (_LONGEST_STEP / longest)
            for _ in range(_MAX_HALVINGS):
                tried = self.sums(u + change, workers)
                found = self._objective(tried, theta + step, ridge)
                # Near the minimum, the objective cannot fall by more than its rounding error.
                if found <= objective + 1e-12 * abs(objective):
                    break
                step, change = 0.5 * step, 0.5 * change
            else:
                return theta
            theta, u, sums, objective = theta + step, u + change, tried, found
            if np.abs(change).max() <= TOLERANCE:
                break
        return theta

    def _objective(self, sums: TemperatureSums, theta: FloatArray, ridge: FloatArray) -> float:
        return float(self.share @ sums.nll + 0.5 * (ridge * theta) @ theta)

    def _newton_step(
        self,
        x: FloatArray,
        u: FloatArray,
        sums: TemperatureSums,
        theta: FloatArray,
        ridge: FloatArray,
    ) -> FloatArray:
        beta = np.exp(-u)
        first = -beta * sums.slope  # derivatives of the NLL of each row in log T
        expected = beta * sums.curvature * beta
        gradient = (self.share * first) @ x + ridge * theta
        for second in (expected - first, expected):
            matrix = x.T @ (x * (self.share * second)[:, None])
            # Constant features have neither slope nor curvature: a tiny ridge keeps them at 0.
            matrix[np.diag_indices_from(matrix)] += ridge + 1e-12 * np.abs(expected).max()
            try:
                return np.asarray(
                    -scipy.linalg.cho_solve(scipy.linalg.cho_factor(matrix), gradient)
                )
            except scipy.linalg.LinAlgError:
                continue
        return np.asarray(-gradient)
