"""Predictions of batches whose rows are read in blocks, in two passes.

The first pass sums the statistics of each batch, from which its temperature follows; the second
pass predicts the rows of each block at the temperature of their batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import cast

import numpy as np
import pandas as pd

from domaincal._typing import Array, FloatArray, IntArray
from domaincal.calibrators.base import Calibrator
from domaincal.calibrators.batch.batch_map import FeatureDirections
from domaincal.calibrators.batch.batch_rows import row_values
from domaincal.calibrators.domain_temperature import DomainTemperatureScaling
from domaincal.calibrators.inputs import order_features
from domaincal.calibrators.temperature import TemperatureScaling
from domaincal.calibrators.temperature_calibrator import TemperatureCalibrator
from domaincal.data import BlockedRows, CalibrationData
from domaincal.data.blocked_rows import domain_names_of
from domaincal.errors import InputError
from domaincal.statistics.batch_sums import BatchSums
from domaincal.statistics.blocks import row_blocks
from domaincal.statistics.domain_counts import domain_counts

#: Largest size of the logits and features of batches that are read together.
GROUP_BYTES = 1 << 30


@dataclass(frozen=True, eq=False)
class BlockStatistics:
    """Sums of the statistics of the batches of a block, with their names."""

    names: Array
    sums: BatchSums

    @classmethod
    def from_rows(
        cls,
        block: CalibrationData,
        features: Array | None,
        *,
        beta: float,
        directions: FeatureDirections | None,
    ) -> BlockStatistics:
        """Sums of a block, with the features in the order of the fit."""
        codes, names = block.domain_codes
        values = row_values(block.logits, features, slice(None), beta=beta, directions=directions)
        return cls(names, values.sums(codes, len(names)))


def add_statistics(blocks: Iterator[BlockStatistics], *, names: Array) -> BatchSums:
    """Sums of all batches, which have these names."""
    number = {name: k for k, name in enumerate(names.tolist())}
    first = next(blocks)
    total = first.sums.zeros(len(names))
    for block in chain([first], blocks):
        total.add(block.sums, np.array([number[name] for name in block.names.tolist()]))
    return total


def ordered_features(calibrator: Calibrator, block: CalibrationData) -> Array | None:
    """Features of a block, in the order of the fit."""
    fitted = getattr(calibrator, "feature_columns_", None)
    found: Array | None = order_features(block.features, block.feature_names, fitted)
    return found


def table_of_batches(calibrator: TemperatureCalibrator, rows: BlockedRows) -> Calibrator:
    """Table of the temperatures of batches, whose rows are read a few batches at a time."""
    names = domain_names_of(rows)
    codes = None if rows.domains is None else cast(Array, rows.domains.codes)
    n_rows = np.array([len(rows)]) if codes is None else domain_counts(codes, len(names))
    if n_rows.max() * rows.row_bytes > GROUP_BYTES:
        raise InputError(
            f"{type(calibrator).__name__} needs the rows of a batch in memory, but one has "
            f"{int(n_rows.max())} rows; give domains with fewer rows, or use "
            "BatchTemperatureScaling, which needs sums only."
        )
    group = np.cumsum(n_rows * rows.row_bytes) // GROUP_BYTES
    temperatures = np.empty(len(names))
    for one in np.unique(group):
        some = rows.select(_rows_of_group(codes, group == one, len(rows)))
        found = calibrator.predict_temperature(some)
        own, own_names = some.domain_codes
        places = np.searchsorted(names, own_names)
        temperatures[places] = found[np.unique(own, return_index=True)[1]]
    pooled = float(calibrator.temperature_)
    if codes is None:
        return lookup_for_all(calibrator, float(temperatures[0]))
    return lookup(calibrator, names, temperatures, pooled)


def _rows_of_group(codes: Array | None, group: Array, n_rows: int) -> IntArray:
    """Numbers of the rows of a group of domains."""
    if codes is None:
        return np.arange(n_rows)
    found = [block.start + np.flatnonzero(group[codes[block]]) for block in row_blocks(n_rows, 8)]
    return np.concatenate(found)


def lookup(
    calibrator: Calibrator, names: Array, temperatures: FloatArray, pooled: float
) -> DomainTemperatureScaling:
    """Calibrator that gives each of the named domains its temperature."""
    index = pd.Index(names, name="domain")
    table = DomainTemperatureScaling()
    table.temperature_ = pooled
    table.domain_temperatures_ = pd.Series(temperatures, index=index, name="temperature")
    table.domain_standard_errors_ = pd.Series(np.nan, index=index, name="standard_error")
    table.used_domains_ = names
    table.n_iter_ = 0
    _copy_facts(calibrator, table)
    return table


def lookup_for_all(calibrator: Calibrator, temperature: float) -> TemperatureScaling:
    """Calibrator that gives all rows the same temperature."""
    table = TemperatureScaling()
    table.temperature_ = temperature
    table.standard_error_ = float("nan")
    table.n_iter_ = 0
    _copy_facts(calibrator, table)
    return table


def _copy_facts(calibrator: Calibrator, table: Calibrator) -> None:
    for name in ("n_classes_", "class_names_", "data_fingerprint_", "provenance_"):
        setattr(table, name, getattr(calibrator, name))
