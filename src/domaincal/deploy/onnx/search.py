"""Binary search in sorted tables, which ONNX has no operator for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from domaincal._typing import Array
from domaincal.deploy.onnx.tensors import Tensor


class SortedTables:
    """Sorted tables of different lengths, in which values are searched.

    Parameters
    ----------
    tables : sequence of arrays
        Sorted, of float64 or int64.
    right : bool
        Whether elements that are equal to the value count as before it.
    """

    def __init__(self, tables: Sequence[Array], *, right: bool = False) -> None:
        self._right = right
        self._n_steps = max(len(table) for table in tables).bit_length()
        # Behind its end, a table is infinite: a search never leaves its table.
        fill = np.inf if tables[0].dtype.kind == "f" else np.iinfo(np.int64).max
        self._flat = _padded(tables, 1 << self._n_steps, fill).ravel()

    def find(self, values: Tensor) -> Tensor:
        """Position of the number of elements before each value, in :meth:`aligned` arrays.

        ``values`` has the shape (n, n_tables): each column is searched in its table.
        """
        table = values.graph.constant(self._flat)
        n_tables = len(self._flat) >> self._n_steps
        position = values.graph.constant(np.arange(n_tables)[None, :] << self._n_steps)
        for k in reversed(range(self._n_steps)):
            found = table.gather(position + ((1 << k) - 1))
            before = found <= values if self._right else found < values
            position = position + before.cast("int64") * (1 << k)
        return position

    def aligned(self, arrays: Sequence[Array]) -> Array:
        """Flat array for the positions of :meth:`find`.

        Each array has an entry for every number of elements before a value, from 0 on.
        """
        return _padded(arrays, 1 << self._n_steps, arrays[0].dtype.type(0)).ravel()


def _padded(arrays: Sequence[Array], length: int, fill: float) -> Array:
    """Arrays as rows of a matrix, filled up on the right."""
    out = np.full((len(arrays), length), fill, dtype=arrays[0].dtype)
    for row, array in zip(out, arrays, strict=True):
        row[: len(array)] = array
    return out
