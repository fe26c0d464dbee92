"""A calibrator appended to the graph of a classifier."""

from __future__ import annotations

import os
from typing import Any

from domaincal._wording import few
from domaincal.deploy.onnx.calibrator_graph import CalibratorGraph, port_info, require_opset, shown
from domaincal.deploy.onnx.classifier import Classifier, shape_of
from domaincal.deploy.onnx.export import OnnxExport, plan_of_fitted, require_onnx_suffix
from domaincal.deploy.onnx.protobuf import dtype_of, require_onnx, set_metadata, write_model
from domaincal.errors import InputError

# Before, constants have no names of their own.
_SMALLEST_IR_VERSION = 4


def attach_onnx(
    calibrator: Any,
    classifier: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    logits: str | None = None,
    features: str | None = None,
    prefix: str = "",
) -> OnnxExport:
    """Append a fitted calibrator to the ONNX graph of its classifier.

    The new file has all inputs and outputs of the classifier, and the outputs ``probabilities``,
    ``confidence`` and ``temperature`` of :func:`export_onnx`; methods that use domains add the
    input ``domains``. Logits and features may be float16, bfloat16, float32 or float64.

    Parameters
    ----------
    calibrator : fitted calibrator
        Fitted to logits and features of this classifier.
    classifier : path of an ``.onnx`` file
        With a dynamic number of rows, of opset 13 or later (16 for methods that predict batches).
        Weights in external files become part of the new file.
    path : path that ends in ``.onnx``
        An existing file is replaced atomically.
    logits : str, optional
        Name of the tensor of the logits, an output or a result inside of the graph. It can be left
        out if there is one output only.
    features : str, optional
        Name of the tensor of the features, for methods that use them.
    prefix : str, default ""
        Beginning of the names of the new input and outputs, if the classifier has such names.

    Returns
    -------
    OnnxExport
        With all inputs and outputs of the new file.

    Examples
    --------
    >>> import tempfile, domaincal as dc, numpy as np, onnx
    >>> from domaincal.deploy import attach_onnx
    >>> data, _ = dc.make_multi_domain(n_domains=4, n_rows=50, n_classes=3, random_state=0)
    >>> calibrator = dc.TemperatureScaling().fit(data)
    >>> graph = onnx.parser.parse_graph(
    ...     "classifier (float[n, 2] x) => (float[n, 3] z) <float[2, 3] w = {1, 0, 0, 0, 1, 0}>"
    ...     "{ z = MatMul(x, w) }"
    ... )
    >>> model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     onnx.save(model, folder + "/classifier.onnx")
    ...     written = attach_onnx(calibrator, folder + "/classifier.onnx", folder + "/both.onnx")
    >>> written.outputs["z"], written.outputs["probabilities"]
    ('float32 (n, 3)', 'float32 (n, 3)')
    """
    onnx = require_onnx("attach_onnx")
    require_onnx_suffix(path)
    plan = plan_of_fitted(calibrator)
    model = Classifier.read(onnx, classifier)
    z, x = model.logits(logits, int(plan.calibrator.n_classes_)), None
    if plan.n_features is not None:
        x = model.features(features, plan.n_features, plan.method)
    elif features is not None:
        raise InputError(
            f"{plan.method} uses no features; leave out features={features!r} (--features)."
        )
    built = CalibratorGraph.build(
        plan, model.opset, z, x, prefix=prefix, internal=_internal_prefix(model)
    )
    require_opset(
        onnx, built, named=f"{classifier} has opset",
        cure="export the classifier with opset 17, or convert it with "
        "onnx.version_converter.convert_version(model, 17)",
    )  # fmt: skip
    _require_free_names(model, built, prefix)
    merged = _merged(model, built)
    onnx.checker.check_model(merged)
    write_model(merged, path)
    constants = {one.name for one in model.model.graph.initializer}
    own = {one.name for one in model.model.graph.input}
    return OnnxExport(
        plan.method,
        {one.name: str(built.domains) if one.name not in own else _described(onnx, one)
         for one in merged.graph.input if one.name not in constants},
        {one.name: _described(onnx, one) for one in merged.graph.output},
        len(built.graph.nodes),
    )  # fmt: skip


def _merged(model: Classifier, built: CalibratorGraph) -> Any:
    """Model of the classifier, with the nodes of the calibrator after its own."""
    onnx, merged = model.onnx, model.onnx.ModelProto()
    merged.CopyFrom(model.model)
    merged.ir_version = max(merged.ir_version, _SMALLEST_IR_VERSION)
    merged.graph.node.extend(built.nodes(onnx))
    merged.graph.initializer.extend(built.constants(onnx))
    if built.domains is not None:
        merged.graph.input.append(port_info(onnx, built.domains))
    merged.graph.output.extend(port_info(onnx, port) for port in built.outputs)
    set_metadata(merged, built.metadata())
    return merged


def _internal_prefix(model: Classifier) -> str:
    """Beginning of names that no tensor of the classifier has."""
    names, number = model.names(), 1
    while any(name.startswith(f"domaincal{number}_") for name in names):
        number += 1  # a calibrator is attached already
    return f"domaincal{number}_"


def _require_free_names(model: Classifier, built: CalibratorGraph, prefix: str) -> None:
    """Raise InputError if the classifier has tensors with the names of new ones."""
    new = [*built.outputs, *([] if built.domains is None else [built.domains])]
    taken = [port.name for port in new if port.name in model.names()]
    if taken:
        raise InputError(
            f"{model.path} has already {few(map(repr, taken))}; pass another "
            f"prefix=... (--prefix), such as '{prefix}calibrated_', which begins the new names."
        )


def _described(onnx: Any, value: Any) -> str:
    """Type and shape of an input or output."""
    shape = shape_of(value)
    return dtype_of(onnx, value) + ("" if shape is None else f" {shown(shape)}")
