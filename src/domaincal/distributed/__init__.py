"""Fits to rows that are not in one place: sums of sites, and Dask clusters."""

from __future__ import annotations

from domaincal.distributed.cluster_connection import cluster_client
from domaincal.distributed.cluster_rows import on_cluster
from domaincal.distributed.dask_rows import from_dask

__all__ = ["cluster_client", "from_dask", "on_cluster"]
