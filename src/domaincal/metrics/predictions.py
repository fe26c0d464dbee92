"""Confidences, hits and bin sums from probabilities and labels."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from domaincal._typing import Array, ArrayLike, FloatArray
from domaincal._validation import check_labels, check_probabilities
from domaincal.statistics import BinSums
from domaincal.statistics.bin_sums import Strategy


def check_predictions(probabilities: ArrayLike, labels: ArrayLike) -> tuple[Array, Array]:
    """Check probabilities and labels of the same rows."""
    p = check_probabilities(probabilities)
    return p, check_labels(labels, n_rows=len(p), n_classes=p.shape[1])


def confidence_and_hit(p: Array, y: Array) -> tuple[FloatArray, Array]:
    """Confidence of the predicted class (the first of ties), and whether it is the label."""
    predicted = p.argmax(axis=1)
    confidence = p[np.arange(len(p)), predicted].astype(np.float64)
    return np.minimum(confidence, 1.0), predicted == y


def bin_predictions(
    probabilities: ArrayLike,
    labels: ArrayLike,
    *,
    n_bins: int,
    strategy: Strategy = "uniform",
    sample_weight: ArrayLike | None = None,
) -> BinSums:
    """Bin sums of the predicted class."""
    confidences, hits = confidence_and_hit(*check_predictions(probabilities, labels))
    return BinSums.from_confidences(
        confidences, hits, n_bins=n_bins, strategy=strategy, sample_weight=sample_weight
    )


def bin_classes(
    p: Array, y: Array, *, n_bins: int, strategy: Strategy, sample_weight: ArrayLike | None
) -> Iterator[BinSums]:
    """Bin sums of the probability of each class; a hit is a row of the class."""
    for k in range(p.shape[1]):
        yield BinSums.from_confidences(
            np.minimum(p[:, k], 1.0), y == k, n_bins=n_bins, strategy=strategy,
            sample_weight=sample_weight,
        )  # fmt: skip
