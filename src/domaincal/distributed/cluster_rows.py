"""Rows of a file or store that the workers of a Dask cluster read."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np

from domaincal._row_arrays import CodedRows
from domaincal._version import __version__
from domaincal.data import BlockedRows
from domaincal.data.blocked_rows import RowSource, as_rows
from domaincal.distributed.cluster_parts import ClusterParts, ClusterRows, Part, part_of
from domaincal.distributed.cluster_waiting import (
    PATIENCE,
    address_of,
    dask_distributed,
    require_running,
    thread_counts,
)
from domaincal.errors import ClusterError, FileFormatError, InputError

#: Parts for each thread of the cluster, so that all threads end at about the same time.
PARTS_PER_THREAD = 4
#: Smallest size of a part, unless there are fewer workers than parts.
PART_BYTES = 1 << 24

_ARRAYS = ("logits", "labels", "features", "domains", "groups")


def on_cluster(rows: RowSource | BlockedRows, client: Any = None) -> BlockedRows:
    """Rows of a store that the workers of a Dask cluster read, from the same path.

    Calibrators are fitted to them, and predict and score them, as those of the store: ranges of
    rows are sent to the workers, and sums come back.

    Parameters
    ----------
    rows : Store or BlockedRows
        Files that all workers see under the same path.
    client : distributed.Client, optional
        By default the client that was created last.

    Examples
    --------
    >>> import tempfile, domaincal as dc
    >>> from domaincal import distributed
    >>> data, _ = dc.make_multi_domain(n_domains=3, n_rows=100, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     dc.write(data, folder + "/scores")
    ...     with distributed.cluster_client(workers=1) as client:  # doctest: +SKIP
    ...         rows = distributed.on_cluster(dc.Store(folder + "/scores"), client)
    ...         calibrator = dc.TemperatureScaling().fit(rows)
    """
    source = as_rows(rows)
    if not isinstance(source, BlockedRows):
        raise InputError(
            f"rows must be a Store or other rows that are read in blocks, got "
            f"{type(rows).__name__}; write them to a store with domaincal.write(data, path)."
        )
    if source.row_parts is not None:
        raise InputError("rows are on a cluster already; pass those of the store.")
    client = check_client(client)
    workers = workers_of(client)
    n_parts = _number_of_parts(source, sum(workers.values()))
    starts = np.linspace(0, len(source), n_parts + 1).round().astype(np.int64).tolist()
    # A task, so that it is sent again if its worker dies.
    sent = client.submit(_identity, source, key=f"rows-{token()}")
    addresses = list(workers)
    futures = [
        client.submit(
            _open_part, sent, start, stop, key=f"part-{token()}",
            workers=[addresses[k * len(addresses) // n_parts]], allow_other_workers=True,
        )
        for k, (start, stop) in enumerate(itertools.pairwise(starts))
    ]  # fmt: skip
    return _assembled(source, ClusterParts(client, futures, starts))


def _assembled(rows: BlockedRows, parts: ClusterParts) -> BlockedRows:
    """The rows with arrays on the cluster; each part is opened, to see that its worker can."""
    found: dict[str, Any] = {}
    for name in _ARRAYS:
        array = getattr(rows, name)
        if isinstance(array, CodedRows):
            codes = ClusterRows(name, array.codes.shape, array.codes.dtype, parts)
            found[name] = CodedRows(codes, array.names)
        elif array is not None:
            found[name] = ClusterRows(name, array.shape, array.dtype, parts)
    placed = replace(rows, **found)
    check_versions(set(parts.map(_version_after_a_look, placed)))
    return placed


def check_versions(versions: set[str]) -> None:
    """Raise ClusterError if workers have another version of domaincal."""
    others = sorted(versions - {__version__})
    if others:
        raise ClusterError(
            f"workers have domaincal {others[0]}, and this process {__version__}; install the same "
            "version everywhere."
        )


def check_client(client: Any) -> Any:
    """The client, or the one that was created last; an error if it is closed."""
    distributed = dask_distributed()
    if client is None:
        try:
            client = distributed.get_client()
        except ValueError as error:
            raise InputError(
                "client is None, and no client was created; pass client=distributed.Client("
                "address)."
            ) from error
    if not isinstance(client, distributed.Client):
        raise InputError(
            f"client must be a distributed.Client, got {type(client).__name__}; pass "
            "distributed.Client(address)."
        )
    if client.asynchronous:
        raise InputError("client is asynchronous; pass distributed.Client(address).")
    require_running(client)
    return client


def workers_of(client: Any) -> dict[str, int]:
    """Number of threads of each worker; waits for the first worker."""
    try:
        client.wait_for_workers(1, timeout=PATIENCE)
    except TimeoutError as error:
        raise ClusterError(
            f"the cluster at {address_of(client)} has no worker after {PATIENCE:.0f} seconds; "
            "start workers."
        ) from error
    return dict(sorted(thread_counts(client).items()))


def _number_of_parts(rows: BlockedRows, n_threads: int) -> int:
    size = sum(
        array.codes.size * 8 if isinstance(array, CodedRows) else array.size * array.itemsize
        for name in _ARRAYS
        if (array := getattr(rows, name)) is not None
    )
    return max(1, min(PARTS_PER_THREAD * n_threads, size // PART_BYTES, len(rows)))


def _identity(rows: BlockedRows) -> BlockedRows:
    return rows


def _open_part(rows: BlockedRows, start: int, stop: int) -> Part:
    """Task: a range of the rows of files."""
    arrays = {name: getattr(rows, name) for name in _ARRAYS if getattr(rows, name) is not None}
    codes = {name: a.codes for name, a in arrays.items() if isinstance(a, CodedRows)}
    return part_of({**arrays, **codes}, 0, range(start, stop), len(rows))


def _version_after_a_look(rows: BlockedRows) -> str:
    """Version of domaincal on a worker, which has read a row of each array of its part."""
    first = rows.row_range.start
    try:
        for array in (getattr(rows, name) for name in _ARRAYS):
            if array is not None:
                codes = array.codes if isinstance(array, CodedRows) else array
                codes.read(first, first + 1)
    except (FileFormatError, OSError) as error:
        raise ClusterError(
            f"a worker does not see the rows as this process does: {error} All workers must see "
            "the same files under the same path, as on a shared file system."
        ) from error
    return __version__


def token() -> str:
    """A new name of a task."""
    return np.random.default_rng().bytes(16).hex()
