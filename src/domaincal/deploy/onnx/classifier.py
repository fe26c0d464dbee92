"""ONNX file of a classifier, and the tensors in it to which a calibrator can be attached."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from domaincal._files import DAMAGED, decoding, open_file
from domaincal._wording import few
from domaincal.deploy.onnx.calibrator_graph import Source, shown
from domaincal.deploy.onnx.protobuf import dtype_of, opset_of, parse_model, require_size
from domaincal.deploy.onnx.tensors import DType
from domaincal.errors import InputError

#: Numbers and names of the axes of a tensor, "?" for an unknown one.
Shape: TypeAlias = tuple[int | str, ...]

_FLOATS = ("float16", "bfloat16", "float32", "float64")
# Nodes that pass probabilities on, from which the node that made them is found.
_PASS_ON = ("Identity", "Cast", "Reshape", "Squeeze", "Flatten")
_PROBABILITIES = ("Softmax", "Sigmoid", "Normalizer")


@dataclass(frozen=True)
class Classifier:
    """Model in an ``.onnx`` file.

    Attributes
    ----------
    onnx : module
        The package onnx.
    path : path
    model : onnx.ModelProto
        With all weights, also those of external files.
    known : dict from names to value infos
        Inputs, outputs and results of nodes, as far as their types are known.
    """

    onnx: Any
    path: str | os.PathLike[str]
    model: Any
    known: dict[str, Any]

    @classmethod
    def read(cls, onnx: Any, path: str | os.PathLike[str]) -> Classifier:
        """Read and check a file."""
        cure = f"{DAMAGED}; export the classifier to ONNX again"
        with open_file(path) as file, decoding(path, cure):
            model = parse_model(onnx, file.read())
            if not model.graph.node:
                raise ValueError("it holds no graph")
            folder = os.path.dirname(os.path.realpath(path))
            onnx.external_data_helper.load_external_data_for_model(model, folder)
            require_size(model, path)
            onnx.checker.check_model(model)
        return cls(onnx, path, model, _known_types(onnx, model))

    @property
    def opset(self) -> int:
        """Version of the operators of ONNX."""
        version = opset_of(self.model)
        if version is None:
            others = few([one.domain for one in self.model.opset_import], 6)
            raise InputError(
                f"{self.path} has no operators of ONNX, only those of {others}; export the "
                "classifier with operators of ONNX."
            )
        return version

    def results(self) -> set[str]:
        """Names of the results of all nodes."""
        return {name for node in self.model.graph.node for name in node.output if name}

    def names(self) -> set[str]:
        """Names of all inputs, constants and results of nodes."""
        graph = self.model.graph
        return self.results() | {one.name for one in (*graph.initializer, *graph.input)}

    def logits(self, name: str | None, n_classes: int) -> Source:
        """Tensor of the logits; the only output, if no name is given."""
        outputs = [one.name for one in self.model.graph.output]
        if name is None:
            if len(outputs) != 1:
                raise InputError(
                    f"{self.path} has {len(outputs)} outputs ({few(outputs, 12)}); name that of "
                    "the logits with logits=... (--logits)."
                )
            name = outputs[0]
        found = self._source(name, "logits", n_classes, "classes")
        self._require_logits(name)
        return found

    def features(self, name: str | None, n_features: int, method: str) -> Source:
        """Tensor of the features."""
        if name is None:
            raise InputError(
                f"{method} needs features; name their tensor with features=... (--features): "
                f"{self._choices(n_features)}."
            )
        return self._source(name, "features", n_features, "features")

    def _source(self, name: str, what: str, n_columns: int, columns: str) -> Source:
        """Checked tensor."""
        cure = f"name another one with {what}=... (--{what}): {self._choices(n_columns)}"
        if name not in self.names():
            raise InputError(f"{self.path} has no tensor {name!r}; {cure}.")
        value = self.known.get(name)
        if value is None:
            raise InputError(
                f"the type of the tensor {name!r} in {self.path} is unknown, because of operators "
                "that onnx does not know; add it to the outputs of the graph, with its type."
            )
        dtype, shape = dtype_of(self.onnx, value), shape_of(value)
        if dtype not in _FLOATS:
            raise InputError(f"the tensor {name!r} in {self.path} has the type {dtype}; {cure}.")
        rows, found = ("?", "?") if shape is None else (*shape, "?", "?")[:2]
        if shape is not None and (len(shape) != 2 or _differs(found, n_columns)):
            raise InputError(
                f"the tensor {name!r} in {self.path} has the shape {shown(shape)}, but the "
                f"calibrator was fitted with {n_columns} {columns}; {cure}; or fit the calibrator "
                f"to the {what} of this classifier."
            )
        if isinstance(rows, int):
            raise self._fixed_batch(f"the tensor {name!r}", shape)
        if rows == "?":
            self._check_inputs()
        return Source(
            name, cast(DType, dtype), n_columns, "n" if rows == "?" else rows,
            is_checked=found == n_columns,
        )  # fmt: skip

    def _check_inputs(self) -> None:
        """Raise InputError if all inputs have a fixed number of rows."""
        constants = {one.name for one in self.model.graph.initializer}
        inputs = [one for one in self.model.graph.input if one.name not in constants]
        shapes = [shape_of(one) for one in inputs]
        if shapes and all(shape and isinstance(shape[0], int) for shape in shapes):
            raise self._fixed_batch(f"the input {inputs[0].name!r}", shapes[0])

    def _fixed_batch(self, named: str, shape: Shape | None) -> InputError:
        return InputError(
            f"{self.path} has a fixed batch: {named} has the shape {shown(shape or ())}; export "
            "the classifier with a dynamic first axis, such as torch.onnx.export(..., "
            "dynamic_axes={'input': {0: 'n'}})."
        )

    def _require_logits(self, name: str) -> None:
        """Raise InputError if a tensor is known to hold probabilities."""
        makers = {output: node for node in self.model.graph.node for output in node.output}
        node = makers.get(name)
        while node is not None and node.op_type in _PASS_ON:
            node = makers.get(node.input[0])
        if node is not None and node.op_type in _PROBABILITIES:
            raise InputError(
                f"the tensor {name!r} in {self.path} holds probabilities, those of a node "
                f"{node.op_type}; name the logits, its input {node.input[0]!r}, with logits=... "
                "(--logits)."
            )

    def _choices(self, n_columns: int) -> str:
        """Tensors that have this number of columns, or the outputs if there are none."""
        constants = {one.name for one in self.model.graph.initializer}
        fitting = [
            name for name, value in self.known.items()
            if dtype_of(self.onnx, value) in _FLOATS and name not in constants
            and (shape_of(value) or ())[1:] == (n_columns,)
        ]  # fmt: skip
        if fitting:
            return f"{few(map(repr, fitting), 12)} of {n_columns} columns"
        outputs = few([repr(one.name) for one in self.model.graph.output], 12)
        return f"the outputs are {outputs}; no tensor is known to have {n_columns} columns"


def shape_of(value: Any) -> Shape | None:
    """Numbers and names of the axes, "?" for an unknown one; None if even their number is."""
    kind = value.type.tensor_type
    if not kind.HasField("shape"):
        return None
    return tuple(
        int(one.dim_value) if one.HasField("dim_value") else one.dim_param or "?"
        for one in kind.shape.dim
    )


def _known_types(onnx: Any, model: Any) -> dict[str, Any]:
    """Types of all results, as far as they can be inferred."""
    try:
        graph = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    except Exception:  # such as an operator that is used wrongly: types of results stay unknown
        graph = model.graph
    return {one.name: one for one in (*graph.output, *graph.value_info, *graph.input)}


def _differs(found: int | str, n_columns: int) -> bool:
    return isinstance(found, int) and found != n_columns
