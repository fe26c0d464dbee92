"""Groups of rows that are predicted together: sums over each, and places of rows in them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from domaincal.deploy.onnx.rows import GraphRows
from domaincal.deploy.onnx.tensors import Tensor


@dataclass(frozen=True)
class Batches:
    """Batches of rows.

    Attributes
    ----------
    number : Tensor of int64, shape (n,)
        Number of the batch of each row, from 0.
    counts : Tensor of int64, shape (n_batches,)
        Number of rows of each batch.
    """

    number: Tensor
    counts: Tensor

    @classmethod
    def of_domains(cls, rows: GraphRows) -> Batches:
        """Rows with the same code are one batch; a single code is that of all rows."""
        graph = rows.graph
        codes = rows.needed_domains().expand(rows.logits.n_rows())
        _, _, number, counts = graph.ops("Unique", codes, sorted=1, dtypes=["int64"] * 4)
        return cls(number, counts)

    def sums(self, values: Tensor) -> Tensor:
        """Sums of the rows of each batch, shape (n_batches, n_columns)."""
        graph = values.graph
        shape = graph.op("Shape", values, dtype="int64")
        n_columns = shape.gather(np.array([1]))
        empty = graph.constant(np.zeros(1, values.dtype)).expand(
            graph.concat([self.counts.n_rows(), n_columns], axis=0)
        )
        rows = self.number.unsqueeze().expand(shape)
        return graph.op("ScatterElements", empty, rows, values, axis=0, reduction="add")

    def histogram(self, bins: Tensor, n_bins: int) -> Tensor:
        """Number of the rows of each batch in each bin, shape (n_batches, n_bins), in float64."""
        graph = bins.graph
        n_batches = self.counts.n_rows()
        empty = graph.constant(np.zeros(1)).expand(n_batches * n_bins)
        ones = graph.constant(np.ones(1)).expand(bins.n_rows())
        cells = self.number * n_bins + bins
        filled = graph.op("ScatterElements", empty, cells, ones, axis=0, reduction="add")
        shape = graph.concat([n_batches, graph.constant(np.array([n_bins]))], axis=0)
        return graph.op("Reshape", filled, shape)

    def ranks(self) -> Tensor:
        """Place of each row among the rows of its batch, from 0."""
        graph, n_rows = self.number.graph, self.number.n_rows()
        # Equal elements are sorted by their position.
        ordered, order = graph.ops(
            "TopK", self.number, n_rows, axis=0, largest=0, sorted=1, dtypes=["int64"] * 2
        )
        first = self.counts.cumsum(0) - self.counts
        last = n_rows.squeeze(0)
        places = graph.op("Range", np.array(0), last, np.array(1), dtype="int64")
        ranks = places - first.gather(ordered)
        return graph.op("ScatterElements", ranks, order, ranks, axis=0)
