"""Comparing calibrators."""

from domaincal.selection.evaluate import evaluate, score_table
from domaincal.selection.gate import Gate, check_gate
from domaincal.selection.predictions import prediction_table
from domaincal.selection.protocols import evaluate_leave_one_domain_out, evaluate_split
from domaincal.selection.summary import summary_table
from domaincal.selection.temperatures import temperature_table

__all__ = [
    "Gate",
    "check_gate",
    "evaluate",
    "evaluate_leave_one_domain_out",
    "evaluate_split",
    "prediction_table",
    "score_table",
    "summary_table",
    "temperature_table",
]
