"""Comparing calibrators."""

from domaincal.selection.evaluate import evaluate, score_table

__all__ = ["evaluate", "score_table"]
