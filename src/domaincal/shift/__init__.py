"""New, unlabelled domains: how accurate the model will be there, and how far away they are."""

from __future__ import annotations

from domaincal.shift.covered_domains import CoveredDomains
from domaincal.shift.gap_histograms import GapHistograms

__all__ = ["CoveredDomains", "GapHistograms"]
