"""New, unlabelled domains: how accurate the model will be there, and how far away they are."""

from __future__ import annotations

__all__: list[str] = []
