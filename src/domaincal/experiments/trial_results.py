"""Trial results: scores, bins and temperatures of one method in one repeat of one partition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from domaincal._typing import FloatArray
from domaincal._warnings import handle_warnings
from domaincal.calibrators import DomainTemperatureScaling
from domaincal.data import CalibrationData
from domaincal.evaluation.fitting import fit_clone
from domaincal.evaluation.score_table import (
    COLUMNS,
    DomainScores,
    domain_scores,
    temperature_spread,
)
from domaincal.experiments.methods import Method
from domaincal.statistics import BinSums


@dataclass(frozen=True, eq=False)
class TrialResult:
    """Scores of a trial on each domain.

    Attributes
    ----------
    table : DataFrame
        One row for each domain: kind, domain and the scores of :func:`score_table`. For methods
        with a temperature also learned, predicted, low, high, mean and deviation, as in
        :func:`temperature_table`, and calibrated, the T_k of the calibration rows (NaN if OOD).
    bins : array, shape (n_domains, 3, n_bins)
        Weight, confidence and hits in each bin, for each row of the table.
    edges : array, shape (n_bins + 1,)
        Edges of the bins.
    provenance : dict
        Provenance of the data.
    """

    table: pd.DataFrame
    bins: FloatArray
    edges: FloatArray
    provenance: Mapping[str, Any]

    def sums(self, rows: Any = slice(None)) -> BinSums:
        """Bins of the domains in the given rows of the table, added up."""
        return BinSums(self.edges, *self.bins[rows].sum(axis=0))


@dataclass(frozen=True, eq=False)
class SplitData:
    """One split of the data, which all methods share.

    Attributes
    ----------
    train : CalibrationData
        Rows to fit.
    scored : mapping from "InD" and "OOD" to CalibrationData
        Rows to score.
    oracles : mapping from "InD" and "OOD" to DomainTemperatureScaling
        Temperature of each domain, fitted to the scored rows themselves.
    calibrated : Series indexed by domain
        T_k: temperature of each InD domain, fitted to its calibration rows.
    """

    train: CalibrationData
    scored: Mapping[str, CalibrationData]
    oracles: Mapping[str, DomainTemperatureScaling]
    calibrated: pd.Series[float]

    @classmethod
    def with_oracles(
        cls, train: CalibrationData, scored: Mapping[str, CalibrationData]
    ) -> SplitData:
        """Fit the oracles to the scored rows, and the T_k to the rows of the fit."""
        oracles = {kind: _oracle(data) for kind, data in scored.items()}
        return cls(train, scored, oracles, _oracle(train).domain_temperatures_)


def _oracle(data: CalibrationData) -> DomainTemperatureScaling:
    """Temperatures fitted to all domains, including small and degenerate ones."""
    # Without warnings: the oracle is a reference, not a method to warn about.
    with handle_warnings(lambda message, category: None):
        oracle: DomainTemperatureScaling = fit_clone(DomainTemperatureScaling(), data)
    oracle.used_domains_ = oracle.domain_temperatures_.index.to_numpy()
    return oracle


def run_trial(method: Method, data: SplitData, *, n_bins: int) -> TrialResult:
    """Fit a method once, and score it on the InD and OOD domains."""
    fitted = None if method.is_oracle else fit_clone(method.calibrator(), data.train)
    tables, bins, edges = [], [], np.empty(0)
    for kind, scored in data.scored.items():
        if kind == "OOD" and method.ind_only:
            continue
        oracle = data.oracles[kind]
        scores = list(domain_scores(oracle if fitted is None else fitted, scored, n_bins=n_bins))
        tables.append(_table(kind, scores, oracle, data.calibrated))
        bins += [np.stack([s.bins.weight, s.bins.confidence, s.bins.hits]) for s in scores]
        edges = scores[0].bins.edges
    table = pd.concat(tables, ignore_index=True)
    return TrialResult(table, np.stack(bins), edges, data.train.provenance)


def _table(
    kind: str,
    scores: list[DomainScores],
    oracle: DomainTemperatureScaling,
    calibrated: pd.Series[float],
) -> pd.DataFrame:
    """One row for each domain; see :class:`TrialResult`."""
    table = pd.DataFrame([s.record() for s in scores], columns=list(COLUMNS[1:]))
    table.insert(0, "kind", kind)
    temperatures = [s.temperatures for s in scores if s.temperatures is not None]
    if not temperatures:
        return table
    table["learned"] = table["domain"].map(oracle.domain_temperatures_)
    table["calibrated"] = table["domain"].map(calibrated)
    return table.join(pd.DataFrame(map(temperature_spread, temperatures)))
