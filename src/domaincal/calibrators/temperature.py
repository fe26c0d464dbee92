"""Temperature scaling: one temperature for all rows."""

import warnings
from typing import ClassVar

import numpy as np

from domaincal._typing import Array, ArrayLike, FloatArray
from domaincal.calibrators.base import LearnedTypes, TemperatureCalibrator
from domaincal.calibrators.inputs import TrainingRows
from domaincal.errors import BoundaryWarning
from domaincal.statistics import LabelledRows, TemperatureFit, fit_temperature


class TemperatureScaling(TemperatureCalibrator):
    """Temperature scaling (TS; Guo et al. 2017): ``softmax(logits / T)`` with one T.

    T minimises the negative log-likelihood exactly: the zero of its slope in ``1 / T``.

    Attributes
    ----------
    temperature_ : float
        T, which divides the logits.
    standard_error_ : float
        Standard error of log T (sandwich); NaN at a bound.
    n_iter_ : int
        Passes over all rows.
    n_classes_ : int

    Examples
    --------
    >>> from domaincal import TemperatureScaling, make_multi_domain
    >>> data, _ = make_multi_domain(n_domains=4, random_state=0)
    >>> calibrator = TemperatureScaling().fit(data)
    >>> calibrator.predict_proba(data).shape == data.logits.shape
    True
    """

    _learned: ClassVar[LearnedTypes] = {
        **TemperatureCalibrator._learned,
        "temperature_": float,
        "standard_error_": float,
        "n_iter_": int,
    }

    def _learn(self, rows: TrainingRows) -> None:
        fit = fit_pooled(rows.logits, rows.labels, rows.weight)
        self.temperature_ = float(fit.temperature[0])
        self.standard_error_ = float(fit.standard_error[0])
        self.n_iter_ = fit.n_iter

    def _facts(self) -> dict[str, str]:
        return {
            "temperature": f"{self.temperature_:.4g} "
            + (
                "(at its bound)"
                if np.isnan(self.standard_error_)
                else f"(log T ± {1.96 * self.standard_error_:.2g})"
            ),
            **super()._facts(),
        }

    def _temperatures(
        self, logits: Array, features: ArrayLike | None, domains: ArrayLike | None
    ) -> FloatArray:
        return np.array([self.temperature_])


def fit_pooled(logits: Array, labels: Array, weight: FloatArray | None) -> TemperatureFit:
    """One temperature for all rows, with a warning where the rows do not determine it."""
    fit = fit_temperature(LabelledRows(logits, labels, weight=weight))
    if fit.at_bound[0]:
        warnings.warn(
            f"temperature at its bound for all {len(labels)} rows together: T = "
            f"{fit.temperature[0]:.3g}. {why_at_bound(fit)[0]}",
            BoundaryWarning,
            stacklevel=4,
        )
    return fit


def why_at_bound(fit: TemperatureFit) -> list[str]:
    """What may be wrong with each group whose temperature is at a bound, and the cure."""
    return [
        "The logits of a row are all equal: there is nothing to calibrate."
        if not scale > 0
        else "No row is wrong, or a few logits dwarf the rest: calibrate on more rows, lift masked "
        "logits (such as -1e9) to about the smallest real one."
        if t < scale
        else "The labels contradict the logits: check the order of rows and of classes."
        for t, scale in zip(fit.temperature, fit.scale, strict=True)
    ]
