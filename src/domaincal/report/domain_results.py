"""Results by domain for the page: scores, means, temperatures and reliability."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from domaincal._typing import Array, FloatArray, IntArray
from domaincal._warnings import handle_warnings
from domaincal.calibrators.predictions import RowScores
from domaincal.evaluation import summary_table
from domaincal.evaluation.score_table import bins_of_scores, table_of_scores
from domaincal.evaluation.temperature_table import learned_temperatures, temperature_spreads
from domaincal.metrics.reliability import curve_from_bins
from domaincal.report.plain_values import number, numbers, text
from domaincal.report.scored_rows import ScoredRows
from domaincal.statistics import BinSums
from domaincal.statistics.domain_bins import DomainBins

#: Coverage of the intervals of all calibration errors together.
LEVEL = 0.95
#: Name of the domain of rows without domains.
ALL_ROWS = "all rows"
# Of more domains, those with the largest excess have an interval: one takes several milliseconds.
_MOST_INTERVALS = 500
# Of more domains, those with the largest ECE before have a diagram of their own.
_MOST_DIAGRAMS = 500
_MEANS = {
    "confidence": "mean_confidence", "ece": "ece", "excess": "excess", "gap": "gap", "nll": "nll",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class DomainResults:
    """Results of each domain, before and after calibration.

    Parameters
    ----------
    rows : ScoredRows
    n_bins : int
    """

    rows: ScoredRows
    n_bins: int

    @cached_property
    def tables(self) -> dict[str, pd.DataFrame]:
        """Results tables with the column kind."""
        kind = np.where(self.rows.unseen, "unseen", "known")
        return {
            name: table_of_scores(name, scores, self.rows.data, n_bins=self.n_bins).assign(
                kind=kind
            )
            for name, scores in self._scores.items()
        }

    @cached_property
    def bins(self) -> dict[str, DomainBins]:
        """Bins of all domains."""
        return {
            name: bins_of_scores(scores, self.rows.data, n_bins=self.n_bins)
            for name, scores in self._scores.items()
        }

    @property
    def _scores(self) -> dict[str, RowScores]:
        return {"before": self.rows.before, "after": self.rows.after}

    def domains(self) -> dict[str, Any]:
        """Section ``domains``."""
        before = self.tables["before"]
        names = before["domain"].tolist()
        if self.rows.data.domains is None:
            names = [ALL_ROWS]
        return {
            "name": [text(name) for name in names],
            "kind": before["kind"].tolist(),
            "n": numbers(before["n"]),
            "accuracy": numbers(before["accuracy"]),
            **{name: self._scores_of_domains(name) for name in self.tables},
            "temperature": self._temperatures(),
        }

    def _scores_of_domains(self, name: str) -> dict[str, Any]:
        table = self.tables[name]
        low, high = self._intervals(name)
        return {
            "confidence": numbers(table["mean_confidence"]),
            "ece": numbers(table["ece"]),
            "low": numbers(low),
            "high": numbers(high),
            "floor": numbers(table["floor"]),
            "excess": numbers(table["excess"]),
            "nll": numbers(table["nll"]),
            "brier": numbers(table["brier"]),
        }

    def _intervals(self, name: str) -> tuple[FloatArray, FloatArray]:
        """Intervals of the ECE that hold for all domains together, as in compare_domains."""
        bins, n_domains = self.bins[name], len(self.rows.unseen)
        low, high = np.full(n_domains, np.nan), np.full(n_domains, np.nan)
        for k in _largest(self.tables[name]["excess"].to_numpy(), _MOST_INTERVALS):
            found = bins.of_domain(k).interval(LEVEL ** (1.0 / n_domains))
            low[k], high[k] = found.low, found.high
        return low, high

    def _temperatures(self) -> dict[str, Any] | None:
        """Temperatures learned from the labels, and those that were predicted."""
        predicted = self.rows.after.temperature
        if predicted is None:
            return None
        data = self.rows.data
        if data.domains is None:
            data = replace(data, domains=np.zeros(len(data), np.int64))
        with handle_warnings(lambda message, category: None):  # small domains have a large error
            learned = learned_temperatures(data)
        spread = temperature_spreads(predicted, data.domain_codes[0])
        columns = {
            "learned": learned["learned"], "error": learned["standard_error"],
            "predicted": spread["predicted"], "low": spread["low"], "high": spread["high"],
        }  # fmt: skip
        return {name: numbers(values, digits=6) for name, values in columns.items()}

    def means(self) -> dict[str, Any]:
        """Section ``means``: of all domains of a kind."""
        summary = summary_table(pd.concat(self.tables.values())).set_index(["kind", "method"])
        found: dict[str, Any] = {"unseen": None, "known": None}
        for kind in set(summary.index.get_level_values("kind")):
            before = summary.loc[kind, "before"]
            found[kind] = {
                "n_domains": int(before["n_domains"]),
                "n": int(before["n"]),
                "accuracy": number(before["accuracy"]),
            }
            for name in self.tables:
                row = summary.loc[kind, name]
                found[kind][name] = {key: number(row[column]) for key, column in _MEANS.items()}
        return found

    def chosen_domains(self) -> Array:
        """Mask of the unseen domains, or of all domains if none is unseen."""
        unseen = self.rows.unseen
        return unseen if unseen.any() else np.ones_like(unseen)

    def reliability(self) -> dict[str, Any]:
        """Section ``reliability``."""
        shown = np.sort(_largest(self.tables["before"]["ece"].to_numpy(), _MOST_DIAGRAMS))
        chosen = self.chosen_domains()
        found: dict[str, Any] = {
            "edges": numbers(self.bins["before"].edges),
            "all": {name: _bins(_pooled(bins, chosen)) for name, bins in self.bins.items()},
            "domain": shown.tolist(),
        }
        for name, bins in self.bins.items():
            found[name] = [_bins(bins.of_domain(k)) for k in shown]
        return found


def _largest(values: FloatArray, n: int) -> IntArray:
    """Numbers of the largest values; the first of equal ones."""
    return np.argsort(-values, kind="stable")[:n]


def _pooled(bins: DomainBins, chosen: Array) -> BinSums:
    sums = (getattr(bins, name)[chosen].sum(axis=0) for name in ("weight", "confidence", "hits"))
    return BinSums(bins.edges, *sums)


def _bins(sums: BinSums) -> dict[str, Any]:
    """Points of a reliability diagram: the bins with rows."""
    full = np.flatnonzero(sums.weight > 0)
    curve = curve_from_bins(sums)
    return {
        "bin": full.tolist(),
        "n": numbers(curve.n[full].astype(np.int64)),
        **{
            name: numbers(getattr(curve, name)[full])
            for name in ("confidence", "accuracy", "low", "high")
        },
    }
