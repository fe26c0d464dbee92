"""Calibrators inside the models that people deploy, and a monitor of their rows."""

from __future__ import annotations

from domaincal.deploy.calibrated_classifier import CalibratedDomainClassifier
from domaincal.deploy.temperature_monitor import TemperatureMonitor

__all__ = ["CalibratedDomainClassifier", "TemperatureMonitor"]
