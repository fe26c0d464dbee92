"""Scores of rows that are read in blocks: sums over the rows of each domain."""

from __future__ import annotations

from collections.abc import Iterator
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


def score_blocks(
    fitted: Any, rows: BlockedRows, *, n_bins: int
) -> tuple[DomainBins, FloatArray, FloatArray]:
    """Bins of each domain, and the means of NLL and Brier score, in one pass over the rows."""
    predictor, names = block_predictor(fitted, rows), domain_names_of(rows)
    bins, (n, nll, brier) = sum_blocks(rows, _sum_scores, predictor, names, n_bins)
    return bins, nll / n, brier / n


def _sum_scores(
    blocks: Iterator[CalibrationData], predictor: Any, names: Array, n_bins: int
) -> list[Any]:
    """Bins of each domain, and its sums: number of rows, NLL, Brier score."""
    number = {name: k for k, name in enumerate(names.tolist())}
    bins: list[DomainBins] = []
    sums = np.zeros((3, len(names)))
    for block in blocks:
        scores = predictor.score_rows(block)
        codes, of_block = block.domain_codes
        present = np.array([number[name] for name in of_block.tolist()])
        hits = predicted_classes(block.logits) == block.labels
        found = DomainBins.from_confidences(
            check_confidences(scores.confidence), hits, codes, len(of_block), n_bins=n_bins
        )
        if not bins:
            bins.append(DomainBins.empty(found.edges, len(names)))
        bins[0].add(found, present)
        for total, values in zip(sums, (None, scores.nll, scores.brier), strict=True):
            total[present] += np.bincount(codes, values)
    return [bins[0], sums]
