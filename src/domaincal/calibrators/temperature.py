"""Temperature scaling: one temperature for all rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from domaincal._typing import Array, ArrayLike, FloatArray
from domaincal._warnings import warn_caller
from domaincal.calibrators.inputs import TrainingRows
from domaincal.calibrators.temperature_calibrator import TemperatureCalibrator
from domaincal.errors import BoundaryWarning
from domaincal.statistics import LabelledRows, TemperatureFit, fit_temperature


class TemperatureScaling(TemperatureCalibrator):
    """Temperature scaling (TS; Guo et al. 2017): ``softmax(logits / T)`` with one T for all rows.

    T is the exact minimum of the negative log-likelihood (NLL): the root of its slope in ``1 / T``.

    Attributes
    ----------
    temperature_ : float
        T, by which the logits are divided.
    standard_error_ : float
        Standard error of log T (sandwich estimate); NaN if T is at a bound.
    n_iter_ : int
        Number of passes over all rows.
    n_classes_ : int
        Number of classes.
    class_names_ : tuple of str or None
        Names of the classes, if the data of the fit had names.

    Examples
    --------
    >>> from domaincal import TemperatureScaling, make_multi_domain
    >>> data, _ = make_multi_domain(n_domains=4, random_state=0)
    >>> calibrator = TemperatureScaling().fit(data)
    >>> calibrator.predict_proba(data).shape == data.logits.shape
    True
    """

    _fits_blocks = True
    _fits_device_labels = True

    temperature_: float
    standard_error_: float
    n_iter_: int

    def _learn(self, rows: TrainingRows) -> None:
        fit = fit_pooled_temperature(rows)
        self.temperature_ = float(fit.temperature[0])
        self.standard_error_ = float(fit.standard_error[0])
        self.n_iter_ = fit.n_iter

    def _facts(self) -> dict[str, str]:
        at_bound = np.isnan(self.standard_error_)
        precision = "at its bound" if at_bound else f"log T ± {1.96 * self.standard_error_:.2g}"
        return {"temperature": f"{self.temperature_:.4g} ({precision})"}

    def _temperatures(
        self, logits: Array, features: ArrayLike | None, domains: ArrayLike | None
    ) -> FloatArray:
        return np.array([self.temperature_])

    def _torch_module(self) -> Any:
        from domaincal.calibrators.calibrator_module import OneTemperature

        return OneTemperature(type(self).__name__, self.n_classes_, self.temperature_)


def fit_pooled_temperature(rows: TrainingRows) -> TemperatureFit:
    """Fit one temperature to all rows; warn if it is at a bound."""
    return fit_one_temperature(LabelledRows(rows.logits, rows.labels, weight=rows.weight))


def fit_one_temperature(rows: LabelledRows) -> TemperatureFit:
    """Fit one temperature to rows of one domain; warn if it is at a bound."""
    fit = fit_temperature(rows)
    warn_of_bound(fit, len(rows.labels))
    return fit


def warn_of_bound(fit: TemperatureFit, n_rows: int) -> None:
    """Warn if the temperature of all rows is at a bound."""
    if fit.at_bound[0]:
        warn_caller(
            f"the temperature of all {n_rows} rows is at its bound: T = "
            f"{fit.temperature[0]:.3g}. {bound_reasons(fit)[0]}",
            BoundaryWarning,
        )


def bound_reasons(fit: TemperatureFit) -> list[str]:
    """Likely reason and cure for each domain, in case its temperature is at a bound."""
    return [
        "All logits of each row are equal: there is nothing to calibrate."
        if not scale > 0
        else "No row is misclassified, or a few logits are far larger than the others: add rows, "
        "or raise masked logits (such as -1e9) to about the smallest real logit."
        if t < scale
        else "The labels contradict the logits: check the order of the rows and of the classes."
        for t, scale in zip(fit.temperature, fit.scale, strict=True)
    ]
