"""Readers and writers of data."""

from __future__ import annotations

from domaincal.data.column_choice import ColumnChoice
from domaincal.io.conversion import convert
from domaincal.io.formats import read, write
from domaincal.io.inspection import Inspection, inspect
from domaincal.io.opened_rows import OpenedRows, is_streamed, open_rows
from domaincal.io.prediction_files import write_table
from domaincal.io.store import Store

__all__ = [
    "ColumnChoice",
    "Inspection",
    "OpenedRows",
    "Store",
    "convert",
    "inspect",
    "is_streamed",
    "open_rows",
    "read",
    "write",
    "write_table",
]
