"""Fit and score calibrators by domain: tables of scores, predictions, temperatures; gates."""

from __future__ import annotations

from domaincal.evaluation.change import Change, check_change
from domaincal.evaluation.evaluate import evaluate
from domaincal.evaluation.gate import Gate, check_gate
from domaincal.evaluation.prediction_table import prediction_table
from domaincal.evaluation.protocols import evaluate_leave_one_domain_out, evaluate_split
from domaincal.evaluation.score_table import score_table
from domaincal.evaluation.summary_table import summary_table
from domaincal.evaluation.temperature_table import temperature_table

__all__ = [
    "Change",
    "Gate",
    "check_change",
    "check_gate",
    "evaluate",
    "evaluate_leave_one_domain_out",
    "evaluate_split",
    "prediction_table",
    "score_table",
    "summary_table",
    "temperature_table",
]
