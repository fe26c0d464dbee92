"""Least squares with one target for each domain, from sums over rows.

Every row of domain k has the target ``t_k``, so ``X't = sum_k t_k * (sum of the rows of k)``: the
sums do not depend on the targets, and one pass over the features serves any of them.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse

from domaincal._tensors import on_device
from domaincal._typing import Array, FeatureRows, FloatArray, IntArray
from domaincal._validation import non_finite_features
from domaincal.errors import InputError
from domaincal.kernels import torch_kernels
from domaincal.statistics.blocks import row_blocks

# Rows of a block are converted to float64 and multiplied by BLAS on its own threads.
_BLAS_BLOCK_BYTES = 1 << 25
# On a device, which is slow to start and quick to finish.
_DEVICE_BLOCK_BYTES = 1 << 28


@dataclass(frozen=True, eq=False)
class LinearMap:
    """``features @ coef + intercept``."""

    coef: FloatArray
    intercept: float = 0.0

    def __call__(self, features: FeatureRows) -> FloatArray:
        """Value for each row, block by block in float64."""
        out = np.empty(len(features))
        for block in feature_blocks(*features.shape, device=reads_on_device(features)):
            out[block] = product(features[block], self.coef)
        return out + self.intercept


@dataclass(frozen=True, eq=False)
class NormalEquations:
    """Weighted sums of features: all that least squares needs to know of the rows.

    Attributes
    ----------
    gram : array, shape (n_features, n_features)
        ``X' W X``.
    moments : array, shape (n_domains, n_features)
        Weighted sum of the rows of each domain.
    weight : array, shape (n_domains,)
    shift : array, shape (n_features,)
        Subtracted from the features before they are summed. Sums of the same shift can be added.
        Near their mean, little is lost when they are centred.
    """

    gram: FloatArray
    moments: FloatArray
    weight: FloatArray
    shift: FloatArray

    @classmethod
    def from_rows(
        cls,
        features: Array,
        group: IntArray,
        n_groups: int,
        weight: FloatArray | None = None,
        *,
        shift: FloatArray,
    ) -> "NormalEquations":
        """Sum over rows; ``group`` is the domain number of each row."""
        x = features - shift  # in float64
        w = np.ones(len(x)) if weight is None else weight
        indicator = scipy.sparse.csr_array(
            (w, (group, np.arange(len(x)))), shape=(n_groups, len(x))
        )
        # What is not finite shows in the sums, and whoever adds them up says so.
        with np.errstate(over="ignore", invalid="ignore"):
            moments = np.asarray(indicator @ x)
            if weight is not None:
                x *= np.sqrt(w)[:, None]
            gram = x.T @ x
        return cls(
            gram, moments, np.bincount(group, w, minlength=n_groups).astype(np.float64), shift
        )

    def __add__(self, other: "NormalEquations") -> "NormalEquations":
        if not np.array_equal(self.shift, other.shift):
            raise InputError("only sums of the same shift can be added; agree on one beforehand.")
        return NormalEquations(
            self.gram + other.gram,
            self.moments + other.moments,
            self.weight + other.weight,
            self.shift,
        )

    def mean(self) -> FloatArray:
        """Weighted mean of the shifted features."""
        return np.asarray(self.moments.sum(axis=0) / self.weight.sum())

    def mean_eigenvalue(self, *, fit_intercept: bool = False) -> float:
        """Of the Gram matrix, centred where there is an intercept: the unit of a penalty."""
        centre = self.mean() if fit_intercept else np.zeros(len(self.gram))
        trace = np.trace(self.gram) - self.weight.sum() * (centre @ centre)
        return float(trace / len(self.gram))


def sum_normal_equations(
    features: FeatureRows,
    group: IntArray,
    *,
    part: IntArray,
    n_parts: int = 1,
    weight: FloatArray | None = None,
    fit_intercept: bool = False,
) -> list[NormalEquations]:
    """:class:`NormalEquations` of each part of the domains, from rows in memory, in blocks.

    ``part`` holds the part of each domain; rows of domains with part -1 are left out.
    """
    n_groups, n_features = len(part), features.shape[1]
    shift = np.zeros(n_features)
    if fit_intercept:  # any point near the mean will do; the solution does not depend on it
        with np.errstate(over="ignore", invalid="ignore"):
            some = np.asarray(features[:: max(1, len(features) // 1024)])
            near = some.mean(axis=0, dtype=np.float64)
        shift = np.where(np.isfinite(near), near, 0.0)
    if reads_on_device(features):
        chosen = [np.flatnonzero(part[group] == k) for k in range(n_parts)]
        sums = [_sum_on_device(features, group, n_groups, rows, weight, shift) for rows in chosen]
    else:
        empty = NormalEquations(
            np.zeros((n_features, n_features)), np.zeros((n_groups, n_features)),
            np.zeros(n_groups), shift,
        )  # fmt: skip
        sums = [empty] * n_parts
        for block in feature_blocks(*features.shape):
            row_part = part[group[block]]
            for k in range(n_parts):
                rows = np.flatnonzero(row_part == k)
                if len(rows) == 0:
                    continue
                x = features[block] if len(rows) == len(row_part) else features[block][rows]
                w = None if weight is None else weight[block][rows]
                sums[k] += NormalEquations.from_rows(
                    x, group[block][rows], n_groups, w, shift=shift
                )
    if not all(np.isfinite(s.moments).all() and np.isfinite(s.gram).all() for s in sums):
        raise non_finite_features(features)
    return sums


def _sum_on_device(
    features: FeatureRows,
    group: IntArray,
    n_groups: int,
    rows: IntArray,
    weight: FloatArray | None,
    shift: FloatArray,
) -> NormalEquations:
    """Normal equations of the given rows, summed where they are and brought over once."""
    n_features = features.shape[1]
    first = features[:1]
    assert on_device(first)
    gram = first.send(np.zeros((n_features, n_features)))
    moments = first.send(np.zeros((n_groups, n_features)))
    near = first.send(shift)
    for block in feature_blocks(len(rows), n_features, device=True):
        own = rows[block]
        x = features[block] if len(rows) == len(features) else features[own]
        w = None if weight is None else first.send(weight[own])
        torch_kernels.add_moments(
            x.tensor, first.send(group[own]), w, near, gram=gram, moments=moments
        )
    weights = None if weight is None else weight[rows]
    total = np.bincount(group[rows], weights, minlength=n_groups).astype(np.float64)
    return NormalEquations(gram.cpu().numpy(), moments.cpu().numpy(), total, shift)


def sum_residuals(
    features: FeatureRows,
    group: IntArray,
    solution: LinearMap,
    targets: FloatArray,
    *,
    centre: FloatArray,
    weight: FloatArray | None = None,
) -> FloatArray:
    """``sum w (x - centre) (t - x'c - b)`` over rows in memory, for a step of refinement.

    Rows of domains whose target is NaN are left out.
    """
    total = np.zeros(features.shape[1])
    at_centre = float(solution.intercept + centre @ solution.coef)
    for block in feature_blocks(*features.shape, device=reads_on_device(features)):
        target = targets[group[block]]
        used = ~np.isnan(target)
        x = features[block] if used.all() else features[block][used]
        w = None if weight is None else weight[block][used]
        if on_device(x):
            total += torch_kernels.residual_sum(
                x.tensor, x.send(target[used]), None if w is None else x.send(w),
                coef=x.send(solution.coef), intercept=at_centre, centre=x.send(centre),
            )  # fmt: skip
            continue
        x = x - centre  # in float64
        residual = target[used] - (x @ solution.coef + at_centre)
        if w is not None:
            residual *= w
        total += residual @ x
    return total


def product(features: Array, coef: FloatArray) -> FloatArray:
    """``features @ coef`` of a block in float64."""
    if on_device(features):
        return torch_kernels.linear_values(features.tensor, features.send(coef))
    # What is not finite shows in the values, and the caller says so.
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(features.astype(np.float64) @ coef)


def reads_on_device(features: FeatureRows) -> bool:
    """Whether blocks of these features are on a device."""
    return on_device(features[:1])


def feature_blocks(n_rows: int, n_features: int, *, device: bool = False) -> list[slice]:
    """Blocks of rows whose float64 copy is of bounded size."""
    return row_blocks(n_rows, n_features * 8, _DEVICE_BLOCK_BYTES if device else _BLAS_BLOCK_BYTES)
