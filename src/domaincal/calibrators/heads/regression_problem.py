"""What a head learns from, and what it gives."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from domaincal._tensors import TensorRows, on_device
from domaincal._typing import Array, FeatureRows, FloatArray, IntArray
from domaincal._validation import non_finite_features
from domaincal.errors import InputError
from domaincal.statistics.blocks import Workers, row_blocks

#: Heads whose search costs a fit for each candidate search on so many rows at most.
SEARCH_ROWS = 2000
# Of what is computed at a time on a device.
_DEVICE_BYTES = 1 << 28


@dataclass(frozen=True, eq=False)
class HeadProblem:
    """From the features of each row to the target of its domain.

    Attributes
    ----------
    features : one row for each row of the data
    codes : array, shape (n,)
        Number of each row's domain.
    targets : array, shape (n_domains,)
        NaN for a domain that is left out.
    weight : array, shape (n,), or None
    equal : bool
        Whether all domains weigh the same, however many rows they have.
    fit_intercept : bool
    held_out_nll : callable
        From values that a head predicts (NaN where it was not asked) and a mask of domains to the
        mean NLL of each of these domains.
    pooled_target : callable
        From a mask of domains to the target of one temperature for all rows of the others.
    seed : int
        Of the choice of rows and landmarks.
    """

    features: FeatureRows
    codes: IntArray
    targets: FloatArray
    weight: FloatArray | None
    equal: bool
    fit_intercept: bool
    held_out_nll: Callable[[FloatArray, Array], FloatArray]
    pooled_target: Callable[[Array], float]
    seed: int = 0

    @property
    def used(self) -> Array:
        """Which domains have a target."""
        return ~np.isnan(self.targets)

    def rows(self, at_most: int | None = None) -> IntArray:
        """Rows of the domains in use; if there are too many, the same number from each."""
        inside = self.used[self.codes]
        if self.weight is not None:
            inside = inside & (self.weight > 0)
        rows = np.flatnonzero(inside)
        if at_most is None or len(rows) <= at_most:
            return rows
        each = max(1, at_most // int(self.used.sum()))
        mixed = np.random.default_rng(self.seed).permutation(rows)
        place = pd.Series(self.codes[mixed]).groupby(self.codes[mixed]).cumcount().to_numpy()
        return np.sort(mixed[place < each])

    def at_most(self, max_rows: int) -> IntArray:
        """:meth:`rows`, where the user has set their number."""
        n_domains = int(self.used.sum())
        if max_rows < n_domains:
            raise InputError(
                f"max_rows={max_rows} is less than the {n_domains} domains; raise it, so that each "
                "domain has rows."
            )
        return self.rows(max_rows)

    def row_weight(self, rows: IntArray | None = None) -> FloatArray | None:
        """Weight of the given rows in a regression; None where all are the same."""
        weight = self.weight if self.weight is None or rows is None else self.weight[rows]
        if not self.equal:
            return weight
        codes = self.codes if rows is None else self.codes[rows]
        totals = np.bincount(codes, weight, minlength=len(self.targets)).astype(np.float64)
        of_domain = totals[self.used].mean() / np.where(totals > 0, totals, 1.0)
        return np.asarray(of_domain[codes] * (1.0 if weight is None else weight))

    def read(self, rows: IntArray) -> Array:
        """Features of the given rows in float32 or float64."""
        return self._floats(np.asarray(self.features[rows]))

    def _floats(self, rows: Array) -> Array:
        x = as_floats(rows)
        if not np.isfinite(x).all():
            raise non_finite_features(self.features)
        return x

    def gather(self, rows: IntArray) -> Any:
        """Features of the given rows where they are: as :meth:`read`, or TensorRows."""
        x = self.features[rows]
        if not on_device(x):
            return self._floats(x)
        if not x.all_finite():
            raise non_finite_features(self.features)
        return x


@dataclass(frozen=True, eq=False)
class HeadFit:
    """A fitted head.

    Attributes
    ----------
    head : callable
        From features to values, one for each row; NaN where features are not finite.
    parameters : dict
        Hyperparameters, as the regression takes them.
    search : DataFrame
        A row for each candidate: its parameters, n_domains and n_rows held out in turn, their mean
        nll, and the nll_pooled of one temperature; empty where nothing was searched.
    n_rows : int
        Rows that the head has learned from.
    """

    head: Callable[[FeatureRows], FloatArray]
    parameters: dict[str, Any]
    search: pd.DataFrame
    n_rows: int


def as_floats(x: Array) -> Array:
    """In float32 where that holds the numbers, else in float64."""
    single = x.dtype.kind == "f" and x.dtype.itemsize <= 4
    return x.astype(np.float32 if single else np.float64, copy=False)


def values_of(
    predict: Callable[[Array], Array],
    features: FeatureRows,
    blocks: list[slice],
    workers: Workers | None = None,
    dtype: np.dtype | None = None,
) -> FloatArray:
    """Predictions block by block, on the workers if there are any; NaN for rows not finite.

    ``dtype`` is what the head compares rows in; without one, that of the features.
    """

    def of_block(block: slice) -> Array:
        with np.errstate(over="ignore"):  # what is too large becomes infinite
            x = np.asarray(features[block])
            x = as_floats(x) if dtype is None else x.astype(dtype)
        finite = np.asarray(np.isfinite(x).all(axis=1))
        if not finite.all():
            x = np.where(finite[:, None], x, x.dtype.type(0.0))
        return np.where(finite, predict(x), np.nan)

    parts = map(of_block, blocks) if workers is None else workers.map(of_block, blocks)
    return np.concatenate([*parts]).astype(np.float64, copy=False)


def device_values(
    predict: Callable[[Any], Any], features: FeatureRows, *, like: Array
) -> FloatArray:
    """What :func:`values_of` gives, for features on a device: ``predict`` is from tensor to tensor.

    ``like`` are the reference rows, in whose precision rows are compared.
    """
    values = []
    for block in row_blocks(len(features), 8 * max(like.shape), _DEVICE_BYTES):
        rows: TensorRows = features[block].astype(like.dtype)
        finite = rows.tensor.isfinite().all(1)
        found = predict(rows.tensor.masked_fill(~finite[:, None], 0.0))
        gaps = ~finite if found.ndim == 1 else ~finite[:, None]
        values.append(found.masked_fill(gaps, np.nan))
    return np.concatenate([part.cpu().numpy() for part in values])
