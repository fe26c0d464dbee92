"""Aligned arrays of one data set, and how to split them."""

from domaincal.data.container import CalibrationData, concatenate
from domaincal.data.splits import leave_one_domain_out, split_domains, split_halves

__all__ = [
    "CalibrationData",
    "concatenate",
    "leave_one_domain_out",
    "split_domains",
    "split_halves",
]
