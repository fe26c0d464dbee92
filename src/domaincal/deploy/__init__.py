"""Calibrators inside the models that people deploy, and a monitor of their rows.

``CalibratedModel`` is loaded at first use, because it needs torch.
"""

from __future__ import annotations

from typing import Any

from domaincal.deploy.calibrated_classifier import CalibratedDomainClassifier
from domaincal.deploy.onnx.attach import attach_onnx
from domaincal.deploy.onnx.export import OnnxExport, export_onnx
from domaincal.deploy.temperature_monitor import TemperatureMonitor

__all__ = [
    "CalibratedDomainClassifier",
    "CalibratedModel",
    "OnnxExport",
    "TemperatureMonitor",
    "attach_onnx",
    "export_onnx",
]


def __getattr__(name: str) -> Any:
    if name == "CalibratedModel":
        from domaincal.deploy.calibrated_model import CalibratedModel

        return CalibratedModel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
