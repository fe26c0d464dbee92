"""Predictions of heads, block by block, on the host or on a device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from domaincal._tensors import DeviceArray
from domaincal._typing import Array, FeatureMatrix, FloatArray
from domaincal.calibrators.heads.regression_problem import as_floats
from domaincal.statistics.blocks import Workers, row_blocks

#: Size of the blocks on a device.
DEVICE_BLOCK_BYTES = 1 << 28


def predict_blocks(
    predict: Callable[[Array], Array],
    features: FeatureMatrix,
    blocks: list[slice],
    workers: Workers | None = None,
    dtype: np.dtype | None = None,
) -> FloatArray:
    """Predictions for all rows; NaN for rows that are not finite.

    ``predict`` takes the features of a block. ``dtype`` is the precision in which the head
    computes; by default that of the features. With ``workers``, blocks run on threads.
    """

    def predict_block(block: slice) -> Array:
        with np.errstate(over="ignore"):  # numbers too large for the dtype become infinite
            x = np.asarray(features[block])
            x = as_floats(x) if dtype is None else x.astype(dtype)
        finite = np.asarray(np.isfinite(x).all(axis=1))
        if not finite.all():
            x = np.where(finite[:, None], x, x.dtype.type(0.0))
        return np.where(finite, predict(x), np.nan)

    parts = map(predict_block, blocks) if workers is None else workers.map(predict_block, blocks)
    return np.concatenate([*parts]).astype(np.float64, copy=False)


def predict_on_device(
    predict: Callable[[Any], Any], features: FeatureMatrix, *, reference: Array
) -> FloatArray:
    """Predictions for features on a device, as :func:`predict_blocks` makes them on the host.

    ``predict`` maps a tensor to a tensor. ``reference`` holds the rows that the head compares
    with; features are converted to its dtype.
    """
    predictions = []
    for block in row_blocks(len(features), 8 * max(reference.shape), DEVICE_BLOCK_BYTES):
        rows: DeviceArray = features[block].astype(reference.dtype)
        finite = rows.tensor.isfinite().all(1)
        predicted = predict(rows.tensor.masked_fill(~finite[:, None], 0.0))
        invalid = ~finite if predicted.ndim == 1 else ~finite[:, None]
        predictions.append(predicted.masked_fill(invalid, np.nan))
    return np.concatenate([part.cpu().numpy() for part in predictions])
