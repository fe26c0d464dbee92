"""Calibrators inside the models that people deploy."""

from __future__ import annotations

from domaincal.deploy.calibrated_classifier import CalibratedDomainClassifier

__all__ = ["CalibratedDomainClassifier"]
