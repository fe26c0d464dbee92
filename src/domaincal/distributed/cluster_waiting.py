"""Wait for results of a cluster; an error if it is lost, instead of waiting without end."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import CancelledError, Future
from typing import Any

from domaincal._optional import require
from domaincal.errors import ClusterError, DomaincalError

# Seconds between two looks at the cluster, and without a worker until this is an error.
_LOOK_EVERY = 2.0
PATIENCE = 60.0


def dask_distributed() -> Any:
    """The package ``distributed``."""
    return require("distributed", extra="dask", purpose="a Dask cluster")


def gather(client: Any, futures: list[Any]) -> list[Any]:
    """Results of the futures, in their order.

    An error on a worker is raised here as it is.
    """
    distributed = dask_distributed()
    require_running(client)
    # Not client.gather(futures), which would wait without end for results of a lost cluster.
    coming = asyncio.run_coroutine_threadsafe(_gathered(client, futures), client.loop.asyncio_loop)
    try:
        return _wait(client, coming)
    except DomaincalError:
        raise
    except (CancelledError, distributed.CancelledError, distributed.core.CommClosedError) as error:
        raise lost_cluster(client) from error
    except distributed.KilledWorker as error:
        raise ClusterError(
            f"workers of the cluster at {address_of(client)} died again and again in the same "
            "task; give each more memory, or look at their logs."
        ) from error
    finally:
        coming.cancel()


async def _gathered(client: Any, futures: list[Any]) -> list[Any]:
    found: list[Any] = await client.gather(futures, asynchronous=True)
    return found


def _wait(client: Any, coming: Future[list[Any]]) -> list[Any]:
    """The results; ClusterError if they will never come."""
    last_worker = time.monotonic()
    while True:
        try:
            return coming.result(timeout=_LOOK_EVERY)
        except TimeoutError:
            if coming.done():  # the error of a task
                raise
            require_running(client)
            workers = client.scheduler_info()["workers"].values()
            # A worker that is near its limit of memory pauses, and may never go on.
            if any(worker["status"] == "running" for worker in workers):
                last_worker = time.monotonic()
            elif time.monotonic() - last_worker > PATIENCE:
                raise _no_worker(client, n_paused=len(workers)) from None


def _no_worker(client: Any, *, n_paused: int) -> ClusterError:
    found, cure = "no worker", "start workers"
    if n_paused:
        found = "no worker but paused ones, which are near their limit of memory,"
        cure = "start workers with more memory (dask worker --memory-limit), or smaller partitions"
    return ClusterError(
        f"the cluster at {address_of(client)} has had {found} for {PATIENCE:.0f} seconds; {cure}, "
        "and run it again."
    )


def require_running(client: Any) -> None:
    """Raise ClusterError if the client is closed, or has lost its scheduler."""
    if client.status != "running":
        raise lost_cluster(client)


def thread_counts(client: Any) -> dict[str, int]:
    """Number of threads of each worker."""
    require_running(client)
    try:
        found: dict[str, int] = client.nthreads()
    except OSError as error:  # CommClosedError is one
        raise lost_cluster(client) from error
    return found


def lost_cluster(client: Any) -> ClusterError:
    """The error for a scheduler that has gone away."""
    return ClusterError(
        f"the connection to the Dask scheduler at {address_of(client)} was lost before all results "
        "came; start the cluster, and run it again."
    )


def address_of(client: Any) -> str:
    """Address of the scheduler."""
    scheduler = client.scheduler
    address = getattr(scheduler, "address", None) or getattr(client, "_start_arg", None)
    return str(address)
