"""Wait for results of a cluster; an error if it is lost, instead of waiting without end."""

from __future__ import annotations

import time
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
    try:
        _wait(client, futures)
        found: list[Any] = client.gather(futures)
        return found
    except DomaincalError:
        raise
    except (distributed.CancelledError, distributed.core.CommClosedError) as error:
        raise lost_cluster(client) from error
    except distributed.KilledWorker as error:
        raise ClusterError(
            f"workers of the cluster at {address_of(client)} died again and again in the same "
            "task; give each more memory, or look at their logs."
        ) from error


def _wait(client: Any, futures: list[Any]) -> None:
    """Wait until all futures are done; raise ClusterError if they will never be."""
    distributed = dask_distributed()
    last_worker = time.monotonic()
    while True:
        try:
            with client.as_current():
                distributed.wait(futures, timeout=_LOOK_EVERY)
            return
        except TimeoutError:
            require_running(client)
            if client.scheduler_info()["workers"]:
                last_worker = time.monotonic()
            elif time.monotonic() - last_worker > PATIENCE:
                raise ClusterError(
                    f"the cluster at {address_of(client)} has had no worker for {PATIENCE:.0f} "
                    "seconds; start workers, and run it again."
                ) from None


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
