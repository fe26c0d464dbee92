"""Logits as features, for classifiers without other features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from domaincal._row_arrays import RowParts, parts_of, row_range
from domaincal._tensors import DeviceArray, on_device
from domaincal._typing import Array
from domaincal.kernels import torch_kernels


@dataclass(frozen=True, eq=False)
class SortedLogits:
    """Feature matrix of sorted logits: the logits of each row in descending order, minus the mean.

    Rows are computed when they are read, so that no second matrix of logits is in memory.

    Examples
    --------
    >>> import numpy as np
    >>> SortedLogits(np.array([[1.0, 5.0, 0.0]]))[:1].tolist()
    [[3.0, -1.0, -2.0]]
    """

    logits: Array

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the logits."""
        return self.logits.shape

    @property
    def row_parts(self) -> RowParts | None:
        """Places where the logits are, if this process does not read them."""
        return parts_of(self.logits)

    @property
    def row_range(self) -> range:
        """Numbers of the rows that can be read."""
        return row_range(self.logits)

    def __len__(self) -> int:
        return len(self.logits)

    def __getitem__(self, index: Any) -> Any:
        chosen = self.logits[index]
        if on_device(chosen):
            return DeviceArray(torch_kernels.sorted_and_centred(chosen.tensor))
        rows = np.sort(chosen, axis=1)[:, ::-1].astype(np.float64)
        with np.errstate(invalid="ignore"):  # infinite logits give NaN, which the caller reports
            return np.asarray(rows - rows.mean(axis=1, keepdims=True))
