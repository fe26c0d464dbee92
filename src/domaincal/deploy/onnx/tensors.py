"""Arithmetic that becomes the nodes of an ONNX graph.

A :class:`Tensor` stands for a result that does not exist yet. Operators, and the methods of
:class:`Graph`, append nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from domaincal._typing import Array

DType = Literal["float16", "bfloat16", "float32", "float64", "int64", "bool"]

#: First opset of each kind of node, if it is later than that of all others (13).
_FIRST_OPSETS = {"ScatterElements": 16}
#: From this opset on, axes of all reductions are an input, not an attribute.
_AXES_ARE_INPUTS = 18


@dataclass(frozen=True)
class Subgraph:
    """Body of a loop: nodes, names of the inputs and outputs with their dtypes."""

    nodes: list[Node]
    inputs: list[tuple[str, DType]]
    outputs: list[tuple[str, DType]]


@dataclass(frozen=True)
class Node:
    """A node; one of its attributes can be a :class:`Subgraph`."""

    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any] = field(default_factory=dict)


class Graph:
    """Nodes and constants of a graph.

    Parameters
    ----------
    opset : int
        Version of the operators.
    prefix : str
        Beginning of the names of all results and constants.

    Attributes
    ----------
    nodes : list of Node
    constants : dict from names to arrays
    first_opset : int
        Smallest opset that has all nodes.
    """

    def __init__(self, opset: int, prefix: str = "") -> None:
        self.opset = opset
        self.nodes: list[Node] = []
        self.constants: dict[str, Array] = {}
        self.first_opset = 13
        self._prefix = prefix
        self._names: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._n_results = 0

    def constant(self, array: Array) -> Tensor:
        """Constant; equal ones are stored once."""
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._names:
            self._names[key] = f"{self._prefix}c{len(self._names)}"
            self.constants[self._names[key]] = np.array(array, order="C")
        return Tensor(self, self._names[key], _dtype_of(array))

    def op(self, kind: str, *inputs: Any, dtype: DType | None = None, **attributes: Any) -> Tensor:
        """Result of a node.

        Numbers among the inputs get the dtype of the first tensor; arrays keep their own. The
        result has this dtype too, unless ``dtype`` is given.
        """
        return self._append(kind, inputs, [dtype], attributes)[0]

    def ops(
        self, kind: str, *inputs: Any, dtypes: Sequence[DType | None], **attributes: Any
    ) -> list[Tensor]:
        """Results of a node with several outputs."""
        return self._append(kind, inputs, dtypes, attributes)

    def rename(self, value: Tensor, name: str) -> None:
        """Give a result of the graph the name of an output."""
        names = {value.name: name}
        self.nodes = [
            Node(
                node.kind,
                tuple(names.get(one, one) for one in node.inputs),
                tuple(names.get(one, one) for one in node.outputs),
                node.attributes,
            )
            for node in self.nodes
        ]

    def reduce(self, kind: str, values: Tensor, axis: int = 1, *, keepdims: bool = True) -> Tensor:
        """Reduction over an axis, such as ``ReduceMax``."""
        if kind == "ReduceSum" or self.opset >= _AXES_ARE_INPUTS:
            return self.op(kind, values, np.array([axis]), keepdims=int(keepdims))
        return self.op(kind, values, axes=[axis], keepdims=int(keepdims))

    def where(self, condition: Tensor, values: Any, others: Any) -> Tensor:
        """Elements of ``values`` where the condition is true, else of ``others``."""
        first = values if isinstance(values, Tensor) else others
        values, others = (self._tensor(x, first.dtype) for x in (values, others))
        return self.op("Where", condition, values, others, dtype=first.dtype)

    def concat(self, tensors: Sequence[Tensor], axis: int = 1) -> Tensor:
        """Tensors joined along an axis."""
        return self.op("Concat", *tensors, axis=axis)

    def loop(
        self,
        n_steps: int,
        step: Callable[..., tuple[Sequence[Tensor], Tensor | None]],
        state: Sequence[Tensor],
    ) -> list[Tensor]:
        """State after repeated steps.

        ``step`` takes the state and returns the new one, and whether to continue (None: always).
        """
        outer, self.nodes = self.nodes, []
        inputs: list[tuple[str, DType]] = [(self._name(), "int64"), (self._name(), "bool")]
        inputs += [(self._name(), value.dtype) for value in state]
        new, goes_on = step(*(Tensor(self, *given) for given in inputs[2:]))
        condition = self.constant(np.array(True)) if goes_on is None else goes_on
        # An output of a body is the result of one of its nodes.
        found = [self.op("Identity", value) for value in (condition, *new)]
        body = Subgraph(self.nodes, inputs, [(value.name, value.dtype) for value in found])
        self.nodes = outer
        return self.ops(
            "Loop", np.array(n_steps), np.array(True), *state, body=body,
            dtypes=[value.dtype for value in state],
        )  # fmt: skip

    def _append(
        self, kind: str, inputs: Sequence[Any], dtypes: Sequence[DType | None], attributes: Any
    ) -> list[Tensor]:
        self.first_opset = max(self.first_opset, _FIRST_OPSETS.get(kind, 0))
        first: DType = next((x.dtype for x in inputs if isinstance(x, Tensor)), "int64")
        given = [self._tensor(x, first) for x in inputs]
        found = [Tensor(self, self._name(), dtype or first) for dtype in dtypes]
        names = tuple(x.name for x in given), tuple(x.name for x in found)
        self.nodes.append(Node(kind, *names, attributes))
        return found

    def _tensor(self, value: Any, dtype: str) -> Tensor:
        if isinstance(value, Tensor):
            return value
        is_array = isinstance(value, np.ndarray | np.generic)
        return self.constant(np.asarray(value) if is_array else np.asarray(value, dtype))

    def _name(self) -> str:
        self._n_results += 1
        return f"{self._prefix}r{self._n_results}"


@dataclass(frozen=True)
class Tensor:
    """An input, a constant or a result of a graph."""

    graph: Graph
    name: str
    dtype: DType

    def __add__(self, other: Any) -> Tensor:
        return self.graph.op("Add", self, other)

    def __sub__(self, other: Any) -> Tensor:
        return self.graph.op("Sub", self, other)

    def __mul__(self, other: Any) -> Tensor:
        return self.graph.op("Mul", self, other)

    def __truediv__(self, other: Any) -> Tensor:
        return self.graph.op("Div", self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return self._append_reversed("Sub", other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return self._append_reversed("Div", other)

    def __matmul__(self, other: Any) -> Tensor:
        return self.graph.op("MatMul", self, other)

    def __neg__(self) -> Tensor:
        return self.graph.op("Neg", self)

    def __lt__(self, other: Any) -> Tensor:
        return self.graph.op("Less", self, other, dtype="bool")

    def __le__(self, other: Any) -> Tensor:
        return self.graph.op("LessOrEqual", self, other, dtype="bool")

    def __gt__(self, other: Any) -> Tensor:
        return self.graph.op("Greater", self, other, dtype="bool")

    def __ge__(self, other: Any) -> Tensor:
        return self.graph.op("GreaterOrEqual", self, other, dtype="bool")

    def __and__(self, other: Tensor) -> Tensor:
        return self.graph.op("And", self, other)

    def _append_reversed(self, kind: str, other: Any) -> Tensor:
        return self.graph.op(kind, self.graph.constant(np.asarray(other, self.dtype)), self)

    def equals(self, other: Any) -> Tensor:
        """Whether elements are equal."""
        return self.graph.op("Equal", self, other, dtype="bool")

    def cast(self, dtype: DType) -> Tensor:
        """Tensor of another dtype."""
        if dtype == self.dtype:
            return self
        return self.graph.op("Cast", self, dtype=dtype, to=dtype)

    def exp(self) -> Tensor:
        """Exponential."""
        return self.graph.op("Exp", self)

    def log(self) -> Tensor:
        """Natural logarithm."""
        return self.graph.op("Log", self)

    def sqrt(self) -> Tensor:
        """Square root."""
        return self.graph.op("Sqrt", self)

    def abs(self) -> Tensor:
        """Absolute value."""
        return self.graph.op("Abs", self)

    def min(self, other: Any) -> Tensor:
        """Smaller of two elements; anything for NaN."""
        return self.graph.op("Min", self, other)

    def max(self, other: Any) -> Tensor:
        """Larger of two elements; anything for NaN."""
        return self.graph.op("Max", self, other)

    def clip(self, low: Any, high: Any) -> Tensor:
        """Elements between two limits; anything for NaN."""
        return self.max(low).min(high)

    def sum(self, axis: int = 1, *, keepdims: bool = True) -> Tensor:
        """Sum over an axis."""
        return self.graph.reduce("ReduceSum", self, axis, keepdims=keepdims)

    def top(self, axis: int = 1) -> Tensor:
        """Maximum over an axis, which is kept."""
        return self.graph.reduce("ReduceMax", self, axis)

    def mean(self, axis: int = 1) -> Tensor:
        """Mean over an axis, which is kept."""
        return self.graph.reduce("ReduceMean", self, axis)

    def cumsum(self, axis: int) -> Tensor:
        """Cumulated sum along an axis."""
        return self.graph.op("CumSum", self, np.array(axis))

    def gather(self, indices: Any) -> Tensor:
        """Elements, or rows, at these positions."""
        return self.graph.op("Gather", self, indices, axis=0)

    def gather_columns(self, indices: Any) -> Tensor:
        """Elements of each row at the positions of the same row."""
        return self.graph.op("GatherElements", self, indices, axis=1)

    def columns(self, start: int, stop: int) -> Tensor:
        """Some columns."""
        ends = (np.array([k]) for k in (start, stop, 1))
        return self.graph.op("Slice", self, *ends)

    def squeeze(self, axis: int = 1) -> Tensor:
        """Tensor without an axis of length 1."""
        return self.graph.op("Squeeze", self, np.array([axis]))

    def unsqueeze(self, axis: int = 1) -> Tensor:
        """Tensor with another axis of length 1."""
        return self.graph.op("Unsqueeze", self, np.array([axis]))

    def expand(self, shape: Any) -> Tensor:
        """Tensor repeated along axes of length 1."""
        return self.graph.op("Expand", self, shape)

    def n_rows(self) -> Tensor:
        """Number of rows, shape (1,)."""
        shape = self.graph.op("Shape", self, dtype="int64")
        return shape.gather(np.array([0]))

    def is_finite(self) -> Tensor:
        """Whether all elements of each row are finite, shape (n, 1)."""
        # Scaled, so that the sum of finite elements is finite. NaN <= x is false.
        share = 2.0**-40 if self.dtype != "float16" else 2.0**-14
        return (self.abs() * share).sum() <= float(np.finfo(self.dtype).max)


def _dtype_of(array: Array) -> Any:
    return "bool" if array.dtype == bool else str(array.dtype)
