"""Export of a fitted calibrator to an ``.onnx`` file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from domaincal._validation import check_option
from domaincal._version import __version__
from domaincal.deploy.onnx.calibrator_graph import (
    CalibratorGraph,
    Port,
    Source,
    port_info,
    require_opset,
)
from domaincal.deploy.onnx.plans import GraphPlan, plan_graph
from domaincal.deploy.onnx.protobuf import require_onnx, set_metadata, write_model
from domaincal.errors import InputError

#: Version of the operators and of the format: tried in onnxruntime 1.15 and later.
OPSET, IR_VERSION = 17, 8
InputType = Literal["float32", "float16"]
INPUT_TYPES = ("float32", "float16")


@dataclass(frozen=True)
class OnnxExport:
    """What was written to an ``.onnx`` file.

    Attributes
    ----------
    method : str
        Name of the class of the calibrator.
    inputs, outputs : dict from names to types and shapes
        Such as ``{"logits": "float32 (n, 10)"}``, where n is any number of rows.
    n_nodes : int
        Number of nodes of the calibrator.

    Examples
    --------
    >>> OnnxExport("MaxSoftmax", {"logits": "float32 (n, 2)"}, {}, 14).n_nodes
    14
    """

    method: str
    inputs: dict[str, str]
    outputs: dict[str, str]
    n_nodes: int


def export_onnx(
    calibrator: Any,
    path: str | os.PathLike[str],
    *,
    dtype: InputType = "float32",
    opset: int = OPSET,
) -> OnnxExport:
    """Write a fitted calibrator as an ONNX graph, for onnxruntime and other programs.

    The graph has the inputs ``logits``, ``features`` and ``domains``, as far as the method uses
    them, and the outputs ``probabilities``, ``confidence`` (of the argmax of the logits) and
    ``temperature``, if the method has one, all in float32, for any number of rows.

    - ``features`` has the columns of the fit, in their order.
    - ``domains`` holds an int64 for each row. Methods that predict batches group the rows by it;
      without it, all rows are one batch. :class:`DomainTemperatureScaling` looks it up: the name of
      the domain, or its position in ``domain_temperatures_`` if names are strings; any other
      integer gets the pooled temperature.
    - Rows that ``predict_proba`` refuses, because a value is not finite, are NaN.

    Parameters
    ----------
    calibrator : fitted calibrator
        Of :class:`AutoCalibration`, the winner is exported.
    path : path that ends in ``.onnx``
        An existing file is replaced atomically.
    dtype : {"float32", "float16"}, default "float32"
        Type of the inputs logits and features. The arithmetic is the same.
    opset : int, default 17
        Version of the operators, from 13 on (16 for methods that predict batches).

    Returns
    -------
    OnnxExport

    Examples
    --------
    >>> import tempfile, domaincal as dc
    >>> from domaincal.deploy import export_onnx
    >>> data, _ = dc.make_multi_domain(n_domains=4, n_rows=50, random_state=0)
    >>> calibrator = dc.MultiDomainTemperatureScaling().fit(data)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = export_onnx(calibrator, folder + "/calibrator.onnx")
    >>> written.inputs
    {'logits': 'float32 (n, 10)', 'features': 'float32 (n, 16)'}
    """
    onnx = require_onnx("export_onnx")
    check_option(dtype, "dtype", INPUT_TYPES)
    require_onnx_suffix(path)
    plan = plan_of_fitted(calibrator)
    logits, features = Source("logits", dtype, int(plan.calibrator.n_classes_)), None
    if plan.n_features is not None:
        features = Source("features", dtype, plan.n_features)
    given = [logits] if features is None else [logits, features]
    inputs = [Port(one.name, one.dtype, (one.rows, one.n_columns)) for one in given]
    built = CalibratorGraph.build(plan, opset, logits, features)
    require_opset(onnx, built, named="opset is", cure=f"leave it out, which means {OPSET}")
    if built.domains is not None:
        inputs.append(built.domains)
    graph = onnx.helper.make_graph(
        built.nodes(onnx), plan.method, [port_info(onnx, port) for port in inputs],
        [port_info(onnx, port) for port in built.outputs], built.constants(onnx),
    )  # fmt: skip
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=IR_VERSION,
        producer_name="domaincal", producer_version=__version__,
    )  # fmt: skip
    set_metadata(model, built.metadata())
    onnx.checker.check_model(model, full_check=True)
    write_model(model, path)
    return OnnxExport(
        plan.method, {port.name: str(port) for port in inputs},
        {port.name: str(port) for port in built.outputs}, len(built.graph.nodes),
    )  # fmt: skip


def plan_of_fitted(calibrator: Any) -> GraphPlan:
    """Plan of the graph of a calibrator; raise an error if it is not fitted or has no graph."""
    if isinstance(calibrator, BaseEstimator):
        check_is_fitted(calibrator)
    return plan_graph(calibrator)


def require_onnx_suffix(path: str | os.PathLike[str]) -> None:
    """Raise InputError for an output with another suffix."""
    if Path(path).suffix != ".onnx":
        raise InputError(f"{path} must end in .onnx; choose such a name.")
