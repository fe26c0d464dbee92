"""Groups of the rows of tensors on a device, cut into runs that kernels sum one by one."""

from __future__ import annotations

from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from domaincal._tensors import loaded_torch
from domaincal._typing import IntArray

# Runs that keep all processors of a large GPU busy. Fewer leave some of them idle at the end; more
# take as long to be listed as they save.
_RUNS = 4096
#: Most rows of a run, and multiple of the rows of a run.
MOST_RUN_ROWS, LEAST_RUN_ROWS = 1024, 16


class RowGroups:
    """Which group each row of a device belongs to.

    Parameters
    ----------
    n_rows : int
    device : torch.device
    codes : tensor of shape (n_rows,), optional
        Group of each row, as int64. Without it, all rows are one group.
    n_groups : int, default 1
    """

    def __init__(self, n_rows: int, device: Any, codes: Any = None, n_groups: int = 1) -> None:
        self.n_rows, self.n_groups = n_rows, n_groups
        self.device, self.codes = device, codes
        self._runs: dict[int, tuple[Any, Any]] = {}

    @cached_property
    def order(self) -> Any:
        """Row numbers sorted by group, as a tensor; None if all rows are one group."""
        if self.codes is None:
            return None
        torch = loaded_torch()
        # Sorting time grows with the bits of the keys.
        narrow = torch.int16 if self.n_groups < 1 << 15 else torch.int32
        return self.codes.to(narrow).sort(stable=True).indices

    @cached_property
    def starts(self) -> IntArray:
        """Place of the first row of each group in the order, and the number of rows."""
        if self.codes is None:
            return np.array([0, self.n_rows])
        counts = loaded_torch().bincount(self.codes, minlength=self.n_groups)
        return np.concatenate([[0], counts.cumsum(0).cpu().numpy()])

    def sums(self, weight: Any = None) -> Any:
        """Number of rows of each group, or their total weight, as a float64 tensor."""
        torch = loaded_torch()
        if self.codes is None:
            total = float(self.n_rows) if weight is None else weight.sum()
            return torch.as_tensor(total, dtype=torch.float64, device=self.device).reshape(1)
        if weight is None:
            return torch.bincount(self.codes, minlength=self.n_groups).double()
        empty = torch.zeros(self.n_groups, dtype=torch.float64, device=self.device)
        return empty.index_add_(0, self.codes, weight)

    def rows_at(self, places: IntArray) -> IntArray:
        """Numbers of the rows at these places of the order."""
        if self.codes is None:
            return places
        sent = loaded_torch().tensor(places, device=self.device)
        found: IntArray = self.order[sent].cpu().numpy()
        return found

    def rows_of_parts(self, part: IntArray, n_parts: int) -> list[Any]:
        """Numbers of the rows of each part, as tensors; ``part`` is the part of each group.

        Groups with part -1 are left out.
        """
        torch = loaded_torch()
        kept = np.where(part < 0, n_parts, part)
        if self.codes is None:
            everything = torch.arange(self.n_rows, device=self.device)
            return [everything[: self.n_rows if kept[0] == k else 0] for k in range(n_parts)]
        codes = torch.tensor(kept, device=self.device)[self.codes]
        parts = RowGroups(self.n_rows, self.device, codes, n_parts + 1)
        return [parts.order[a:b] for a, b in pairwise(parts.starts[: n_parts + 1].tolist())]

    def part(self, rows: slice) -> RowGroups:
        """Groups of some of the rows."""
        if rows == slice(0, self.n_rows):
            return self
        codes = None if self.codes is None else self.codes[rows]
        return RowGroups(rows.stop - rows.start, self.device, codes, self.n_groups)

    def runs(self, step: int = 1) -> tuple[Any, Any]:
        """Runs of every ``step``-th place of the order.

        Returns
        -------
        runs : int64 tensor of shape (n_runs, 3)
            First place of the run, the place behind its last one, both divided by ``step``, and
            its group.
        first_run : int64 tensor of shape (n_groups + 1,)
            First run of each group, and the number of runs.
        """
        if self.codes is None:
            return _runs_of_one(-(-self.n_rows // step), self.device)
        if step not in self._runs:
            self._runs[step] = _send_runs(-(-self.starts // step), self.device)
        return self._runs[step]


@lru_cache(maxsize=64)
def _runs_of_one(n_places: int, device: Any) -> tuple[Any, Any]:
    """Runs of one group; the fits of a search ask for few sizes."""
    return _send_runs(np.array([0, n_places]), device)


def _send_runs(edges: IntArray, device: Any) -> tuple[Any, Any]:
    """Runs of the groups between these places, and the first run of each group."""
    size = _run_rows(int(edges[-1]))
    n_runs = -(-np.diff(edges) // size)
    first_run = np.concatenate([[0], np.cumsum(n_runs)])
    group = np.repeat(np.arange(len(n_runs)), n_runs)
    first = edges[group] + (np.arange(len(group)) - first_run[group]) * size
    last = np.minimum(first + size, edges[group + 1])
    table = np.concatenate([np.column_stack([first, last, group]).ravel(), first_run])
    sent = loaded_torch().tensor(table, device=device)  # one transfer
    return sent[: 3 * len(group)].view(-1, 3), sent[3 * len(group) :]


def _run_rows(n_rows: int) -> int:
    """Number of rows of a run; it depends on nothing else, so that sums are reproducible."""
    size = -(-n_rows // _RUNS)
    return min(MOST_RUN_ROWS, -(-size // LEAST_RUN_ROWS) * LEAST_RUN_ROWS)
