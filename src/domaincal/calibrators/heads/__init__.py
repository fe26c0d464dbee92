"""Heads of MD-TS: regressions from the features of each row to the target of its domain."""

from __future__ import annotations

from typing import Any, Literal

from domaincal.calibrators.heads.huber import fit_huber
from domaincal.calibrators.heads.kernel_ridge import KernelMap, fit_kernel_ridge
from domaincal.calibrators.heads.linear import fit_ols, fit_ridge
from domaincal.calibrators.heads.neighbours import NeighbourMap, fit_neighbours
from domaincal.calibrators.heads.regression_problem import (
    JUDGED_FROM,
    LARGEST_FEATURE,
    SEARCH_ROWS,
    HeadFit,
    HeadProblem,
    empty_search,
)
from domaincal.calibrators.heads.regressor import RegressorMap, fit_regressor

Head = Literal["ols", "ridge", "huber", "krr", "knn"]
HEADS = ("ols", "ridge", "huber", "krr", "knn")

__all__ = [
    "HEADS",
    "JUDGED_FROM",
    "LARGEST_FEATURE",
    "SEARCH_ROWS",
    "Head",
    "HeadFit",
    "HeadProblem",
    "KernelMap",
    "NeighbourMap",
    "RegressorMap",
    "empty_search",
    "fit_head",
]


def fit_head(
    problem: HeadProblem,
    head: Head | Any,
    *,
    alpha: float | None,
    max_rows: int,
    nystroem: int | None,
) -> HeadFit:
    """Fit the head with the given name, or the given regressor, to the used domains.

    Each parameter is used only by some heads: ``alpha`` by "ridge", ``max_rows`` by "krr" and
    "knn", ``nystroem`` by "krr". "ols" and "ridge" are fitted to sums over rows; if the rows are
    read in blocks, all other heads are fitted to ``max_rows`` of them.
    """
    if problem.streamed and head not in ("ols", "ridge"):
        problem = problem.in_memory(max_rows)[0]
    if not isinstance(head, str):
        return fit_regressor(problem, head)
    if head == "ols":
        return fit_ols(problem)
    if head == "ridge":
        return fit_ridge(problem, alpha)
    if head == "huber":
        return fit_huber(problem)
    if head == "krr":
        return fit_kernel_ridge(problem, max_rows=max_rows, nystroem=nystroem)
    return fit_neighbours(problem, max_rows=max_rows)
