"""Heads of MD-TS: regressions from the features of rows to the target of their domain."""

from domaincal.calibrators._heads.huber import fit_huber
from domaincal.calibrators._heads.kernel import KernelMap, fit_kernel
from domaincal.calibrators._heads.linear import fit_ols, fit_ridge
from domaincal.calibrators._heads.neighbours import NeighbourMap, fit_neighbours
from domaincal.calibrators._heads.problem import HeadFit, HeadProblem
from domaincal.calibrators._heads.regressor import RegressorMap, fit_regressor

__all__ = [
    "HeadFit",
    "HeadProblem",
    "KernelMap",
    "NeighbourMap",
    "RegressorMap",
    "fit_huber",
    "fit_kernel",
    "fit_neighbours",
    "fit_ols",
    "fit_regressor",
    "fit_ridge",
]
