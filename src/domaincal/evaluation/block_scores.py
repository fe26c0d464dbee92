"""Scores of rows that are read in blocks: sums over the rows of each domain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from domaincal._typing import Array, FloatArray
from domaincal._validation import check_confidences
from domaincal.calibrators.blocked_predictions import sum_blocks
from domaincal.data import BlockedRows, CalibrationData
from domaincal.data.blocked_rows import domain_names_of
from domaincal.evaluation.fitting import block_predictor
from domaincal.kernels.dispatch import predicted_classes
from domaincal.statistics.domain_bins import DomainBins


@dataclass(frozen=True, eq=False)
class _BlockScores:
    """Sums of the domains of a block: their names, bins, and rows of n, NLL and Brier score."""

    names: Array
    bins: DomainBins
    sums: FloatArray


def score_blocks(
    fitted: Any, rows: BlockedRows, *, n_bins: int
) -> tuple[DomainBins, FloatArray, FloatArray]:
    """Bins of each domain, and the means of NLL and Brier score, in one pass over the rows."""
    predictor = block_predictor(fitted, rows)
    bins, (n, nll, brier) = sum_blocks(
        rows,
        partial(_scores_of_block, predictor=predictor, n_bins=n_bins),
        partial(_add_up, names=domain_names_of(rows)),
    )
    return bins, nll / n, brier / n


def _scores_of_block(block: CalibrationData, *, predictor: Any, n_bins: int) -> _BlockScores:
    scores = predictor.score_rows(block)
    codes, names = block.domain_codes
    hits = predicted_classes(block.logits) == block.labels
    bins = DomainBins.from_confidences(
        check_confidences(scores.confidence), hits, codes, len(names), n_bins=n_bins
    )
    sums = [np.bincount(codes, values) for values in (None, scores.nll, scores.brier)]
    return _BlockScores(names, bins, np.stack(sums))


def _add_up(blocks: Iterator[_BlockScores], *, names: Array) -> list[Any]:
    """Bins and sums of all domains."""
    number = {name: k for k, name in enumerate(names.tolist())}
    bins: list[DomainBins] = []
    sums = np.zeros((3, len(names)))
    for block in blocks:
        present = np.array([number[name] for name in block.names.tolist()])
        if not bins:
            bins.append(DomainBins.empty(block.bins.edges, len(names)))
        bins[0].add(block.bins, present)
        sums[:, present] += block.sums
    return [bins[0], sums]
