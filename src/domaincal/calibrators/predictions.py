"""What calibrators say of rows: predictions, and scores of labelled rows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from domaincal._tensors import array_or_rows, on_device
from domaincal._typing import Array, FloatArray
from domaincal.kernels import numpy_kernels, torch_kernels
from domaincal.statistics.blocks import row_blocks

# Of the float64 probabilities that exist at a time: on the host, and on a device.
_BLOCK_BYTES = 1 << 24
_DEVICE_BLOCK_BYTES = 1 << 28


@dataclass(frozen=True, eq=False)
class Predictions:
    """Confidence, probabilities and temperature of the same rows.

    Attributes
    ----------
    confidence : array, shape (n,)
        Calibrated probability of the predicted class, the argmax of the logits.
    probabilities : array, shape (n, n_classes)
    temperature : array, shape (n,), or None where the method has none
    """

    confidence: FloatArray
    probabilities: Array
    temperature: FloatArray | None


@dataclass(frozen=True, eq=False)
class RowScores:
    """Scores of labelled rows, as numpy arrays of shape (n,).

    Attributes
    ----------
    confidence : calibrated probability of the predicted class, the argmax of the logits
    nll, brier : negative log-likelihood and Brier score
    temperature : None where the method has none
    """

    confidence: FloatArray
    nll: FloatArray
    brier: FloatArray
    temperature: FloatArray | None


def proper_scores(
    probabilities: Callable[[slice], Any], labels: Array, *, n_classes: int, device: bool
) -> tuple[FloatArray, FloatArray]:
    """NLL and Brier score of each row; ``probabilities`` gives those of a block in float64."""
    nll, brier = np.empty(len(labels)), np.empty(len(labels))
    block_bytes = _DEVICE_BLOCK_BYTES if device else _BLOCK_BYTES
    for block in row_blocks(len(labels), 8 * n_classes, block_bytes):
        p = array_or_rows(probabilities(block))
        if on_device(p):
            sent = p.send(labels[block].astype(np.int64))
            of_label, square = torch_kernels.label_and_square(p.tensor, sent)
        else:
            of_label, square = numpy_kernels.label_and_square(p, labels[block])
        nll[block] = numpy_kernels.row_nll(of_label, p.dtype)
        brier[block] = numpy_kernels.row_brier(of_label, square)
    return nll, brier
