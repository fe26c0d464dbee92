"""Options of verbs that can run on a Dask cluster."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from domaincal.data import BlockedRows

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class ClusterChoice:
    """The cluster that the options name.

    Attributes
    ----------
    scheduler : str or None
        Address of a running scheduler.
    workers : int or None
        Number of processes to start on this machine.
    """

    scheduler: str | None = None
    workers: int | None = None

    def __bool__(self) -> bool:
        return self.scheduler is not None or self.workers is not None

    def require_shared_files(self, path: Path) -> None:
        """Refuse a file whose rows the workers cannot read."""
        from domaincal.errors import InputError
        from domaincal.io.formats import is_store, suffix_of
        from domaincal.io.standard_input import STDIN

        in_place = path != STDIN and (is_store(path) or suffix_of(path) == ".zarr")
        # A table is copied to a temporary folder of this machine.
        table = path != STDIN and suffix_of(path) in (".csv", ".csv.gz", ".parquet")
        if not in_place and not (table and self.scheduler is None):
            option = "--workers" if self.scheduler is None else "--scheduler"
            raise InputError(
                f"{option} needs rows that every worker reads itself, which those of {path} are "
                f"not; write them to a store first: domaincal convert {path} FOLDER"
            )

    @contextmanager
    def placed(self, rows: BlockedRows) -> Iterator[BlockedRows]:
        """The rows on the cluster, which ends with the block if this process started it."""
        from domaincal.cli.console import working
        from domaincal.distributed import cluster_client, on_cluster
        from domaincal.distributed.cluster_connection import quiet_logs

        started = f"starting {self.workers} workers" if self.workers else "connecting"
        with ExitStack() as stack:
            stack.enter_context(quiet_logs())
            with working(started):
                connection = cluster_client(self.scheduler, workers=self.workers)
                placed = on_cluster(rows, stack.enter_context(connection))
            yield placed


def cluster_options(command: F) -> F:
    """Add the options; the command gets their values as ``cluster``, a ClusterChoice."""

    @functools.wraps(command)
    def with_cluster(*arguments: Any, **options: Any) -> Any:
        cluster = ClusterChoice(options.pop("scheduler"), options.pop("workers"))
        if cluster.scheduler is not None and cluster.workers is not None:
            raise click.UsageError(
                "--scheduler names a running cluster and --workers starts one; choose one of them."
            )
        return command(*arguments, cluster=cluster, **options)

    decorated: Any = click.option(
        "--workers", type=click.IntRange(min=1), metavar="N",
        help="Sum over the rows in N processes of this machine, a Dask cluster that ends with the "
        "command (extra dask). DATA is a store, .zarr or a table.",
    )(with_cluster)  # fmt: skip
    decorated = click.option(
        "--scheduler", metavar="ADDRESS",
        help="Sum over the rows on a running Dask cluster, such as tcp://10.0.0.5:8786, whose "
        "workers see DATA, a store or .zarr, under the same path (extra dask).",
    )(decorated)  # fmt: skip
    result: F = decorated
    return result
