"""Synthetic data with several domains, and tables with a domain column."""

from __future__ import annotations

from domaincal.datasets.domain_table import DomainTable, read_domain_table
from domaincal.datasets.synthetic import make_multi_domain

__all__ = ["DomainTable", "make_multi_domain", "read_domain_table"]
