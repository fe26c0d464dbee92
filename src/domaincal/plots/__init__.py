"""Figures of results: each function draws a computed result on matplotlib axes."""

from __future__ import annotations

from domaincal.plots.domains import (
    plot_accuracy_prediction,
    plot_domain_errors,
    plot_method_scatter,
)
from domaincal.plots.predicted_accuracy import plot_predicted_accuracy
from domaincal.plots.reliability import plot_reliability
from domaincal.plots.risk_coverage import plot_risk_coverage
from domaincal.plots.temperatures import plot_temperatures

__all__ = [
    "plot_accuracy_prediction",
    "plot_domain_errors",
    "plot_method_scatter",
    "plot_predicted_accuracy",
    "plot_reliability",
    "plot_risk_coverage",
    "plot_temperatures",
]
