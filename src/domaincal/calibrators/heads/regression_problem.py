"""The regression problem that a head solves, and its solution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

import numpy as np
import pandas as pd

from domaincal._row_arrays import MappedRows, is_row_array
from domaincal._typing import Array, FeatureMatrix, FloatArray, IntArray
from domaincal._validation import non_finite_features_error
from domaincal.calibrators.row_sample import (
    check_max_rows,
    draw_rows,
    equal_sizes,
    spread_places,
    weighted_rows,
)
from domaincal.kernels.device_groups import RowGroups
from domaincal.statistics.domain_counts import domain_counts
from domaincal.statistics.domain_means import domain_means
from domaincal.statistics.feature_products import LinearMap

#: Maximum number of rows of a search that fits every candidate.
SEARCH_ROWS = 2000
#: Heads of fewer domains are judged in sample: with one of two domains left out, nothing is known
#: about how the temperature depends on the features.
JUDGED_FROM = 3
#: Largest feature that heads can square: sums of squares stay below the largest float64.
LARGEST_FEATURE = 1e150


@dataclass(frozen=True, eq=False)
class HeadProblem:
    """Regression from the features of each row to the target of its domain.

    Attributes
    ----------
    features : matrix of shape (n, n_features)
    codes : array of shape (n,)
        Number of the domain of each row.
    targets : array of shape (n_domains,)
        Target of each domain; NaN for a domain that is not used.
    weight : array of shape (n,), or None
        Sample weight of each row.
    equal_domains : bool
        Whether all domains have the same total weight.
    fit_intercept : bool
    held_out_nll : callable
        Takes the values of all rows that were predicted without the domains of their own fold (NaN
        for rows without a prediction), and the fold of each domain; returns the mean NLL of each
        domain, NaN without a prediction.
    pooled_targets : callable
        Takes the fold of each domain; returns, for each fold, the target of one temperature fitted
        to the rows of all other folds.
    random_state : int
        Seed of subsamples and of landmarks.
    nll_of_maps : callable
        Takes the fold of each domain and linear maps for each fold; returns the mean NLL of each
        domain under each map of its fold, and under one temperature, from one pass over the rows.
    select : callable
        Takes row numbers; returns the problem of these rows, in memory. Needed for rows that are
        read in blocks. On a device, it saves time.
    groups : RowGroups, optional
        The rows of each domain, on the device of the features.
    """

    features: FeatureMatrix
    codes: IntArray
    targets: FloatArray
    weight: FloatArray | None
    equal_domains: bool
    fit_intercept: bool
    held_out_nll: Callable[[FloatArray, IntArray], FloatArray]
    pooled_targets: Callable[[IntArray], FloatArray]
    random_state: int = 0
    nll_of_maps: Callable[[IntArray, list[list[LinearMap]]], FloatArray] | None = None
    select: Callable[[IntArray], HeadProblem] | None = None
    groups: RowGroups | None = None

    @property
    def streamed(self) -> bool:
        """Whether the rows are read in blocks."""
        return is_row_array(self.codes)

    @property
    def domain(self) -> IntArray | RowGroups:
        """Number of the domain of each row, or groups of rows on the device of the features."""
        return self.codes if self.groups is None else self.groups

    @property
    def used(self) -> Array:
        """Mask of the domains that have a target."""
        return ~np.isnan(self.targets)

    @cached_property
    def rows_of_domains(self) -> FloatArray:
        """Number of rows of each domain."""
        if self.groups is not None:
            return np.diff(self.groups.starts).astype(np.float64)
        return domain_counts(self.codes, len(self.targets))

    def n_rows(self) -> int:
        """Number of rows of used domains, without rows of weight 0."""
        if self.weight is None:
            return int(self.rows_of_domains[self.used].sum())
        return len(self.all_rows())

    def all_rows(self) -> IntArray:
        """Numbers of the rows of used domains, without rows of weight 0."""
        return weighted_rows(self.codes, self.used, self.weight)

    @cached_property
    def profiles(self) -> FloatArray:
        """Mean features of each domain, shape (n_domains, n_features); 0 for unused domains."""
        n_domains = len(self.targets)
        if self.streamed or self.groups is not None:
            weight = None if self.streamed else self.weight
            means = domain_means(self.features, self.domain, n_domains, weight=weight)
            return np.where(self.used[:, None], means, 0.0)
        return domain_means(
            self.features, self.codes, n_domains, rows=self.all_rows(), weight=self.weight
        )

    def subsample(self, max_rows: int) -> IntArray:
        """Numbers of all rows, or of a random sample with equally many rows of each domain."""
        return draw_rows(
            self.codes, self.used, self.weight, max_rows=max_rows, random_state=self.random_state
        )[0]

    def in_memory(self, max_rows: int) -> tuple[HeadProblem, IntArray]:
        """A problem in memory, and the numbers of the rows of a subsample in it.

        Of rows that are read in blocks, only the subsample is read. A subsample of rows on a device
        is drawn in another way, which takes no pass over them on the host.
        """
        if self.groups is not None and self.weight is None:
            n_rows = np.diff(self.groups.starts)
            sizes = equal_sizes(n_rows, self.used, max_rows)
            places = spread_places(n_rows, sizes, random_state=self.random_state)
            rows = np.sort(self.groups.rows_at(places))
        else:
            rows = self.subsample(max_rows)
        if self.select is None:
            return self, rows
        return self.select(rows), np.arange(len(rows))

    def check_max_rows(self, max_rows: int) -> None:
        """Raise InputError if ``max_rows`` is less than one row for each domain."""
        check_max_rows(max_rows, int(self.used.sum()))

    def row_targets(self, rows: IntArray) -> FloatArray:
        """Targets of the given rows."""
        return np.asarray(self.targets[self.codes[rows]])

    def row_weights(self, rows: IntArray | None = None) -> FloatArray | None:
        """Weights of the given rows in the regression, by default of all; None if all are equal."""
        weight = self.weight if self.weight is None or rows is None else self.weight[rows]
        if not self.equal_domains:
            return weight
        codes = self.codes if rows is None else self.codes[rows]
        totals = domain_counts(codes, len(self.targets), weight)
        domain_weight = totals[self.used].mean() / np.where(totals > 0, totals, 1.0)
        if is_row_array(codes):
            return cast(FloatArray, MappedRows(
                codes.shape, np.float64, domain_weight.__getitem__, codes
            ))  # fmt: skip
        return np.asarray(domain_weight[codes] * (1.0 if weight is None else weight))

    def host_features(self, rows: IntArray) -> Array:
        """Features of the given rows as a numpy array of float32 or float64."""
        return self._check_size(as_floats(np.asarray(self.features[rows])))

    def _check_size(self, x: Array) -> Array:
        if not (np.abs(x) <= np.float64(LARGEST_FEATURE)).all():  # False for NaN, too
            raise non_finite_features_error(self.features)
        return x


def empty_search() -> pd.DataFrame:
    """Table of a head without a search."""
    return pd.DataFrame(columns=["n_domains", "n_rows", "nll", "nll_pooled"])


@dataclass(frozen=True, eq=False)
class HeadFit:
    """A fitted head.

    Attributes
    ----------
    head : callable
        Takes features; returns one value for each row, NaN for features that are not finite.
    parameters : dict
        Hyperparameters, under scikit-learn's names.
    search : DataFrame
        One row for each candidate: its parameters; n_domains and n_rows, the numbers of domains
        and rows that were held out in turn; nll, the mean NLL of the held-out domains; nll_pooled,
        the same for one temperature. Empty without a search.
    n_rows : int
        Number of rows that the head was fitted to.
    held_out : DataFrame
        For a head without a search, one row with the columns of ``search``: the NLL of the head
        on domains that are left out of its fit. Empty with fewer than 3 domains.
    """

    head: Callable[[FeatureMatrix], FloatArray]
    parameters: dict[str, Any]
    search: pd.DataFrame
    n_rows: int
    held_out: pd.DataFrame = field(default_factory=empty_search)


def as_floats(x: Array) -> Array:
    """Convert float16 and float32 to float32, all other numbers to float64."""
    single = x.dtype.kind == "f" and x.dtype.itemsize <= 4
    return x.astype(np.float32 if single else np.float64, copy=False)
