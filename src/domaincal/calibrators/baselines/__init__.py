"""Published methods to compare with."""

from __future__ import annotations
