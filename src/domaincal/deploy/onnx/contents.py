"""What an ``.onnx`` file holds: inputs, outputs, and the calibrator that was written into it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from domaincal._files import DAMAGED, decoding, open_file
from domaincal.deploy.onnx.calibrator_graph import read_metadata, shown
from domaincal.deploy.onnx.classifier import shape_of
from domaincal.deploy.onnx.protobuf import dtype_of, opset_of, parse_model, require_onnx

# Before this version of files, weights are inputs, too.
_WEIGHTS_ARE_NO_INPUTS = 4


@dataclass(frozen=True)
class OnnxContents:
    """Contents of an ``.onnx`` file.

    Attributes
    ----------
    opset : int or None
        Version of the operators of ONNX; None if the graph has none.
    n_nodes : int
        Number of nodes of the graph.
    inputs, outputs : dict from names to texts
        Type and shape of each, such as ``"float32 (n, 10)"``.
    calibrator : dict
        What is known of the calibrator, such as its ``method`` and ``n_classes``; empty if
        domaincal has not written one.
    """

    opset: int | None
    n_nodes: int
    inputs: dict[str, str]
    outputs: dict[str, str]
    calibrator: dict[str, Any]


def read_contents(path: str | os.PathLike[str]) -> OnnxContents:
    """Read what an ``.onnx`` file says of itself, without weights in external files."""
    onnx = require_onnx("domaincal inspect of an .onnx file")
    with open_file(path) as file, decoding(path, f"{DAMAGED}; export it to ONNX again"):
        model = parse_model(onnx, file.read())
        graph = model.graph
        defaults = {one.name for one in graph.initializer}
        has_weights = model.ir_version < _WEIGHTS_ARE_NO_INPUTS
        inputs = [one for one in graph.input if not (has_weights and one.name in defaults)]
        return OnnxContents(
            opset=opset_of(model),
            n_nodes=len(graph.node),
            inputs={
                one.name: _kind(onnx, one) + ", optional" * (one.name in defaults) for one in inputs
            },
            outputs={one.name: _kind(onnx, one) for one in graph.output},
            calibrator=read_metadata({one.key: one.value for one in model.metadata_props}),
        )


def _kind(onnx: Any, value: Any) -> str:
    """Type and shape of an input or output; of what is no tensor, its kind."""
    kind = value.type.WhichOneof("value")
    if kind is None:
        return "of unknown type"
    if kind != "tensor_type":
        return dtype_of(onnx, value)
    shape = shape_of(value)
    return f"{dtype_of(onnx, value)} {'of any shape' if shape is None else shown(shape)}"
