"""A cell: what one method scores in one repeat of one partition, kept in a file of its own."""

import hashlib
import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from domaincal._files import read_tensors, write_tensors
from domaincal._typing import FloatArray
from domaincal.calibrators import DomainTemperatureScaling
from domaincal.data import CalibrationData
from domaincal.errors import DomaincalWarning, FileFormatError
from domaincal.evaluation.evaluate import COLUMNS, domain_scores
from domaincal.evaluation.fitting import fitted_to
from domaincal.evaluation.temperature_table import predicted_temperatures
from domaincal.experiments.methods import Method
from domaincal.statistics import BinSums

_FORMAT, _VERSION = "domaincal cell", "2"


@dataclass(frozen=True, eq=False)
class Cell:
    """Scores of each domain, the bins behind them, and temperatures where there are any.

    Attributes
    ----------
    table : DataFrame
        kind, domain and the scores of a results table; of methods with a temperature also learned,
        predicted, low and high, as in :func:`temperature_table`.
    bins : array, shape (domains, 3, n_bins)
        Weight, confidence and hits in the bins of each row of the table.
    edges : array, shape (n_bins + 1,)
    provenance : dict
        Of the rows.
    """

    table: pd.DataFrame
    bins: FloatArray
    edges: FloatArray
    provenance: Mapping[str, Any]

    def sums(self, rows: Any = slice(None)) -> BinSums:
        """Bins of some rows of the table together: those of pooled domains."""
        return BinSums(self.edges, *self.bins[rows].sum(axis=0))


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows to fit, rows to score by kind, and what their own labels would give.

    All methods share them.
    """

    train: CalibrationData
    scored: Mapping[str, CalibrationData]
    oracles: Mapping[str, DomainTemperatureScaling]

    @classmethod
    def of(cls, train: CalibrationData, scored: Mapping[str, CalibrationData]) -> "Rows":
        """Fits the oracles: temperatures of each domain on the rows that are scored."""
        return cls(train, scored, {kind: _oracle(rows) for kind, rows in scored.items()})


def _oracle(rows: CalibrationData) -> DomainTemperatureScaling:
    """The temperature of each domain, in sample, also where nobody should rely on it."""
    with warnings.catch_warnings():  # of methods, not of the yardstick
        warnings.simplefilter("ignore", DomaincalWarning)
        oracle: DomainTemperatureScaling = fitted_to(DomainTemperatureScaling(), rows)
    oracle.used_domains_ = oracle.domain_temperatures_.index.to_numpy()
    return oracle


def compute_cell(method: Method, rows: Rows, *, n_bins: int) -> Cell:
    """Fit a method and score it on each kind of domains."""
    tables, bins, edges = [], [], np.empty(0)
    fitted = None if method.is_oracle else fitted_to(method.calibrator(), rows.train)
    for kind, part in rows.scored.items():
        if kind == "OOD" and method.ind_only:
            continue
        calibrator = rows.oracles[kind] if fitted is None else fitted
        scores = list(domain_scores(calibrator, part, n_bins=n_bins))
        table = pd.DataFrame([s.record() for s in scores], columns=list(COLUMNS[1:]))
        table.insert(0, "kind", kind)
        if hasattr(calibrator, "predict_temperature"):
            own = rows.oracles[kind].domain_temperatures_
            spread = predicted_temperatures(calibrator, part)
            table["learned"] = table["domain"].map(own)
            table = table.join(spread, on="domain")
        tables.append(table)
        bins += [np.stack([s.bins.weight, s.bins.confidence, s.bins.hits]) for s in scores]
        edges = scores[0].bins.edges
    table = pd.concat(tables, ignore_index=True)
    return Cell(table, np.stack(bins), edges, rows.train.provenance)


def cell_path(folder: Path, key: Mapping[str, Any]) -> Path:
    """Where the cell of a key is kept: another key is another file."""
    digest = hashlib.sha256(_text(key).encode()).hexdigest()
    return folder / f"{digest[:32]}.safetensors"


def write_cell(path: Path, cell: Cell, key: Mapping[str, Any]) -> None:
    """Write a cell, atomically."""
    write_tensors(
        path,
        {"bins": cell.bins, "edges": cell.edges},
        {
            "format": _FORMAT,
            "version": _VERSION,
            "key": _text(key),
            "table": json.dumps(cell.table.to_dict("list")),
            "provenance": json.dumps(cell.provenance),
        },
    )


def read_cell(path: Path, key: Mapping[str, Any]) -> Cell | None:
    """The cell of a key; None if there is none that can be read."""
    try:
        tensors, texts = read_tensors(path)
        if texts.get("format") != _FORMAT or texts.get("key") != _text(key):
            return None
        table = pd.DataFrame(json.loads(texts["table"]))
        provenance = json.loads(texts["provenance"])
        return Cell(table, tensors["bins"], tensors["edges"], provenance)
    except (FileNotFoundError, FileFormatError, KeyError, ValueError):
        return None  # damaged by a full disk, say: it is computed again


def _text(key: Mapping[str, Any]) -> str:
    return json.dumps({"version": _VERSION, **key}, sort_keys=True)
