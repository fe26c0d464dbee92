"""Choice among calibrators by left-out domains."""

from __future__ import annotations
