"""Work spread over processes: results in the order of the tasks, and how many processes."""

import functools
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from domaincal._typing import Track
from domaincal._validation import check_count
from domaincal.errors import InputError


def in_processes(
    function: Callable[..., Any],
    tasks: Sequence[tuple[Any, ...]],
    *,
    n_jobs: int,
    track: Track = iter,
) -> Iterator[Any]:
    """``function(*task)`` of each task, one after the other.

    Examples
    --------
    >>> list(in_processes(pow, [(2, 3), (3, 2)], n_jobs=1))
    [8, 9]
    """
    from joblib import Parallel, delayed

    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int) or (n_jobs < 1 and n_jobs != -1):
        raise InputError(f"n_jobs must be at least 1, or -1 for one on each core; got {n_jobs!r}.")
    if not tasks:
        return
    work = (delayed(_watched)(os.getpid(), function, task) for task in tasks)
    done = Parallel(n_jobs=n_jobs, return_as="generator", batch_size=1)(work)
    for _ in track(tasks):
        yield next(done)
    next(done, None)  # joblib complains of results that nobody took


def _watched(parent: int, function: Callable[..., Any], task: tuple[Any, ...]) -> Any:
    if os.getpid() != parent:
        _end_with(parent)
    return function(*task)


@functools.cache
def _end_with(parent: int) -> None:
    """End this worker when its parent has ended, be it by kill -9."""

    def wait() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def worker_count(n_jobs: int | None) -> int:
    """Processes that decode: the given number, or one for each core; 0 is this process."""
    if n_jobs is not None:
        check_count(n_jobs, "n_jobs", minimum=0)
        return n_jobs
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return cores or 1
