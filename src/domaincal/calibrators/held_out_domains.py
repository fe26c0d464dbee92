"""NLL of held-out domains: the criterion by which heads choose their hyperparameters."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from domaincal._row_arrays import row_range, sum_over_parts
from domaincal._tensors import on_device
from domaincal._typing import Array, FeatureMatrix, FloatArray, IntArray
from domaincal.calibrators.temperature_target import Clip, TemperatureTarget, temperature_limits
from domaincal.kernels import dispatch
from domaincal.statistics import LabelledRows, LinearMap, TemperatureFit, fit_temperature
from domaincal.statistics.blas_threads import one_blas_thread
from domaincal.statistics.blocks import Workers
from domaincal.statistics.feature_products import feature_blocks, product
from domaincal.statistics.temperature_sums import fit_without_parts

# Most bytes of copies of rows on a device, one for each fold without them.
_REPEATED_BYTES = 1 << 30


@dataclass(frozen=True, eq=False)
class HeldOutDomains:
    """Scores of temperatures on domains that are held out of the regression.

    Attributes
    ----------
    rows : LabelledRows
        All rows, with their domains.
    temperatures : array of shape (n_domains,)
        T_k; NaN for domains that are not used.
    pooled : TemperatureFit
        Temperature of all rows.
    target : TemperatureTarget
    clip : "auto", None or (low, high)
        Parameter of MD-TS, from which the limits of T follow.
    """

    rows: LabelledRows
    temperatures: FloatArray
    pooled: TemperatureFit
    target: TemperatureTarget
    clip: Clip

    def nll(self, values: FloatArray, folds: IntArray) -> FloatArray:
        """Mean NLL of each domain at the targets of its rows, predicted without its fold.

        ``folds`` is the fold of each domain, -1 for domains without one. The limits of T follow
        from the domains of the other folds. ``values`` is NaN for rows that are not scored.
        """
        row_folds = folds[np.asarray(self.rows.domain)]
        temperature = np.full(len(values), np.nan)
        for k in range(folds.max() + 1):
            own = row_folds == k
            temperature[own] = self._target_without(folds == k).to_temperature(values[own])
        sums = self.rows.sums(1.0 / temperature, per_row=True)
        with np.errstate(invalid="ignore"):
            return np.asarray(sums.nll / sums.weight)

    def pooled_targets(self, folds: IntArray) -> FloatArray:
        """Target of one temperature for each fold, fitted to the rows of all other folds."""
        row_folds, n_folds = folds[np.asarray(self.rows.domain)], int(folds.max()) + 1
        others = [(row_folds >= 0) & (row_folds != k) for k in range(n_folds)]
        logits = self.rows.logits
        if on_device(logits) and n_folds * logits.size * logits.itemsize <= _REPEATED_BYTES:
            return self.target.from_temperature(self._fit_repeated(others))
        weight = 1.0 if self.rows.weight is None else self.rows.weight
        temperatures = [
            fit_temperature(
                LabelledRows(logits, self.rows.labels, weight=np.where(mask, weight, 0.0))
            ).temperature[0]
            for mask in others
        ]
        return self.target.from_temperature(np.array(temperatures))

    def _fit_repeated(self, masks: list[Array]) -> FloatArray:
        """One temperature for the rows of each mask, fitted in the same passes over copies."""
        numbers = [np.flatnonzero(mask) for mask in masks]
        rows = self.rows.select(np.concatenate(numbers))
        fold = np.repeat(np.arange(len(masks)), [len(one) for one in numbers])
        return fit_temperature(replace(rows, domain=fold, n_domains=len(masks))).temperature

    def nll_of_maps(
        self, features: FeatureMatrix, folds: IntArray, maps: list[list[LinearMap]]
    ) -> FloatArray:
        """Mean NLL of each domain at the temperatures that maps predict, in one pass over the rows.

        ``folds`` holds the fold of each domain (-1 for domains without one), and ``maps[k]`` maps
        that were fitted without the domains of fold k. The result has one row for each map, and a
        last one for one temperature that is fitted to all other folds; NaN for domains without a
        fold.
        """
        pooled = fit_without_parts(
            self.rows, folds, len(maps), start=self.pooled.temperature
        ).temperature
        targets = [self._target_without(folds == k) for k in range(len(maps))]
        return mean_nll_of_maps(self.rows, features, folds, maps, targets, pooled)

    def _target_without(self, held_out: Array) -> TemperatureTarget:
        """Target with the limits of T that follow from the other domains."""
        others = np.where(held_out, np.nan, self.temperatures)
        low, high = temperature_limits(self.clip, others, self.pooled)
        return replace(self.target, low=low, high=high)


def mean_nll_of_maps(
    rows: LabelledRows,
    features: FeatureMatrix,
    folds: IntArray,
    maps: list[list[LinearMap]],
    targets: list[TemperatureTarget],
    pooled: FloatArray,
) -> FloatArray:
    """Mean NLL of :meth:`HeldOutDomains.nll_of_maps`, with the target and one T of each fold."""
    score = _FoldScores(maps, targets, pooled)
    weight, nll = np.moveaxis(sum_over_parts(_nll_sums, rows, features, folds, score), 2, 0)
    with np.errstate(invalid="ignore"):
        return np.asarray(nll / weight)


@dataclass(frozen=True, eq=False)
class _FoldScores:
    """Temperatures of rows under the maps of their fold, and under its pooled temperature."""

    maps: list[list[LinearMap]]
    targets: list[TemperatureTarget]
    pooled: FloatArray

    def beta(self, x: Array, fold: IntArray) -> FloatArray:
        """One over the temperatures, shape (n, n_maps + 1); NaN for rows without a fold."""
        n_maps = len(self.maps[0])
        coefs = np.stack([one.coef for of_fold in self.maps for one in of_fold], axis=1)
        values = product(x, coefs).reshape(len(x), len(self.maps), n_maps)
        beta = np.full((len(x), n_maps + 1), np.nan)
        for k, (of_fold, target) in enumerate(zip(self.maps, self.targets, strict=True)):
            own = fold == k
            intercepts = np.array([one.intercept for one in of_fold])
            beta[own, :-1] = 1.0 / target.to_temperature(values[own, k] + intercepts)
            pooled = target.from_temperature(self.pooled[k : k + 1])
            beta[own, -1] = 1.0 / target.to_temperature(pooled)
        return beta


def _nll_sums(
    rows: LabelledRows, features: FeatureMatrix, folds: IntArray, score: _FoldScores
) -> FloatArray:
    """Weight and NLL of each domain under each column of ``score.beta``."""
    domain = rows.domain
    assert domain is not None

    def block_sums(block: slice) -> FloatArray:
        codes = domain[block]
        beta = score.beta(features[block], folds[codes])
        z, y = rows.logits[block], rows.labels[block]
        sums = [
            dispatch.temperature_sums(
                z, y, column, domain=codes, n_domains=rows.n_domains, compiled=rows.compiled
            )
            for column in np.ascontiguousarray(beta.T)
        ]
        return np.stack(sums)[:, :, :2]

    width = max(features.shape[1], rows.logits.shape[1])
    with one_blas_thread(), Workers() as workers:
        return workers.sum(block_sums, feature_blocks(row_range(rows.logits), width))
