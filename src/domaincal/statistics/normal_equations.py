"""Sums over rows for least squares with one target for each domain.

Every row of domain k has the target ``t_k``, so that ``X't = sum_k t_k * (sum of the rows of k)``.
The sums do not depend on the targets: one pass over the features is enough for all targets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse

from domaincal._row_arrays import RowArray, is_row_array, row_range, sum_over_parts
from domaincal._tensors import is_tensor, loaded_torch, on_device
from domaincal._typing import Array, FeatureMatrix, FloatArray, IntArray
from domaincal._validation import non_finite_features_error
from domaincal.errors import InputError
from domaincal.kernels import dispatch, torch_factors, torch_features
from domaincal.kernels.device_groups import RowGroups
from domaincal.statistics.blocks import read_ahead
from domaincal.statistics.feature_products import (
    device_blocks,
    feature_blocks,
    reads_on_device,
    row_groups,
)
from domaincal.statistics.single_products import SingleProducts

#: Multiplications of a Gram matrix (rows * features**2) from which on float32 products and compiled
#: residuals are used: below, about 0.3 s in float64, loading compiled code costs what it saves.
COMPILED_FROM = 1 << 34


@dataclass(frozen=True, eq=False)
class NormalEquations:
    """Weighted sums of features, which determine the least-squares solution.

    Attributes
    ----------
    gram : array, or tensor on the device of the features, shape (n_features, n_features)
        ``X' W X``.
    moments : array, or tensor on the same device, shape (n_domains, n_features)
        Weighted sum of the rows of each domain.
    weight : array, shape (n_domains,)
    shift : array, shape (n_features,)
        Subtracted from the features before they are summed; only sums with the same shift can be
        added. A shift near the mean keeps centring accurate.
    single : bool
        Whether ``gram`` is a sum of products in float32, so that solutions must be refined.
    """

    gram: Any
    moments: Any
    weight: FloatArray
    shift: FloatArray
    single: bool = False

    @classmethod
    def from_rows(
        cls,
        features: Array,
        domain: IntArray,
        n_domains: int,
        weight: FloatArray | None = None,
        *,
        shift: FloatArray,
    ) -> NormalEquations:
        """Sum over rows; ``domain`` holds the code of the domain of each row."""
        x = features - shift  # in float64
        w = np.ones(len(x)) if weight is None else weight
        indicator = scipy.sparse.csr_array(
            (w, (domain, np.arange(len(x)))), shape=(n_domains, len(x))
        )
        # Features that are not finite make the sums not finite, which the caller reports.
        with np.errstate(over="ignore", invalid="ignore"):
            moments = np.asarray(indicator @ x)
            if weight is not None:
                x *= np.sqrt(w)[:, None]
            gram = x.T @ x
        return cls(
            gram, moments, np.bincount(domain, w, minlength=n_domains).astype(np.float64), shift
        )

    def __add__(self, other: NormalEquations) -> NormalEquations:
        return self.total([self, other])

    @staticmethod
    def total(parts: Sequence[NormalEquations]) -> NormalEquations:
        """Sum of several, without a copy for each."""
        first, *others = parts
        if not others:
            return first
        gram, moments = (
            a.clone() if is_tensor(a) else a.copy(order="K") for a in (first.gram, first.moments)
        )
        weight = first.weight.copy()
        for part in others:
            if not np.array_equal(first.shift, part.shift):
                raise InputError(
                    "only sums with the same shift can be added; pass the same shift to from_rows."
                )
            gram += part.gram
            moments += part.moments
            weight += part.weight
        single = any(part.single for part in parts)
        return NormalEquations(gram, moments, weight, first.shift, single)

    def on_host(self) -> NormalEquations:
        """The same sums as numpy arrays."""
        if not is_tensor(self.gram):
            return self
        gram, moments = (a.cpu().numpy() for a in (self.gram, self.moments))
        return NormalEquations(gram, moments, self.weight, self.shift, self.single)

    def is_finite(self) -> bool:
        """Whether all sums are finite."""
        if is_tensor(self.gram):
            return bool(self.moments.isfinite().all() & self.gram.isfinite().all())
        return bool(np.isfinite(self.moments).all() and np.isfinite(self.gram).all())

    def weighted_moments(self, weights: FloatArray) -> FloatArray:
        """Sum of the moments of all domains, each times a weight."""
        if is_tensor(self.moments):
            return torch_factors.weighted_rows(weights, self.moments)
        return np.asarray(weights @ self.moments)

    def mean(self) -> FloatArray:
        """Weighted mean of the shifted features."""
        if is_tensor(self.moments):
            total = self.weighted_moments(np.ones(len(self.weight)))
            return np.asarray(total / self.weight.sum())
        return np.asarray(self.moments.sum(axis=0) / self.weight.sum())

    def mean_eigenvalue(self, *, fit_intercept: bool = False) -> float:
        """Mean eigenvalue of the Gram matrix (centred with an intercept): the unit of a penalty."""
        centre = self.mean() if fit_intercept else np.zeros(len(self.gram))
        trace = float(self.gram.trace()) - self.weight.sum() * (centre @ centre)
        return float(trace / len(self.gram))


def sum_normal_equations(
    features: FeatureMatrix,
    domain: IntArray | RowGroups,
    *,
    part: IntArray,
    n_parts: int = 1,
    weight: FloatArray | None = None,
    fit_intercept: bool = False,
    single: bool = False,
    shift: FloatArray | None = None,
) -> list[NormalEquations]:
    """:class:`NormalEquations` of each part of the domains, summed block by block.

    ``part`` holds the part of each domain; domains with part -1 are left out. With ``single``,
    sums of products are float32 (see :func:`single_pays`), unless float32 overflows. By default,
    the shift is about the mean with an intercept, and 0 without. ``domain`` holds the number of the
    domain of each row; for features on a device, it may be groups of rows on that device, where the
    sums stay.
    """
    if shift is None:
        shift = _approximate_mean(features) if fit_intercept else np.zeros(features.shape[1])
    if reads_on_device(features):
        sums = _sum_on_device(
            features, row_groups(features, domain, len(part)), part, n_parts, weight, shift,
            single=single and weight is None,
        )  # fmt: skip
    else:
        assert not isinstance(domain, RowGroups)
        near = _approximate_mean(features) if single else None
        if is_row_array(domain):
            sums = sum_over_parts(_sum_blocks, features, domain, part, n_parts, weight, shift, near)
        else:
            sums = _sum_on_host(features, domain, part, n_parts, weight, shift, near)
    if not all(one.is_finite() for one in sums):
        if single:
            del sums
            return sum_normal_equations(
                features, domain, part=part, n_parts=n_parts, weight=weight,
                fit_intercept=fit_intercept, shift=shift,
            )  # fmt: skip
        raise non_finite_features_error(features)
    return sums


def _approximate_mean(features: FeatureMatrix) -> FloatArray:
    """Mean of about 1,024 rows; 0 where it is not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        some = np.asarray(features[:: max(1, len(features) // 1024)])
        mean = some.mean(axis=0, dtype=np.float64)
    return np.where(np.isfinite(mean), mean, 0.0)


def _sum_on_host(
    features: FeatureMatrix,
    domain: IntArray,
    part: IntArray,
    n_parts: int,
    weight: FloatArray | None,
    shift: FloatArray,
    near: FloatArray | None,
) -> list[NormalEquations]:
    """Normal equations of each part, summed block by block."""
    sums = []
    # Part by part: the products of a few rows of each part in a block would be slow.
    for k in range(n_parts):
        rows = np.flatnonzero(part[domain] == k)
        total = _running_sums(len(part), shift, near)
        for block in feature_blocks(len(rows), features.shape[1]):
            own = rows[block]
            x = features[block] if len(rows) == len(domain) else features[own]
            total.add(x, domain[own], None if weight is None else weight[own])
        sums.append(total.equations())
    return sums


def _sum_blocks(
    features: FeatureMatrix,
    domain: RowArray,
    part: IntArray,
    n_parts: int,
    weight: FloatArray | None,
    shift: FloatArray,
    near: FloatArray | None,
) -> list[NormalEquations]:
    """Normal equations of each part, in one pass over rows that are read in blocks."""
    sums = [_running_sums(len(part), shift, near) for _ in range(n_parts)]

    def read(block: slice) -> tuple[slice, Array, IntArray]:
        return block, features[block], domain[block]

    for block, x, codes in read_ahead(read, feature_blocks(row_range(features), features.shape[1])):
        w = None if weight is None else weight[block]
        parts = part[codes]
        for k in range(n_parts):
            own = parts == k
            if own.any():
                sums[k].add(x[own], codes[own], None if w is None else w[own])
    return [total.equations() for total in sums]


class _RunningSums:
    """Normal equations to which blocks of rows are added in place."""

    def __init__(self, n_domains: int, shift: FloatArray) -> None:
        n_features = len(shift)
        self._gram = np.zeros((n_features, n_features))
        self._moments = np.zeros((n_domains, n_features))
        self._weight = np.zeros(n_domains)
        self._shift = shift

    def add(self, x: Array, domain: IntArray, weight: FloatArray | None) -> None:
        """Add rows; ``domain`` holds the code of the domain of each."""
        # Only the domains in the block: sums of all domains may be larger than the block.
        present, codes = np.unique(domain, return_inverse=True)
        found = NormalEquations.from_rows(x, codes, len(present), weight, shift=self._shift)
        with np.errstate(over="ignore", invalid="ignore"):  # the caller reports it
            self._gram += found.gram
            self._moments[present] += found.moments
            self._weight[present] += found.weight

    def equations(self) -> NormalEquations:
        """Sums over all rows that were added."""
        return NormalEquations(self._gram, self._moments, self._weight, self._shift)


class _SingleSums:
    """Normal equations by float32 products, to which blocks of rows are added in place."""

    def __init__(self, n_domains: int, shift: FloatArray, near: FloatArray) -> None:
        self._products = SingleProducts(n_domains, near)
        self._shift = shift
        self.add = self._products.add

    def equations(self) -> NormalEquations:
        """Sums over all rows that were added."""
        return NormalEquations(*self._products.about(self._shift), self._shift, single=True)


def _running_sums(
    n_domains: int, shift: FloatArray, near: FloatArray | None
) -> _RunningSums | _SingleSums:
    """Empty sums: of float64 products, or of float32 products about ``near``."""
    if near is None:
        return _RunningSums(n_domains, shift)
    return _SingleSums(n_domains, shift, near)


def _sum_on_device(
    features: FeatureMatrix,
    groups: RowGroups,
    part: IntArray,
    n_parts: int,
    weight: FloatArray | None,
    shift: FloatArray,
    *,
    single: bool,
) -> list[NormalEquations]:
    """Normal equations of each part, on the device."""
    torch, n_features = loaded_torch(), features.shape[1]
    empty = partial(torch.zeros, dtype=torch.float64, device=groups.device)
    about = torch.tensor(shift, dtype=torch.float64, device=groups.device)
    moments, weights = empty((groups.n_groups, n_features)), empty(groups.n_groups)
    grams = [empty((n_features, n_features)) for _ in range(n_parts)]
    for x, own, w in device_blocks(features, groups, weight):
        moments += torch_features.feature_sums(x, own, w)
        weights += own.sums(w)
        for gram, rows in zip(grams, own.rows_of_parts(part, n_parts), strict=True):
            gram += (
                torch_features.gram_of_products(x, rows)
                if single
                else torch_features.gram_matrix(x, rows, about, w)
            )
    sums = []
    for k, gram in enumerate(grams):
        inside = torch.tensor(part == k, device=groups.device)
        # Where, not times: NaN of another part must not get into these sums.
        of_part = torch.where(inside[:, None], moments, 0.0)
        total = torch.where(inside, weights, 0.0)
        if single:  # the sums of products are about 0
            whole = of_part.sum(0)
            gram -= whole[:, None] * about
            gram -= about[:, None] * (whole - total.sum() * about)
        of_part -= total[:, None] * about
        sums.append(NormalEquations(gram, of_part, total.cpu().numpy(), shift, single))
    return sums


def single_pays(features: FeatureMatrix) -> bool:
    """Whether sums of products in float32 save time.

    They do for many rows of features, stored as float16 or 32; on a device, of 16 bits.
    """
    if on_device(features):
        many = len(features) * features.shape[1] ** 2 >= COMPILED_FROM
        return many and torch_features.multiplies_16_bits(features.device, features.tensor.dtype)
    return compiled_pays(features) and _stored_dtype(features).itemsize <= 4


def compiled_pays(features: FeatureMatrix) -> bool:
    """Whether the rows are many enough for compiled sums, and in host memory or a file."""
    n_rows, n_features = features.shape
    return (
        n_rows * n_features**2 >= COMPILED_FROM
        and _stored_dtype(features).kind == "f"
        and not reads_on_device(features)
        and dispatch.use_compiled(n_rows * n_features)
    )


def _stored_dtype(features: FeatureMatrix) -> np.dtype[Any]:
    """Dtype of stored features; that of objects for features that are computed when read."""
    return np.dtype(getattr(features, "dtype", object))
