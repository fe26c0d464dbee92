"""Fits to rows that are not in one place: sums of sites, and Dask clusters."""

from __future__ import annotations
