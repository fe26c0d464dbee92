"""One temperature for an unlabelled batch."""

from __future__ import annotations
