"""Readers and writers of data."""

from __future__ import annotations

from domaincal.io.formats import convert, read, write
from domaincal.io.inspection import Inspection, inspect
from domaincal.io.prediction_files import write_table
from domaincal.io.store import Store

__all__ = ["Inspection", "Store", "convert", "inspect", "read", "write", "write_table"]
