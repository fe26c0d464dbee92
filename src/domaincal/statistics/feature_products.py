"""Blocks of the rows of features, their groups on a device, and products with coefficients."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from domaincal._row_arrays import row_range
from domaincal._tensors import DeviceArray, as_codes, on_device
from domaincal._typing import Array, FeatureMatrix, FloatArray, IntArray
from domaincal.kernels import torch_features
from domaincal.kernels.device_groups import RowGroups
from domaincal.statistics.blocks import row_blocks

#: Size of a block, which is converted to float64 and multiplied by multi-threaded BLAS.
BLAS_BLOCK_BYTES = 1 << 25
#: Size of a block on a device, where a call has a large overhead.
DEVICE_BLOCK_BYTES = 1 << 28


@dataclass(frozen=True, eq=False)
class LinearMap:
    """``features @ coef + intercept``."""

    coef: FloatArray
    intercept: float = 0.0

    def __call__(self, features: FeatureMatrix) -> FloatArray:
        """Values of the rows, computed block by block in float64."""
        if on_device(features):
            return np.asarray(self.on_device(features).cpu().numpy())
        out = np.empty(len(features))
        for block in feature_blocks(*features.shape, device=reads_on_device(features)):
            out[block] = product(features[block], self.coef)
        return out + self.intercept

    def on_device(self, features: DeviceArray) -> Any:
        """The same for features on a device, as a tensor there."""
        values = torch_features.linear_values(features.tensor, features.send(self.coef))
        return values + self.intercept


def product(features: Array, coef: FloatArray) -> FloatArray:
    """``features @ coef`` in float64."""
    if on_device(features):
        values = torch_features.linear_values(features.tensor, features.send(coef))
        return np.asarray(values.cpu().numpy())
    # Features that are not finite give values that are not finite, which the caller reports.
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(features.astype(np.float64) @ coef)


def reads_on_device(features: FeatureMatrix) -> bool:
    """Whether slices of these features are on a device."""
    first = row_range(features).start
    return on_device(features[first : first + 1])


def feature_blocks(n_rows: int | range, n_features: int, *, device: bool = False) -> list[slice]:
    """Blocks of rows whose float64 copies have a bounded size."""
    return row_blocks(n_rows, n_features * 8, DEVICE_BLOCK_BYTES if device else BLAS_BLOCK_BYTES)


def row_groups(features: FeatureMatrix, domain: IntArray | RowGroups, n_domains: int) -> RowGroups:
    """Groups of the rows of features on a device by domain."""
    if isinstance(domain, RowGroups):
        return domain
    device = features[:1].device
    return RowGroups(len(domain), device, as_codes(domain, device), n_domains)


def device_blocks(
    features: FeatureMatrix, groups: RowGroups, weight: FloatArray | None
) -> Iterator[tuple[Any, RowGroups, Any]]:
    """Tensors of features, groups and weights: all rows, or blocks of features that are computed.

    The float64 copy of a block has a bounded size.
    """
    blocks = (
        [slice(0, len(features))]
        if on_device(features)
        else feature_blocks(*features.shape, device=True)
    )
    for block in blocks:
        x = features[block]
        yield x.tensor, groups.part(block), None if weight is None else x.send(weight[block])
