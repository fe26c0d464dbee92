"""Outputs of a network that wait to be written to a store as one shard."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from domaincal._typing import Array
from domaincal.data import CalibrationData
from domaincal.vision.extraction.batch_source import Batch, BatchSource, select_classes
from domaincal.vision.extraction.mixed_precision import MixedPrecision


@dataclass(eq=False)
class OutputShard:
    """Rows that are not written yet. The network's outputs stay on its device.

    Attributes
    ----------
    source : BatchSource
    provenance : dict
    network : MixedPrecision
    start : int
        Number of the first row in the store.
    n_rows : int
    created : float
        Time of the first row, by ``time.perf_counter``.
    """

    source: BatchSource
    provenance: dict[str, Any]
    network: MixedPrecision
    start: int
    n_rows: int = 0
    created: float = field(default_factory=time.perf_counter)
    _logits: list[Tensor] = field(default_factory=list)
    _features: list[Tensor] = field(default_factory=list)
    _batches: list[Batch] = field(default_factory=list)
    _finite: Tensor | None = None

    def add(self, batch: Batch) -> None:
        """Show a batch to the network, and check the previous batch while a GPU computes."""
        logits, features, finite = self.network.outputs(batch.images)
        self.check_last_batch()
        self._logits.append(logits)
        self._features.append(features)
        self._batches.append(batch)
        self.n_rows += len(logits)
        self._finite = finite
        if not logits.is_cuda:  # a loader may reuse the memory of the images for the next batch
            self.check_last_batch()

    def check_last_batch(self) -> None:
        """Compute the last batch again in float32 if it is not finite; drop it if that fails."""
        if self._finite is None:
            return
        finite, self._finite = bool(self._finite), None
        batch = self._batches.pop()
        if not finite:
            self.n_rows -= len(self._logits.pop())
            self._features.pop()
            logits, features, _ = self.network.float32_outputs(batch.images)
            self._logits.append(logits)
            self._features.append(features)
            self.n_rows += len(logits)
        self._batches.append(batch._replace(images=torch.empty(0)))

    def stream(self) -> Any:
        """CUDA stream of this thread on which the outputs are computed; None on the CPU."""
        logits = self._logits[0]
        return torch.cuda.current_stream(logits.device) if logits.is_cuda else None

    def data(self) -> CalibrationData:
        """Rows of the shard, on the host."""
        return CalibrationData(
            select_classes(torch.cat(self._logits), self.source).cpu().numpy(),
            labels=_concatenated([batch.labels for batch in self._batches]),
            features=torch.cat(self._features).cpu().numpy(),
            domains=_concatenated([batch.domains for batch in self._batches]),
            groups=_concatenated([batch.groups for batch in self._batches]),
            class_names=self.source.class_names,
            provenance=self.provenance,
        )


def _concatenated(parts: list[Array | None]) -> Array | None:
    known = [part for part in parts if part is not None]
    return np.concatenate(known) if known else None
