"""Calibrators of features without domains, and domains from features."""

from __future__ import annotations
