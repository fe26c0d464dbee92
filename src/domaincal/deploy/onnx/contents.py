"""What an ``.onnx`` file holds: inputs, outputs, and the calibrator that was written into it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

from domaincal._files import DAMAGED, decoding, open_file
from domaincal.deploy.onnx.calibrator_graph import METADATA_PREFIX, shown
from domaincal.deploy.onnx.classifier import Classifier, shape_of
from domaincal.deploy.onnx.protobuf import dtype_of, require_onnx

# Entries that are texts; others are JSON.
_TEXTS = {METADATA_PREFIX + name for name in ("version", "method", "fitted_on", "provenance")}


@dataclass(frozen=True)
class OnnxContents:
    """Contents of an ``.onnx`` file.

    Attributes
    ----------
    opset : int
        Version of the operators of ONNX.
    n_nodes : int
        Number of nodes of the graph.
    inputs, outputs : dict from names to texts
        Type and shape of each, such as ``"float32 (n, 10)"``.
    calibrator : dict
        What is known of the calibrator, such as its ``method`` and ``n_classes``; empty if
        domaincal has not written one.
    """

    opset: int
    n_nodes: int
    inputs: dict[str, str]
    outputs: dict[str, str]
    calibrator: dict[str, Any]


def read_contents(path: str | os.PathLike[str]) -> OnnxContents:
    """Read what an ``.onnx`` file says of itself, without weights in external files."""
    onnx = require_onnx("domaincal inspect of an .onnx file")
    with open_file(path) as file, decoding(path, f"{DAMAGED}; export it to ONNX again"):
        model = onnx.load_model_from_string(file.read())
        if not model.graph.node:
            raise ValueError("it holds no graph")
        entries = {one.key: one.value for one in model.metadata_props}
        calibrator = {
            key.removeprefix(METADATA_PREFIX): value if key in _TEXTS else json.loads(value)
            for key, value in entries.items()
            if key.startswith(METADATA_PREFIX)
        }
    defaults = {one.name for one in model.graph.initializer}
    # Before version 4, weights are inputs, too.
    listed = [one for one in model.graph.input
              if model.ir_version >= 4 or one.name not in defaults]  # fmt: skip
    return OnnxContents(
        opset=Classifier(onnx, path, model, {}).opset,
        n_nodes=len(model.graph.node),
        inputs={
            one.name: _kind(onnx, one) + ", optional" * (one.name in defaults) for one in listed
        },
        outputs={one.name: _kind(onnx, one) for one in model.graph.output},
        calibrator=calibrator,
    )


def _kind(onnx: Any, value: Any) -> str:
    """Type and shape of an input or output."""
    shape = shape_of(value)
    return f"{dtype_of(onnx, value)} {'of any shape' if shape is None else shown(shape)}"
