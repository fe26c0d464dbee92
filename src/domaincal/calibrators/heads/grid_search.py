"""Grid search of the heads by the NLL of held-out domains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from domaincal._typing import FloatArray, IntArray
from domaincal.calibrators.heads.regression_problem import HeadProblem

#: Maximum number of folds, each a set of domains.
MAX_FOLDS = 5


def assign_folds(targets: FloatArray) -> tuple[IntArray, int]:
    """Fold of each domain (-1 for domains without a target), and the number of folds.

    Domains go to the folds in turn, in the order of their targets. The folds therefore do not
    depend on the order of the rows or on the names of the domains.

    Examples
    --------
    >>> import numpy as np
    >>> folds, n_folds = assign_folds(np.array([3.0, 1.0, np.nan, 2.0]))
    >>> folds.tolist(), n_folds
    ([2, 0, -1, 1], 3)
    """
    used = np.flatnonzero(~np.isnan(targets))
    n_folds = min(len(used), MAX_FOLDS)
    folds = np.full(len(targets), -1)
    folds[used[np.argsort(targets[used], kind="stable")]] = np.arange(len(used)) % n_folds
    return folds, n_folds


def search_candidates(
    problem: HeadProblem,
    rows: IntArray,
    candidates: list[dict[str, Any]],
    predict: Callable[[int, IntArray, IntArray], FloatArray],
    *,
    default: int,
) -> tuple[int, pd.DataFrame]:
    """Number of the best candidate, and the table of the search; see :class:`HeadFit`.

    ``predict(k, train, test)`` fits every candidate to the rows ``train`` of all folds except k,
    and predicts the rows ``test`` of fold k; its result has the shape (n_test, n_candidates).
    With a single domain, the candidate number ``default`` is taken and the NLL is NaN.
    """
    table = pd.DataFrame(candidates)
    folds, n_folds = assign_folds(problem.targets)
    if n_folds == 1:
        return default, table.assign(n_domains=0, n_rows=0, nll=np.nan, nll_pooled=np.nan)
    nll = np.empty((len(candidates) + 1, len(problem.targets)))
    row_folds = folds[problem.codes[rows]]
    for k in range(n_folds):
        train, test = rows[row_folds != k], rows[row_folds == k]
        held_out = folds == k
        pooled_column = np.full((len(test), 1), problem.pooled_target(held_out))
        predicted = np.concatenate([predict(k, train, test), pooled_column], axis=1)
        for c, column in enumerate(predicted.T):
            values = np.full(len(problem.codes), np.nan)
            values[test] = column
            nll[c, held_out] = problem.held_out_nll(values, held_out)
    *mean, pooled = nll[:, problem.used].mean(axis=1)
    n_domains = int(problem.used.sum())
    table = table.assign(n_domains=n_domains, n_rows=len(rows), nll=mean, nll_pooled=pooled)
    return int(np.argmin(mean)), table


def empty_search() -> pd.DataFrame:
    """Table of a head without a search."""
    return pd.DataFrame(columns=["n_domains", "n_rows", "nll", "nll_pooled"])
