"""Small classifiers in ``.onnx`` files, to which calibrators are attached."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

N_FEATURES, N_CLASSES = 16, 5
_TYPES = {"float16": TensorProto.FLOAT16, "float32": TensorProto.FLOAT,
          "float64": TensorProto.DOUBLE, "bfloat16": TensorProto.BFLOAT16}  # fmt: skip


def weights() -> dict[str, np.ndarray]:
    """Weights of the two layers."""
    rng = np.random.default_rng(5)
    return {
        "w1": rng.standard_normal((16, N_FEATURES)),
        "w2": rng.standard_normal((N_FEATURES, N_CLASSES)),
    }


def write_classifier(
    path: Path,
    *,
    dtype: str = "float32",
    opset: int = 17,
    rows: Any = "batch",
    outputs: tuple[str, ...] = ("logits", "features"),
    extra: tuple[Any, ...] = (),
    domains: tuple[str, ...] = (),
    ir_version: int = 8,
) -> Any:
    """Write ``features = relu(x @ w1)``, ``logits = features @ w2``, with ``extra`` nodes.

    ``extra`` holds nodes, or outputs with their types.
    """
    kind = _TYPES[dtype]
    constants = [
        numpy_helper.from_array(w.astype(dtype if dtype != "bfloat16" else "float32"), name)
        for name, w in weights().items()
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["hidden"]),
        helper.make_node("Relu", ["hidden"], ["features"]),
        helper.make_node("MatMul", ["features", "w2"], ["logits"]),
        *(one for one in extra if isinstance(one, onnx.NodeProto)),
    ]
    columns = {"features": N_FEATURES, "logits": N_CLASSES}
    infos = [
        helper.make_tensor_value_info(name, kind, [rows, columns.get(name, N_CLASSES)])
        for name in outputs
    ]
    infos += [one for one in extra if isinstance(one, onnx.ValueInfoProto)]
    graph = helper.make_graph(
        nodes, "classifier", [helper.make_tensor_value_info("x", kind, [rows, 16])], infos,
        constants,
    )  # fmt: skip
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(one, 1) for one in domains)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=ir_version)
    onnx.save(model, path)
    return model


def rows_of_classifier(dtype: str = "float32", n: int = 300) -> dict[str, np.ndarray]:
    """Inputs, and logits and features that the classifier computes from them."""
    x = np.random.default_rng(6).standard_normal((n, 16)).astype(dtype)
    w = {name: one.astype(dtype) for name, one in weights().items()}
    features = np.maximum(x @ w["w1"], 0)
    return {"x": x, "features": features, "logits": features @ w["w2"]}
