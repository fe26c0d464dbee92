"""Rows in blocks: worker threads own the parallelism, kernels stay serial.

Where a block begins and ends depends on the width of a row alone, and results are added in the
order of the blocks, so the number of threads changes no digit.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import reduce
from operator import add
from typing import Any, TypeVar, cast

from threadpoolctl import threadpool_limits

Result = TypeVar("Result", bound=Any)

# Small next to the data, large enough to be worth a task.
_BLOCK_BYTES = 1 << 22


def thread_count() -> int:
    """Threads to use: the cores this process may run on, or fewer where the environment says so.

    ``NUMBA_NUM_THREADS`` and ``OMP_NUM_THREADS`` are what schedulers, joblib and Dask set in
    their workers.
    """
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    limits = (os.environ.get(name, "") for name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS"))
    return min([cores, *(int(limit) for limit in limits if limit.isdigit() and int(limit) > 0)])


def row_blocks(n_rows: int, row_bytes: int, block_bytes: int = _BLOCK_BYTES) -> list[slice]:
    """Consecutive slices of about ``block_bytes`` each that cover all rows."""
    size = max(1, block_bytes // max(row_bytes, 1))
    return [slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size)]


def one_blas_thread() -> AbstractContextManager[object]:
    """A ``with`` block in which BLAS has one thread: the workers are the threads.

    BLAS threads wait for each other by turning in circles: on a busy machine they can take ten
    times as long as a single one.
    """
    return cast(AbstractContextManager[object], threadpool_limits(1, user_api="blas"))


class Workers:
    """Worker threads for as long as the ``with`` block lasts; they start when first needed.

    Examples
    --------
    >>> with Workers() as workers:
    ...     workers.sum(lambda block: block.stop - block.start, row_blocks(10, 8, 32))
    10
    """

    def __enter__(self) -> "Workers":
        self._count = thread_count()
        self._pool = ThreadPoolExecutor(self._count)
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown()

    def map(self, function: Callable[[slice], Result], blocks: list[slice]) -> Iterator[Result]:
        """``function`` of each block, in order."""
        inline = self._count == 1 or len(blocks) == 1
        return map(function, blocks) if inline else self._pool.map(function, blocks)

    def sum(self, function: Callable[[slice], Result], blocks: list[slice]) -> Result:
        """Sum of ``function`` over the blocks, added in their order."""
        return reduce(add, self.map(function, blocks))
