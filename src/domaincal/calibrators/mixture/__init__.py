"""Mixtures of the temperatures of known domains."""

from __future__ import annotations
