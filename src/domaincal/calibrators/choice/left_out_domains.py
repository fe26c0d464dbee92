"""Scores of calibrators on domains that are left out of their fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from domaincal._typing import Array, FloatArray, IntArray
from domaincal._validation import check_confidences
from domaincal.calibrators.batch.batch_rows import (
    domain_profile,
    domain_rows,
    domain_values,
    feature_directions,
)
from domaincal.data import CalibrationData
from domaincal.data.batches import BatchSize, shuffled_batches
from domaincal.statistics import LabelledRows, fit_temperature
from domaincal.statistics.domain_bins import DomainBins
from domaincal.statistics.domain_folds import similar_domain_folds


@dataclass(frozen=True, eq=False)
class LeftOutDomains:
    """Rows whose domains are left out in turn.

    Attributes
    ----------
    logits, labels : arrays of shape (n, n_classes) and (n,)
    features : array of shape (n, n_features), or None
    codes : array of shape (n,)
        Domain of each row.
    weight : array of shape (n,), or None
        Weight of each row; none is 0.
    """

    logits: Array
    labels: Array
    features: Array | None
    codes: IntArray
    weight: FloatArray | None

    def scores(
        self,
        candidates: Mapping[str, Any],
        *,
        batch_size: BatchSize,
        n_bins: int,
        random: np.random.Generator,
    ) -> dict[str, pd.DataFrame]:
        """Scores of each candidate: a frame with ece, excess and nll of each left-out domain.

        The left-out rows are predicted in batches of ``batch_size`` rows of one domain.
        """
        folds = self._folds()[self.codes]
        batches = shuffled_batches(self.codes, batch_size, random)
        records: dict[str, list[tuple[float, ...]]] = {name: [] for name in candidates}
        for fold in range(folds.max() + 1):
            others, left_out = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
            for name, candidate in candidates.items():
                fitted = self._fit(candidate, others)
                records[name] += self._domain_scores(fitted, left_out, batches[left_out], n_bins)
        return {
            name: pd.DataFrame(rows, columns=["ece", "excess", "nll"])
            for name, rows in records.items()
        }

    def _folds(self) -> IntArray:
        """Fold of each domain: similar domains are left out together."""
        pooled = fit_temperature(LabelledRows(self.logits, self.labels, weight=self.weight))
        domains = np.arange(self.codes.max() + 1)
        chosen = domain_rows(self.logits, self.codes, domains, self.weight)
        directions = None
        if self.features is not None:
            directions = feature_directions(self.features, chosen)
        values = domain_values(
            self.logits, self.features, chosen,
            beta=1.0 / float(pooled.temperature[0]), directions=directions,
        )  # fmt: skip
        return similar_domain_folds(np.concatenate([domain_profile(*one) for one in values]))

    def _fit(self, candidate: Any, rows: IntArray) -> Any:
        return clone(candidate).fit(
            self.logits[rows],
            self.labels[rows],
            features=None if self.features is None else self.features[rows],
            domains=self.codes[rows],
            sample_weight=None if self.weight is None else self.weight[rows],
        )

    def _domain_scores(
        self, fitted: Any, rows: IntArray, batches: IntArray, n_bins: int
    ) -> list[tuple[float, ...]]:
        """ECE, excess and NLL of each domain among these rows."""
        # No batch may have the number of a domain, whose temperature could be looked up.
        batches = batches + self.codes.max() + 1
        data = CalibrationData(
            self.logits[rows],
            labels=self.labels[rows],
            features=None if self.features is None else self.features[rows],
            domains=batches,
        )
        scores = fitted.score_rows(data)
        hits = self.logits[rows].argmax(axis=1) == self.labels[rows]
        weight = np.ones(len(rows))
        # Fractions do not determine the chance part of the ECE: such rows count as one each.
        if self.weight is not None and (self.weight == np.round(self.weight)).all():
            weight = self.weight[rows]
        present, codes = np.unique(self.codes[rows], return_inverse=True)
        bins = DomainBins.from_confidences(
            check_confidences(scores.confidence),
            hits,
            codes,
            len(present),
            n_bins=n_bins,
            weight=weight,
        )
        nll = np.bincount(codes, weight * scores.nll) / np.bincount(codes, weight)
        ece = bins.calibration_error()
        return list(zip(ece.tolist(), (ece - bins.floor()).tolist(), nll.tolist(), strict=True))
