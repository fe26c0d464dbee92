"""Sums of the features of sites, from which linear heads are solved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from domaincal._row_arrays import MappedRows, is_row_array, row_range, sum_over_parts
from domaincal._typing import Array, FeatureMatrix, FloatArray, IntArray
from domaincal._validation import non_finite_features_error
from domaincal.errors import InputError
from domaincal.statistics import NormalEquations
from domaincal.statistics.blocks import read_ahead
from domaincal.statistics.feature_products import feature_blocks
from domaincal.statistics.normal_equations import sum_normal_equations


@dataclass(frozen=True, eq=False)
class FeatureSums:
    """Sums over the rows of the used domains, of features minus ``shift``.

    Attributes
    ----------
    shift : array, shape (n_features,)
    moments : array, shape (n_domains, n_features)
        Sum of the rows of each domain; 0 for domains that are not used.
    gram : array, shape (n_features, n_features)
        Sum of ``x x'``.
    gram_equal : array, shape (n_features, n_features)
        Sum over the domains of the mean of ``x x'``, for domains of equal weight.
    domain_grams : array, shape (n_domains, n_features * (n_features + 1) / 2), or None
        Lower triangle of the sum of ``x x'`` of each domain, for the search of a penalty.
    """

    shift: FloatArray
    moments: FloatArray
    gram: FloatArray
    gram_equal: FloatArray
    domain_grams: FloatArray | None = None

    @classmethod
    def from_rows(
        cls,
        features: FeatureMatrix,
        codes: IntArray,
        n_rows: FloatArray,
        used: Array,
        *,
        shift: FloatArray,
        search: bool,
    ) -> FeatureSums:
        """Sums over rows in memory or in blocks; ``n_rows`` has one number for each."""
        part = np.where(used, 0, -1)
        share = 1.0 / np.maximum(n_rows, 1.0)
        weight = (
            cast(FloatArray, MappedRows(codes.shape, np.float64, share.__getitem__, codes))
            if is_row_array(codes)
            else share[codes]
        )  # fmt: skip
        (each_row,) = sum_normal_equations(features, codes, part=part, shift=shift)
        each_row = each_row.on_host()
        (each_domain,) = sum_normal_equations(
            features, codes, part=part, weight=weight, shift=shift
        )
        return cls(
            shift, each_row.moments, each_row.gram, each_domain.on_host().gram,
            _finite_grams(features, codes, used, shift) if search else None,
        )  # fmt: skip

    def __add__(self, other: FeatureSums) -> FeatureSums:
        """Sums of the domains of both; the shift must be the same."""
        if not np.array_equal(self.shift, other.shift):
            raise InputError("only sums with the same shift can be added; use one shift.")
        grams = [self.domain_grams, other.domain_grams]
        known = [lower for lower in grams if lower is not None]
        return FeatureSums(
            self.shift,
            np.concatenate([self.moments, other.moments]),
            self.gram + other.gram,
            self.gram_equal + other.gram_equal,
            np.concatenate(known) if len(known) == len(grams) else None,
        )

    def select(self, domains: IntArray) -> FeatureSums:
        """The same sums with the domains in another order."""
        grams = self.domain_grams
        return FeatureSums(
            self.shift, self.moments[domains], self.gram, self.gram_equal,
            None if grams is None else grams[domains],
        )  # fmt: skip

    def equations(
        self,
        n_rows: FloatArray,
        used: Array,
        *,
        equal_domains: bool,
        fit_intercept: bool,
        without: Array | None = None,
    ) -> NormalEquations:
        """Normal equations of the used domains, or of those that are not in ``without``.

        With an intercept they are about the shift, otherwise about 0, as a fit to rows has them.
        """
        weight = np.where(used, n_rows[used].mean() / n_rows if equal_domains else 1.0, 0.0)
        if without is None:
            gram = self.gram_equal * n_rows[used].mean() if equal_domains else self.gram
        else:
            weight = np.where(without, 0.0, weight)
            assert self.domain_grams is not None
            gram = unpacked(weight @ self.domain_grams)
        moments, total = weight[:, None] * self.moments, weight * n_rows
        if fit_intercept:
            return NormalEquations(gram, moments, total, self.shift)
        s, m = self.shift, moments.sum(axis=0)
        gram = gram + np.outer(m, s) + np.outer(s, m) + total.sum() * np.outer(s, s)
        return NormalEquations(gram, moments + total[:, None] * s, total, np.zeros_like(self.shift))

    def means(self, n_rows: FloatArray) -> FloatArray:
        """Mean features of each domain; those of domains that are not used have no meaning."""
        return np.asarray(self.shift + self.moments / np.maximum(n_rows, 1.0)[:, None])


def add_features(sums: Sequence[FeatureSums]) -> FeatureSums:
    """Sums of the features of several sites."""
    total = sums[0]
    for of_site in sums[1:]:
        total = total + of_site
    return total


def packed_size(n_features: int) -> int:
    """Numbers in the lower triangle of a symmetric matrix."""
    return n_features * (n_features + 1) // 2


def unpacked(lower: FloatArray) -> FloatArray:
    """Symmetric matrix of its lower triangle.

    Examples
    --------
    >>> import numpy as np
    >>> unpacked(np.array([1.0, 2.0, 3.0])).tolist()
    [[1.0, 2.0], [2.0, 3.0]]
    """
    n = int((np.sqrt(8 * len(lower) + 1) - 1) / 2)
    matrix = np.zeros((n, n))
    rows, columns = np.tril_indices(n)
    matrix[rows, columns] = lower
    matrix[columns, rows] = lower
    return matrix


def _finite_grams(
    features: FeatureMatrix, codes: IntArray, used: Array, shift: FloatArray
) -> FloatArray:
    """Lower triangles of the sums of ``x x'`` of each used domain, in one pass over the rows."""
    sums = sum_over_parts(_domain_grams, features, codes, used, shift)
    if not np.isfinite(sums).all():
        raise non_finite_features_error(features)
    return sums


def _domain_grams(
    features: FeatureMatrix, codes: IntArray, used: Array, shift: FloatArray
) -> FloatArray:
    """The same for the rows that this process reads; sums may be NaN or infinite."""
    n_features = features.shape[1]
    lower = np.tril_indices(n_features)
    sums = np.zeros((len(used), packed_size(n_features)))

    def read(block: slice) -> tuple[Array, IntArray]:
        return features[block], codes[block]

    for rows, domain in read_ahead(read, feature_blocks(row_range(features), n_features)):
        x = rows - shift  # in float64
        for k in np.unique(domain):
            if used[k]:
                own = x[domain == k]
                sums[k] += (own.T @ own)[lower]
    return sums
