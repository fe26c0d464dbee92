"""Sums over rows that can be added, and solvers that use only these sums."""

from __future__ import annotations

from domaincal.statistics.bin_sums import BinSums
from domaincal.statistics.error_interval import ErrorInterval
from domaincal.statistics.feature_products import LinearMap
from domaincal.statistics.least_squares import LeastSquares
from domaincal.statistics.normal_equations import NormalEquations
from domaincal.statistics.temperature_solver import TemperatureFit, solve_temperature
from domaincal.statistics.temperature_sums import LabelledRows, TemperatureSums, fit_temperature

__all__ = [
    "BinSums",
    "ErrorInterval",
    "LabelledRows",
    "LeastSquares",
    "LinearMap",
    "NormalEquations",
    "TemperatureFit",
    "TemperatureSums",
    "fit_temperature",
    "solve_temperature",
]
