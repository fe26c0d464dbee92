"""Nodes and constants in the classes of the package onnx, and ``.onnx`` files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from domaincal._files import atomic_file
from domaincal._optional import require
from domaincal.deploy.onnx.tensors import DType, Graph, Node, Subgraph
from domaincal.errors import InputError

#: Largest size of an ``.onnx`` file: a message of protobuf has at most 2 GiB.
LARGEST_FILE = 2**31 - 1

_TYPES = {"float16": 10, "bfloat16": 16, "float32": 1, "float64": 11, "int64": 7, "bool": 9}
_STANDARD = ("", "ai.onnx")
_DTYPES = {number: name for name, number in _TYPES.items()}


def require_onnx(purpose: str) -> Any:
    """The package onnx, or an error that names the extra."""
    return require("onnx", extra="onnx", purpose=purpose)


def parse_model(onnx: Any, content: bytes) -> Any:
    """Model in the bytes of a file, without weights in external files."""
    model = onnx.load_model_from_string(content)
    if not model.graph.output:
        raise ValueError("it holds no graph")
    return model


def opset_of(model: Any) -> int | None:
    """Version of the operators of ONNX; None if a model has none of them."""
    versions = [one.version for one in model.opset_import if one.domain in _STANDARD]
    return int(max(versions)) if versions else None


def value_info(onnx: Any, name: str, dtype: DType, shape: Iterable[int | str] | None) -> Any:
    """Name, type and shape of an input or output."""
    return onnx.helper.make_tensor_value_info(name, _TYPES[dtype], shape)


def dtype_of(onnx: Any, value: Any) -> str:
    """Dtype of an input, output or result, or its kind if it is no tensor."""
    if value.type.WhichOneof("value") != "tensor_type":
        return str(value.type.WhichOneof("value")).removesuffix("_type")
    number = value.type.tensor_type.elem_type
    return str(_DTYPES.get(number) or onnx.TensorProto.DataType.Name(number).lower())


def node_protos(onnx: Any, graph: Graph) -> list[Any]:
    """Nodes of a graph."""
    return [_node(onnx, node) for node in graph.nodes]


def constant_protos(onnx: Any, graph: Graph) -> list[Any]:
    """Constants of a graph."""
    return [onnx.numpy_helper.from_array(a, name) for name, a in graph.constants.items()]


def set_metadata(model: Any, metadata: Mapping[str, str]) -> None:
    """Add entries to the metadata of a model; those of the same names are replaced."""
    kept = [one for one in model.metadata_props if one.key not in metadata]
    others = [(one.key, one.value) for one in kept]
    del model.metadata_props[:]
    for key, value in [*others, *metadata.items()]:
        entry = model.metadata_props.add()
        entry.key, entry.value = key, value


def require_size(model: Any, path: str | os.PathLike[str]) -> None:
    """Raise InputError for a model that does not fit into one file."""
    size = model.ByteSize()
    if size > LARGEST_FILE:
        raise InputError(
            f"{path} has {size / 2**30:.1f} GiB, but one .onnx file has at most 2 GiB; export the "
            "calibrator to a file of its own, and run it after the classifier."
        )


def write_model(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a model atomically."""
    require_size(model, path)
    content = model.SerializeToString(deterministic=True)
    with atomic_file(path) as file:
        file.write(content)


def _node(onnx: Any, node: Node) -> Any:
    attributes = dict(node.attributes)
    for name, value in attributes.items():
        if isinstance(value, Subgraph):
            attributes[name] = _subgraph(onnx, value)
        elif name == "to":
            attributes[name] = _TYPES[value]
    return onnx.helper.make_node(node.kind, node.inputs, node.outputs, **attributes)


def _subgraph(onnx: Any, body: Subgraph) -> Any:
    # onnxruntime wants to know that the number of the step and the condition are scalars.
    shapes = [(), (), *[None] * len(body.inputs)]
    inputs, outputs = (
        [value_info(onnx, *one, shape) for one, shape in zip(values, of, strict=False)]
        for values, of in ((body.inputs, shapes), (body.outputs, shapes[1:]))
    )
    nodes = [_node(onnx, node) for node in body.nodes]
    return onnx.helper.make_graph(nodes, "step", inputs, outputs)
