"""Limit of BLAS to one thread, shared by all threads of the process."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread, for code that runs in worker threads.

    BLAS threads wait for each other by busy-waiting: on a busy machine they can take ten times as
    long as a single thread. The limit holds for the process, until the last thread has left.

    Examples
    --------
    >>> with one_blas_thread():
    ...     pass
    """
    shared, per_thread = _blas_libraries()
    with per_thread.limit(limits=1) if len(per_thread) else nullcontext():
        _limit.enter(shared)
        try:
            yield
        finally:
            _limit.leave()


class _SharedLimit:
    """A limit that the first thread to enter sets, and the last one to leave removes.

    The number of threads of most BLAS libraries belongs to the process. If each thread restored
    the number that it found, overlapping threads would restore the limit itself.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_inside = 0
        self._before: list[tuple[Any, int]] = []

    def enter(self, libraries: list[Any]) -> None:
        with self._lock:
            self._n_inside += 1
            if self._n_inside == 1:
                found = [(library, library.num_threads or 1) for library in libraries]
                # Whoever limited a library already will restore it.
                self._before = [(library, n) for library, n in found if n > 1]
                for library, _ in self._before:
                    _set_threads(library, 1)

    def leave(self) -> None:
        with self._lock:
            self._n_inside = max(0, self._n_inside - 1)  # 0 in a child that was forked inside
            if self._n_inside == 0:
                self._restore()

    def restart(self) -> None:
        """Remove the limit in a forked child, which has none of the threads inside.

        One of them may have held the lock.
        """
        self._lock = threading.Lock()
        self._n_inside = 0
        self._restore()

    def _restore(self) -> None:
        for library, n_threads in self._before:
            _set_threads(library, n_threads)
        self._before = []


_limit = _SharedLimit()


@cache
def _blas_libraries() -> tuple[list[Any], Any]:
    """BLAS libraries of numpy and scipy: with one limit for the process, and with one a thread.

    The search takes 10 ms.
    """
    import scipy.linalg  # noqa: F401  (loads the library of scipy)

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_limit.restart)
    found = ThreadpoolController().select(user_api="blas")
    per_thread = found.select(threading_layer="openmp")
    shared = [lib for lib in found.lib_controllers if lib not in per_thread.lib_controllers]
    return shared, per_thread


def _set_threads(library: Any, n_threads: int) -> None:
    # From version 3.8 on, set_num_threads of threadpoolctl does nothing if another thread has set
    # a number before.
    getattr(library, "_real_set_num_threads", library.set_num_threads)(n_threads)
