"""Aligned arrays of one data set, and how to split them."""

from domaincal.data.container import CalibrationData
from domaincal.data.splits import split_domains, split_halves

__all__ = ["CalibrationData", "split_domains", "split_halves"]
