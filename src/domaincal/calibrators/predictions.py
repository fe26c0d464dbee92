"""Results of calibrators: predictions, and scores of labelled rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from domaincal._tensors import as_array, on_device
from domaincal._typing import Array, FloatArray
from domaincal.kernels import numpy_kernels, torch_kernels
from domaincal.statistics.blocks import row_blocks

# Size of the float64 probabilities that are computed at a time.
_BLOCK_BYTES = 1 << 24
_DEVICE_BLOCK_BYTES = 1 << 28


@dataclass(frozen=True, eq=False)
class Predictions:
    """Confidence, probabilities and temperature of the same rows.

    Attributes
    ----------
    confidence : array of shape (n,)
        Calibrated probability of the predicted class, the argmax of the logits.
    probabilities : array of shape (n, n_classes)
        Calibrated probabilities of all classes.
    temperature : array of shape (n,), or None
        None for methods without a temperature.
    """

    confidence: FloatArray
    probabilities: Array
    temperature: FloatArray | None


@dataclass(frozen=True, eq=False)
class RowScores:
    """Scores of labelled rows, as numpy arrays.

    Attributes
    ----------
    confidence : array of shape (n,)
        Calibrated probability of the predicted class, the argmax of the logits.
    nll, brier : array of shape (n,)
        Negative log-likelihood and Brier score.
    temperature : array of shape (n,), or None
        None for methods without a temperature.
    """

    confidence: FloatArray
    nll: FloatArray
    brier: FloatArray
    temperature: FloatArray | None


def proper_scores(
    block_probabilities: Callable[[slice], Any], labels: Array, *, n_classes: int, device: bool
) -> tuple[FloatArray, FloatArray]:
    """NLL and Brier score of each row, computed block by block.

    ``block_probabilities`` returns the float64 probabilities of the given rows. ``device`` says
    whether they are on a device, where blocks are larger.
    """
    nll, brier = np.empty(len(labels)), np.empty(len(labels))
    block_bytes = _DEVICE_BLOCK_BYTES if device else _BLOCK_BYTES
    for block in row_blocks(len(labels), 8 * n_classes, block_bytes):
        p = as_array(block_probabilities(block))
        if on_device(p):
            device_labels = p.send(labels[block].astype(np.int64))
            of_label, square = torch_kernels.label_and_square(p.tensor, device_labels)
        else:
            of_label, square = numpy_kernels.label_and_square(p, labels[block])
        nll[block] = numpy_kernels.row_nll(of_label, p.dtype)
        brier[block] = numpy_kernels.row_brier(of_label, square)
    return nll, brier
