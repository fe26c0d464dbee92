"""Errors of estimates on left-out domains, and the intervals that follow from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from domaincal._typing import FloatArray, IntArray
from domaincal.kernels.row_groups import rows_of_codes
from domaincal.shift.conformal import conformal_rank

#: No more fits than this: from 11 domains on, several domains are left out together.
MAX_FOLDS = 10


@dataclass(frozen=True, eq=False)
class LeftOutResiduals:
    """Accuracy minus estimate of batches from domains that were left out of the fit.

    Attributes
    ----------
    sizes : array of shape (n_sizes,)
        Numbers of rows of the batches, in ascending order. A domain with no more rows than that is
        one batch.
    values : array of shape (n_sizes, n_domains, n_draws)
        The residuals of several batches of each domain.
    """

    sizes: FloatArray
    values: FloatArray

    @property
    def n_domains(self) -> int:
        """Number of domains that were left out in turn."""
        return int(self.values.shape[1])

    def half_width(self, n: FloatArray, coverage: float) -> FloatArray:
        """Half the length of the interval of a batch of n rows; infinite with too few domains.

        The estimate for a new domain is off by at most this with the probability ``coverage``, if
        the new domain is exchangeable with the ones of the fit. With one batch of each domain, this
        is conformal prediction: the width is the ``ceil(coverage * (n_domains + 1))``-th smallest
        absolute residual. It is averaged over the draws, so that chance decides less, and no width
        is below that of a larger size. Between two sizes, the width is interpolated in the
        logarithm of n; outside, the nearest size counts.

        Examples
        --------
        >>> import numpy as np
        >>> errors = LeftOutResiduals(np.ones(1), np.linspace(-0.1, 0.1, 21).reshape(1, 21, 1))
        >>> errors.half_width(np.array([50.0]), 0.9).round(3).tolist()
        [0.1]
        >>> errors.half_width(np.array([50.0]), 0.99).tolist()
        [inf]
        """
        rank = conformal_rank(self.n_domains, coverage)
        if rank is None:
            return np.full(len(n), np.inf)
        widths = np.sort(np.abs(self.values), axis=1)[:, rank - 1].mean(axis=1)
        widths = np.maximum.accumulate(widths[::-1])[::-1]
        return np.asarray(np.interp(np.log(n), np.log(self.sizes), widths))


def random_folds(n_domains: int, random: np.random.Generator) -> IntArray:
    """Fold of each domain: at random, because similar domains must not be left out together.

    A new domain is then as far from the rest as a left-out one, on average.
    """
    return random.permutation(np.arange(n_domains) % min(n_domains, MAX_FOLDS))


def draw_batches(
    codes: IntArray, domains: IntArray, draws: Mapping[int, int], random: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Rows of batches of each size from each domain, and the number of the batch of each row.

    The batches are numbered size by size, then domain by domain, then draw by draw. Rows of a batch
    are all different.
    """
    rows, lengths = [], []
    of_code = rows_of_codes(codes, int(codes.max()) + 1)
    of_domain = [of_code[k] for k in domains]
    for size, n_draws in draws.items():
        for own in of_domain:
            for _ in range(n_draws):
                n = min(size, len(own))
                rows.append(own if n == len(own) else random.choice(own, n, replace=False))
                lengths.append(n)
    return np.concatenate(rows), np.repeat(np.arange(len(lengths)), lengths)


def left_out_residuals(
    estimates: Callable[[IntArray, IntArray, IntArray, int], FloatArray],
    *,
    codes: IntArray,
    accuracy: FloatArray,
    draws: Mapping[int, int],
    random: np.random.Generator,
) -> LeftOutResiduals:
    """Residuals of batches of all domains, each from a fit without its domain.

    Parameters
    ----------
    estimates : callable
        ``estimates(others, rows, batches, n_batches)`` fits the rows ``others`` and returns the
        estimated accuracy of each batch of ``rows``.
    codes : array of shape (n,)
        Domain of each row.
    accuracy : array of shape (n_domains,)
        Accuracy of all rows of each domain.
    draws : mapping
        Number of batches of each size; the same number for all sizes.
    """
    n_domains, n_sizes = len(accuracy), len(draws)
    (n_draws,) = set(draws.values())
    values = np.empty((n_sizes, n_domains, n_draws))
    folds = random_folds(n_domains, random)
    for fold in range(folds.max() + 1):
        left_out = np.flatnonzero(folds == fold)
        others = np.flatnonzero(folds[codes] != fold)
        rows, batches = draw_batches(codes, left_out, draws, random)
        found = estimates(others, rows, batches, n_sizes * len(left_out) * n_draws)
        predicted = found.reshape(n_sizes, len(left_out), n_draws)
        values[:, left_out] = accuracy[left_out, None] - predicted
    return LeftOutResiduals(np.array(list(draws), np.float64), values)
