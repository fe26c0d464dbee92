"""Scores of rows that are read in blocks: sums over the rows of each domain."""

from __future__ import annotations

from typing import Any

import numpy as np

from domaincal._typing import FloatArray
from domaincal._validation import check_confidences
from domaincal.calibrators.blocked_predictions import each_block
from domaincal.data import BlockedRows, CalibrationData
from domaincal.data.blocked_rows import domain_names_of
from domaincal.evaluation.fitting import block_predictor
from domaincal.kernels.dispatch import predicted_classes
from domaincal.statistics.domain_bins import DomainBins


def score_blocks(
    fitted: Any, rows: BlockedRows, *, n_bins: int
) -> tuple[DomainBins, FloatArray, FloatArray]:
    """Bins of each domain, and the means of NLL and Brier score, in one pass over the rows."""
    predictor = block_predictor(fitted, rows)
    names = domain_names_of(rows)
    number = {name: k for k, name in enumerate(names.tolist())}
    bins: list[DomainBins] = []
    sums = np.zeros((3, len(names)))  # rows, NLL, Brier score

    def add(block: CalibrationData) -> None:
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

    for _ in each_block(rows, add):
        pass
    n, nll, brier = sums
    return bins[0], nll / n, brier / n
