"""Connection to a Dask scheduler, or a local cluster that ends with its context."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from domaincal._optional import require
from domaincal._validation import check_count
from domaincal.distributed.cluster_waiting import PATIENCE, dask_distributed
from domaincal.errors import ClusterError, InputError
from domaincal.statistics.blocks import run_in_new_thread

#: Seconds to wait for a scheduler.
CONNECT_TIMEOUT = 10.0
# Dask lets workers return freed memory at once. Then each block that is read would get new pages
# from the system, and a pass over logits took twice as long: the allocator keeps blocks instead.
_ALLOCATION = {"MALLOC_MMAP_THRESHOLD_": 1 << 26}
_BEFORE_START = "distributed.nanny.pre-spawn-environ"
# The workers are the threads.
_THREADS = ("OMP", "OPENBLAS", "MKL", "NUMBA")


@contextmanager
def cluster_client(scheduler: str | None = None, *, workers: int | None = None) -> Iterator[Any]:
    """Client of a Dask cluster: of a running scheduler, or of worker processes that it starts.

    The client is closed at the end of the context, and processes that it started are stopped. In a
    script, call it under ``if __name__ == "__main__"``: the processes import the script.

    Parameters
    ----------
    scheduler : str, optional
        Address of a running scheduler, such as ``"tcp://10.0.0.5:8786"``.
    workers : int, optional
        Number of processes to start on this machine, each with one thread.

    Yields
    ------
    distributed.Client

    Examples
    --------
    >>> from domaincal import distributed
    >>> with distributed.cluster_client(workers=2) as client:  # doctest: +SKIP
    ...     len(client.nthreads())
    2
    """
    if (scheduler is None) == (workers is None):
        raise InputError(
            "pass the address of a scheduler, or workers=..., the number of processes to start."
        )
    with ExitStack() as stack:
        if workers is not None:
            stack.enter_context(quiet_logs())
            scheduler = stack.enter_context(_local_cluster(check_count(workers, "workers")))
        yield stack.enter_context(_connected(str(scheduler)))


@contextmanager
def _connected(scheduler: str) -> Iterator[Any]:
    distributed = dask_distributed()
    try:
        # In a thread of its own: a notebook has an event loop in this one.
        found = run_in_new_thread(lambda: asyncio.run(_type_of(scheduler)))
    except (OSError, TimeoutError, ValueError) as error:
        reason = str(error).split(" after ")[0].rstrip(".") or "no answer of a scheduler"
        raise _no_scheduler(scheduler, reason) from error
    if found != "Scheduler":
        raise _no_scheduler(scheduler, f"it is the address of a {found}".lower())
    client = distributed.Client(scheduler, timeout=CONNECT_TIMEOUT, set_as_default=False)
    try:
        yield client
    finally:
        client.close(timeout=CONNECT_TIMEOUT)


async def _type_of(address: str) -> str:
    """What Dask runs at an address: "Scheduler" or "Worker".

    Not left to the client: it would wait without end for another kind of server, and one that could
    not connect is closed by the garbage collector, which can block a client that starts.
    """
    distributed = dask_distributed()
    connection = distributed.Security().get_connection_args("client")
    async with (
        asyncio.timeout(CONNECT_TIMEOUT + 1.0),
        distributed.rpc(address, timeout=CONNECT_TIMEOUT, connection_args=connection) as server,
    ):
        return str((await server.identity())["type"])


def _no_scheduler(address: str, reason: str) -> ClusterError:
    return ClusterError(
        f"no Dask scheduler answers at {address or repr(address)} ({reason}); check the address, "
        "and start one with: dask scheduler"
    )


@contextmanager
def _local_cluster(n_workers: int) -> Iterator[str]:
    """Address of a cluster of processes on this machine."""
    distributed, dask = dask_distributed(), require("dask", extra="dask", purpose="a Dask cluster")
    # Blocks bound the memory of a worker. Dask's own limit counts file pages that the system can
    # drop at any time, and would stop workers for them.
    before_start = {**dask.config.get(_BEFORE_START, {}), **_ALLOCATION}
    environment = _KeptEnvironment({*before_start, "PYTHONHASHSEED", "__DASK_PARENT_PID"})
    with environment, dask.config.set({_BEFORE_START: before_start}):
        try:
            cluster = distributed.LocalCluster(
                n_workers=n_workers, threads_per_worker=1, processes=True, memory_limit=0,
                dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL,
                env={f"{name}_NUM_THREADS": "1" for name in _THREADS}, death_timeout=PATIENCE,
            )  # fmt: skip
        except (RuntimeError, OSError, TimeoutError) as error:
            raise ClusterError(
                f"the {n_workers} worker processes did not start ({error}); in a script, start "
                'them under if __name__ == "__main__":, or start fewer.'
            ) from error
    try:
        yield cluster.scheduler_address
    finally:
        with environment:
            cluster.close(timeout=CONNECT_TIMEOUT)


class _KeptEnvironment:
    """Restore variables that Dask sets for its workers in this process, too.

    ``OMP_NUM_THREADS=1`` would limit the threads of later fits here. Dask sets them again when it
    restarts a worker: the context is entered at the start of a cluster, and at its end.
    """

    def __init__(self, names: set[str]) -> None:
        self._values = {name: os.environ.get(name) for name in names}

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        for name, value in self._values.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def quiet_logs() -> Iterator[None]:
    """Without the messages of Dask about its own processes and connections."""
    dask_distributed()  # its import sets the levels
    loggers = [logging.getLogger(name) for name in ("distributed", "distributed.client")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
