"""Limit of BLAS to one thread, shared by all threads of the process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

from domaincal._shared_context import SharedContext


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
    per_thread = _blas_libraries()[1]
    with per_thread.limit(limits=1) if len(per_thread) else nullcontext(), _limit.entered():
        yield


@SharedContext
@contextmanager
def _limit() -> Iterator[None]:
    """The limit of the libraries whose number of threads belongs to the process."""
    found = [(library, library.num_threads or 1) for library in _blas_libraries()[0]]
    # Whoever limited a library already will restore it.
    changed = [(library, n_threads) for library, n_threads in found if n_threads > 1]
    for library, _ in changed:
        _set_threads(library, 1)
    try:
        yield
    finally:
        for library, n_threads in changed:
            _set_threads(library, n_threads)


@cache
def _blas_libraries() -> tuple[list[Any], Any]:
    """BLAS libraries of numpy and scipy: with one limit for the process, and with one a thread.

    The search takes 10 ms.
    """
    import scipy.linalg  # noqa: F401  (loads the library of scipy)

    found = ThreadpoolController().select(user_api="blas")
    per_thread = found.select(threading_layer="openmp")
    shared = [lib for lib in found.lib_controllers if lib not in per_thread.lib_controllers]
    return shared, per_thread


def _set_threads(library: Any, n_threads: int) -> None:
    # From version 3.8 on, set_num_threads of threadpoolctl does nothing if another thread has set
    # a number before.
    getattr(library, "_real_set_num_threads", library.set_num_threads)(n_threads)
