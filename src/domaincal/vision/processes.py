"""Run tasks in worker processes."""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from domaincal._typing import Track
from domaincal._validation import check_count
from domaincal.errors import InputError


def run_in_processes(
    function: Callable[..., Any],
    tasks: Sequence[tuple[Any, ...]],
    *,
    n_jobs: int,
    track: Track = iter,
) -> Iterator[Any]:
    """Yield ``function(*task)`` for each task, in the order of the tasks.

    Examples
    --------
    >>> list(run_in_processes(pow, [(2, 3), (3, 2)], n_jobs=1))
    [8, 9]
    """
    from joblib import Parallel, delayed

    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int) or (n_jobs < 1 and n_jobs != -1):
        raise InputError(
            f"n_jobs must be a whole number >= 1, or -1 for one process per core; got {n_jobs!r}."
        )
    if not tasks:
        return
    calls = (delayed(_call)(os.getpid(), function, task) for task in tasks)
    results = Parallel(n_jobs=n_jobs, return_as="generator", batch_size=1)(calls)
    for _ in track(tasks):
        yield next(results)
    next(results, None)  # exhaust the generator: joblib warns about unread results


def worker_count(n_jobs: int | None) -> int:
    """Number of processes that decode images: ``n_jobs``, or by default one per core.

    0 means that the calling process decodes.
    """
    if n_jobs is not None:
        check_count(n_jobs, "n_jobs", minimum=0)
        return n_jobs
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return cores or 1


def _call(parent: int, function: Callable[..., Any], task: tuple[Any, ...]) -> Any:
    if os.getpid() != parent:
        _exit_with_parent(parent)
    return function(*task)


@functools.cache
def _exit_with_parent(parent: int) -> None:
    """Start a thread that ends this worker when its parent has ended, even by SIGKILL."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
