"""Scores of heads, and grid search, by the NLL of held-out domains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import pandas as pd

from domaincal._typing import Array, FloatArray, IntArray
from domaincal.calibrators.heads.regression_problem import HeadProblem
from domaincal.statistics.domain_folds import CLUSTERED_FROM, similar_domain_folds

#: Maximum number of folds, each a set of domains.
MAX_FOLDS = 5


def assign_folds(problem: HeadProblem, max_folds: int = MAX_FOLDS) -> tuple[IntArray, int]:
    """Fold of each domain (-1 for domains without a target), and the number of folds.

    A fold is a cluster of domains with similar mean features; see :func:`similar_domain_folds`.
    The folds do not depend on the order of the rows or on the names of the domains.
    """
    used = np.flatnonzero(problem.used)
    clustered = len(used) >= CLUSTERED_FROM or len(used) > max_folds
    # The profiles are computed by a pass over the features, and only if they decide something.
    profiles = problem.profiles[used] if clustered else np.zeros((len(used), 1))
    folds = np.full(len(problem.targets), -1)
    folds[used] = similar_domain_folds(profiles, max_folds)
    return folds, int(folds.max()) + 1


def search_candidates(
    problem: HeadProblem,
    rows: IntArray,
    candidates: list[dict[str, Any]],
    predict: Callable[[int, IntArray, IntArray], FloatArray],
    *,
    default: int,
    max_folds: int = MAX_FOLDS,
    folds: IntArray | None = None,
) -> tuple[int, pd.DataFrame]:
    """Number of the best candidate, and the table of the search; see :class:`HeadFit`.

    ``predict(k, train, test)`` fits every candidate to the rows ``train`` of all folds except k,
    and predicts the rows ``test`` of fold k; its result has the shape (n_test, n_candidates).
    With a single domain, the candidate number ``default`` is taken and the NLL is NaN. ``folds`` is
    the fold of each domain, by default that of :func:`assign_folds`.
    """
    table = pd.DataFrame(candidates, index=range(len(candidates)))
    folds, n_folds = assign_folds(problem, max_folds) if folds is None else (folds, folds.max() + 1)
    if n_folds == 1:
        return default, table.assign(n_domains=0, n_rows=0, nll=np.nan, nll_pooled=np.nan)
    row_folds = folds[problem.codes[rows]]
    values = np.full((len(candidates) + 1, len(problem.codes)), np.nan)
    for k, pooled in enumerate(problem.pooled_targets(folds)):
        train, test = rows[row_folds != k], rows[row_folds == k]
        values[:-1, test] = predict(k, train, test).T
        values[-1, test] = pooled
    nll = np.stack([problem.held_out_nll(of_rows, folds) for of_rows in values])
    return compare_candidates(problem, candidates, nll, len(rows))


class _HasUsedDomains(Protocol):
    @property
    def used(self) -> Array: ...


def compare_candidates(
    problem: _HasUsedDomains, candidates: list[dict[str, Any]], nll: FloatArray, n_rows: int
) -> tuple[int, pd.DataFrame]:
    """Number of the best candidate, and the table of the search.

    ``nll`` is the NLL of each held-out domain, one row for each candidate and a last one for one
    temperature; ``n_rows`` is the number of rows that were scored.
    """
    table = pd.DataFrame(candidates, index=range(len(candidates)))
    *mean, pooled = nll[:, problem.used].mean(axis=1)
    n_domains = int(problem.used.sum())
    table = table.assign(n_domains=n_domains, n_rows=n_rows, nll=mean, nll_pooled=pooled)
    return int(np.argmin(mean)), table
