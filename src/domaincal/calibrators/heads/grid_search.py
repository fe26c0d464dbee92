"""The grid search of all heads: whole domains are held out, their NLL decides."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from domaincal._typing import FloatArray, IntArray
from domaincal.calibrators.heads.regression_problem import HeadProblem

#: Domains are held out in at most so many groups.
MAX_FOLDS = 5


def deal_folds(targets: FloatArray) -> tuple[IntArray, int]:
    """Fold of each domain (-1: left out) and their number.

    Domains are dealt in the order of their targets, so that neither the order of rows nor the
    names of domains matter.
    """
    used = np.flatnonzero(~np.isnan(targets))
    n_folds = min(len(used), MAX_FOLDS)
    fold = np.full(len(targets), -1)
    fold[used[np.argsort(targets[used], kind="stable")]] = np.arange(len(used)) % n_folds
    return fold, n_folds


def search_candidates(
    problem: HeadProblem,
    rows: IntArray,
    candidates: list[dict[str, Any]],
    predict: Callable[[int, IntArray, IntArray], FloatArray],
    *,
    default: int,
) -> tuple[int, pd.DataFrame]:
    """Number of the best candidate, and the table of the search.

    ``predict(k, train, test)`` fits every candidate on the rows ``train`` of all folds but k and
    gives its values for the rows ``test`` of fold k, shape (n_test, n_candidates). With a single
    domain there is nothing to hold out: the ``default`` is taken, and the NLL is NaN.
    """
    table = pd.DataFrame(candidates)
    fold, n_folds = deal_folds(problem.targets)
    if n_folds == 1:
        return default, table.assign(n_domains=0, n_rows=0, nll=np.nan, nll_pooled=np.nan)
    nll = np.empty((len(candidates) + 1, len(problem.targets)))
    fold_of_row = fold[problem.codes[rows]]
    for k in range(n_folds):
        train, test = rows[fold_of_row != k], rows[fold_of_row == k]
        one = np.full((len(test), 1), problem.pooled_target(fold == k))
        predicted = np.concatenate([predict(k, train, test), one], axis=1)
        for c, column in enumerate(predicted.T):
            values = np.full(len(problem.codes), np.nan)
            values[test] = column
            nll[c, fold == k] = problem.held_out_nll(values, fold == k)
    *mean, pooled = nll[:, problem.used].mean(axis=1)
    n_domains = int(problem.used.sum())
    table = table.assign(n_domains=n_domains, n_rows=len(rows), nll=mean, nll_pooled=pooled)
    return int(np.argmin(mean)), table


def no_search() -> pd.DataFrame:
    """The table where nothing was searched."""
    return pd.DataFrame(columns=["n_domains", "n_rows", "nll", "nll_pooled"])
