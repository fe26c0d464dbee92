"""Blocks of rows and the worker threads that process them; kernels are serial.

The size of a block depends only on the width of a row, and results are added in the order of the
blocks. Results therefore do not depend on the number of threads.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import reduce
from operator import add
from typing import Any, TypeVar

Result = TypeVar("Result", bound=Any)

#: Size of a block: small relative to the data, large enough to amortise the start of a task.
BLOCK_BYTES = 1 << 22
# Results for each thread that wait until the caller takes them.
_RESULTS_AHEAD = 4


def thread_count() -> int:
    """Number of threads: the cores available to this process, or fewer if the environment says so.

    Schedulers, joblib and Dask set ``NUMBA_NUM_THREADS`` and ``OMP_NUM_THREADS`` in their workers.
    """
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    limits = (os.environ.get(name, "") for name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS"))
    return min([cores, *(int(limit) for limit in limits if limit.isdigit() and int(limit) > 0)])


def row_blocks(n_rows: int | range, row_bytes: int, block_bytes: int | None = None) -> list[slice]:
    """Consecutive slices that cover all rows: at most ``block_bytes``, and at least one row, each.

    ``n_rows`` is the number of rows, or the range of their numbers. The default of ``block_bytes``
    is :data:`BLOCK_BYTES`.
    """
    rows = range(n_rows) if isinstance(n_rows, int) else n_rows
    size = max(1, (block_bytes or BLOCK_BYTES) // max(row_bytes, 1))
    return [
        slice(start, min(start + size, rows.stop)) for start in range(rows.start, rows.stop, size)
    ]


def run_in_new_thread(function: Callable[[], Result]) -> Result:
    """Result of a function that uses OpenMP, in a new thread.

    The OpenMP runtime of GNU keeps its threads for the thread that started them. In a forked child
    these threads are missing, and the thread that forked would wait for them without end.

    Examples
    --------
    >>> run_in_new_thread(lambda: 1 + 1)
    2
    """
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()


def read_ahead(read: Callable[[slice], Result], blocks: list[slice]) -> Iterator[Result]:
    """Results of ``read`` for the blocks; the next block is read while the caller uses one.

    Examples
    --------
    >>> list(read_ahead(lambda block: block.stop, row_blocks(10, 8, 32)))
    [4, 8, 10]
    """
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(read, blocks[0])
        for block in blocks[1:]:
            found, coming = coming.result(), pool.submit(read, block)
            yield found
        yield coming.result()


class Workers:
    """Context manager of worker threads, which start when they are first needed.

    Examples
    --------
    >>> with Workers() as workers:
    ...     workers.sum(lambda block: block.stop - block.start, row_blocks(10, 8, 32))
    10
    """

    def __enter__(self) -> Workers:
        self._count = thread_count()
        self._pool = ThreadPoolExecutor(self._count)
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown()

    def map(self, function: Callable[[slice], Result], blocks: list[slice]) -> Iterator[Result]:
        """Results of ``function`` for the blocks, in their order."""
        inline = self._count == 1 or len(blocks) == 1
        return map(function, blocks) if inline else self._map_in_threads(function, blocks)

    def _map_in_threads(
        self, function: Callable[[slice], Result], blocks: list[slice]
    ) -> Iterator[Result]:
        """Results in the order of the blocks; only a few wait for the caller at a time."""
        waiting: deque[Future[Result]] = deque()
        try:
            for block in blocks:
                # Results of all blocks at once could take as much memory as the rows.
                if len(waiting) > _RESULTS_AHEAD * self._count:
                    yield waiting.popleft().result()
                waiting.append(self._pool.submit(function, block))
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()

    def sum(self, function: Callable[[slice], Result], blocks: list[slice]) -> Result:
        """Sum of the results of ``function``, added in the order of the blocks."""
        return reduce(add, self.map(function, blocks))
