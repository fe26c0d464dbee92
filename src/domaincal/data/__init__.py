"""CalibrationData, splits by rows, groups and domains, and logits from other scores."""

from __future__ import annotations

from domaincal.data.blocked_rows import BlockedRows
from domaincal.data.calibration_data import CalibrationData
from domaincal.data.concatenation import concatenate
from domaincal.data.logits import logits_from_probabilities, logits_from_scores
from domaincal.data.splits import leave_one_domain_out, split_domains, split_halves

__all__ = [
    "BlockedRows",
    "CalibrationData",
    "concatenate",
    "leave_one_domain_out",
    "logits_from_probabilities",
    "logits_from_scores",
    "split_domains",
    "split_halves",
]
