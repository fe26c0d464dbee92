"""Rows in blocks: worker threads own the parallelism, kernels stay serial.

Where a block begins and ends depends on the width of a row alone, and results are added in the
order of the blocks, so the number of threads changes no digit.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from operator import add
from typing import Any, TypeVar

Sums = TypeVar("Sums", bound=Any)

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


def map_blocks(function: Callable[[slice], Sums], blocks: list[slice]) -> Iterator[Sums]:
    """``function`` of each block, in order, computed by worker threads."""
    workers = min(thread_count(), len(blocks))
    if workers <= 1:
        yield from map(function, blocks)
        return
    with ThreadPoolExecutor(workers) as pool:
        yield from pool.map(function, blocks)


def sum_blocks(function: Callable[[slice], Sums], blocks: list[slice]) -> Sums:
    """Sum of ``function`` over the blocks, added in their order."""
    return reduce(add, map_blocks(function, blocks))
