"""Graph of a calibrator: its inputs and outputs, and what the file says about it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from domaincal._version import __version__
from domaincal.deploy.onnx.plans import GraphPlan
from domaincal.deploy.onnx.protobuf import constant_protos, node_protos, value_info
from domaincal.deploy.onnx.rows import GraphRows
from domaincal.deploy.onnx.tensors import DType, Graph, Tensor
from domaincal.errors import InputError

#: Smallest opset whose operators graphs can be built of.
SMALLEST_OPSET = 13
# Start of the names of our entries in the metadata of a file.
_PREFIX = "domaincal."
# Entries that are JSON, and what they must be; others are texts.
_JSON_ENTRIES: dict[str, Callable[[Any], bool]] = {
    "n_classes": lambda value: type(value) is int,
    "n_features": lambda value: type(value) is int,
    "class_names": lambda value: _is_list_of_texts(value),
    "feature_names": lambda value: _is_list_of_texts(value),
    "domains": lambda value: (
        type(value) is dict and all(type(code) is int for code in value.values())
    ),
}


@dataclass(frozen=True)
class Port:
    """An input or output of a graph.

    Attributes
    ----------
    name : str
    dtype : str
    shape : tuple of numbers and names
        A name stands for any number.
    is_optional : bool
        Whether the input has a default value.
    """

    name: str
    dtype: DType
    shape: tuple[int | str, ...]
    is_optional: bool = False

    def __str__(self) -> str:
        return f"{self.dtype} {shown(self.shape)}{', optional' if self.is_optional else ''}"


@dataclass(frozen=True)
class Source:
    """Tensor of logits or features.

    Attributes
    ----------
    name : str
    dtype : str
    n_columns : int
        Number of columns that the calibrator needs.
    rows : str
        Name of the number of rows.
    is_checked : bool
        Whether the tensor is known to have this number of columns.
    """

    name: str
    dtype: DType
    n_columns: int
    rows: str = "n"
    is_checked: bool = True

    def tensor(self, graph: Graph, dtype: DType) -> Tensor:
        """Tensor in a graph, converted to a dtype."""
        found = Tensor(graph, self.name, self.dtype).cast(dtype)
        if self.is_checked:
            return found
        # Other numbers of columns could be broadcast; here they are an error when the graph runs.
        return graph.op("Reshape", found, np.array([0, self.n_columns]))


@dataclass(frozen=True)
class CalibratorGraph:
    """Nodes of a calibrator.

    Attributes
    ----------
    plan : GraphPlan
    graph : Graph
    domains : Port or None
        Input of the domains; None if they are not used.
    outputs : tuple of Port
    """

    plan: GraphPlan
    graph: Graph
    domains: Port | None
    outputs: tuple[Port, ...]

    @classmethod
    def build(
        cls,
        plan: GraphPlan,
        opset: int,
        logits: Source,
        features: Source | None,
        *,
        prefix: str = "",
        internal: str = "",
    ) -> CalibratorGraph:
        """Nodes for the given logits and features.

        ``prefix`` begins the names of other inputs and of outputs, ``internal`` those of results.
        """
        graph = Graph(opset, internal)
        domains = None
        if plan.domains is not None:
            is_optional = plan.domains == "batches"
            n = f"{logits.rows}_or_1" if is_optional else logits.rows
            domains = Port(f"{prefix}domains", "int64", (n,), is_optional)
        n_classes = int(plan.calibrator.n_classes_)
        rows = GraphRows(
            logits.tensor(graph, "float64" if logits.dtype == "float64" else "float32"),
            None if features is None else features.tensor(graph, "float64"),
            None if domains is None else Tensor(graph, domains.name, domains.dtype),
            n_classes,
        )
        found = plan.build(rows)
        shapes: dict[str, tuple[int | str, ...]] = {
            "probabilities": (logits.rows, n_classes),
            "confidence": (logits.rows,),
            "temperature": (logits.rows,),
        }
        outputs = []
        for name, shape in shapes.items():
            value = getattr(found, name)
            if value is not None:
                graph.rename(value, f"{prefix}{name}")
                outputs.append(Port(f"{prefix}{name}", value.dtype, shape))
        return cls(plan, graph, domains, tuple(outputs))

    def nodes(self, onnx: Any) -> list[Any]:
        """Nodes of the package onnx."""
        return node_protos(onnx, self.graph)

    def constants(self, onnx: Any) -> list[Any]:
        """Constants of the package onnx, and the default value of the domains."""
        constants = constant_protos(onnx, self.graph)
        if self.domains is not None and self.domains.is_optional:
            # One code for all rows: they are one batch.
            constants.append(onnx.numpy_helper.from_array(np.zeros(1, np.int64), self.domains.name))
        return constants

    def metadata(self) -> dict[str, str]:
        """What is known of the calibrator, for the metadata of a file."""
        calibrator = self.plan.calibrator
        facts: dict[str, Any] = {
            "version": __version__,
            "method": self.plan.method,
            "n_classes": int(calibrator.n_classes_),
            "class_names": calibrator.class_names_,
            "n_features": self.plan.n_features,
            "feature_names": getattr(calibrator, "feature_columns_", None),
            "domains": self.plan.domain_codes,
            "fitted_on": calibrator.data_fingerprint_,
            "provenance": None if calibrator.provenance_ is None else str(calibrator.provenance_),
        }
        return {
            _PREFIX + name: json.dumps(value) if name in _JSON_ENTRIES else value
            for name, value in facts.items()
            if value is not None
        }


def read_metadata(entries: Mapping[str, str]) -> dict[str, Any]:
    """What the metadata of a file say of a calibrator; ValueError if it is damaged.

    Examples
    --------
    >>> read_metadata({"domaincal.method": "MaxSoftmax", "domaincal.n_classes": "3", "other": "1"})
    {'method': 'MaxSoftmax', 'n_classes': 3}
    """
    found: dict[str, Any] = {}
    for key, text in entries.items():
        if not key.startswith(_PREFIX):
            continue
        name = key.removeprefix(_PREFIX)
        found[name] = json.loads(text) if name in _JSON_ENTRIES else text
        if name in _JSON_ENTRIES and not _JSON_ENTRIES[name](found[name]):
            raise ValueError(f"{key} in its metadata is damaged")
    return found


def _is_list_of_texts(value: Any) -> bool:
    return type(value) is list and all(type(one) is str for one in value)


def shown(shape: tuple[int | str, ...]) -> str:
    """Text of a shape.

    Examples
    --------
    >>> shown(("n", 10)), shown(("n",))
    ('(n, 10)', '(n,)')
    """
    return f"({', '.join(map(str, shape))}{',' * (len(shape) == 1)})"


def port_info(onnx: Any, port: Port) -> Any:
    """Input or output of the package onnx."""
    return value_info(onnx, port.name, port.dtype, port.shape)


def require_opset(onnx: Any, built: CalibratorGraph, *, named: str, cure: str) -> None:
    """Raise InputError if an opset has not all operators of a graph, or is not known."""
    newest = onnx.defs.onnx_opset_version()
    if built.graph.opset > newest:
        raise InputError(
            f"{named} {built.graph.opset}, but the installed onnx {onnx.__version__} knows opsets "
            f"up to {newest}; install a newer one (pip install --upgrade onnx), or {cure}."
        )
    if built.graph.opset < built.graph.first_opset:
        raise InputError(
            f"{named} {built.graph.opset}, which is too old: {built.plan.method} needs opset "
            f"{built.graph.first_opset} or later; {cure}."
        )
