"""Exported calibrators in onnxruntime."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import onnxruntime

OUTPUTS = ("probabilities", "confidence", "temperature")


def session(path: Any) -> Any:
    """Session on one thread; without warnings, such as that of an input with a default value."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def predict(opened: Any, prefix: str = "", **inputs: Any) -> SimpleNamespace:
    """Outputs by name, None for those that the graph does not have; ignores unused inputs."""
    known = {one.name for one in (*opened.get_inputs(), *opened.get_overridable_initializers())}
    given = {name: value for name, value in inputs.items() if name in known}
    names = [one.name for one in opened.get_outputs()]
    found = dict(zip(names, opened.run(None, given), strict=True))
    return SimpleNamespace(**{name: found.get(prefix + name) for name in OUTPUTS})
