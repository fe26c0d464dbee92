"""Model files, the table of learned values, and the names of the calibrators."""

from __future__ import annotations
