"""A network that returns calibrated probabilities."""

# Short signatures in help(): annotations stay text.
from __future__ import annotations

import threading
from typing import Any

from domaincal._last_layer import (
    check_calls,
    check_returns_tensor,
    find_layer,
    first_input,
    renamed_layer,
    suggested_layers,
)
from domaincal._optional import require
from domaincal.calibrators.base import Calibrator
from domaincal.calibrators.calibrator_module import CalibratorModule
from domaincal.deploy.calibrated_classifier import CalibratedDomainClassifier
from domaincal.errors import InputError

torch: Any = require("torch", extra="torch", purpose="CalibratedModel")


class CalibratedModel(torch.nn.Module):
    """A network and a fitted calibrator in one torch module.

    One forward pass of the network gives logits and features, and with them calibrated
    probabilities, their confidence and the temperature. The module is put in eval mode, because the
    calibrator was fitted to outputs in eval mode. The network is not copied. Its ``layer`` keeps a
    hook, which does nothing when the network is called by itself.

    Parameters
    ----------
    model : torch.nn.Module
        Network that returns the logits: a tensor of shape (rows, n_classes).
    calibrator : calibrator
        Fitted to logits of this network and, if it uses features, to the input of ``layer``. Its
        module is :meth:`to_torch`.
    layer : str, optional
        Name of the last layer of the network; the features are its input, flattened. By default
        that of timm's ``get_classifier()``. Not needed for a calibrator that uses no features.

    Attributes
    ----------
    model : torch.nn.Module
        The network.
    calibrator : torch.nn.Module
        Module of the calibrator, on the device of the network.
    layer : str or None
        None if features are not used.

    Examples
    --------
    >>> import domaincal as dc, torch
    >>> from domaincal.deploy import CalibratedModel
    >>> _ = torch.manual_seed(0)
    >>> network = torch.nn.Sequential(
    ...     torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)
    ... )
    >>> rows = torch.randn(200, 4)
    >>> with torch.inference_mode():
    ...     features = network[:2](rows)
    ...     logits = network[2](features)
    >>> labels = logits.softmax(1).multinomial(1)
    >>> calibrator = dc.FeatureTemperatureScaling().fit(logits, labels, features=features)
    >>> calibrated = CalibratedModel(network, calibrator, layer="2")
    >>> with torch.inference_mode():
    ...     found = calibrated(rows[:5])
    >>> found.probabilities.shape, found.confidence.shape, found.temperature.shape
    (torch.Size([5, 3]), torch.Size([5]), torch.Size([5]))
    """

    def __init__(self, model: Any, calibrator: Any, *, layer: str | None = None) -> None:
        super().__init__()
        if not isinstance(model, torch.nn.Module):
            raise InputError(
                f"model must be a torch.nn.Module, got {type(model).__name__}; for a "
                "domaincal.vision.Network pass network.module and layer=network.layer."
            )
        if not isinstance(calibrator, Calibrator):
            raise InputError(
                f"calibrator must be a fitted calibrator of domaincal, got "
                f"{type(calibrator).__name__}; {_calibrator_cure(calibrator)}."
            )
        module = calibrator.to_torch()
        self.layer = None
        if module.n_features is not None:
            _check_is_not_compiled(model, layer)
        if layer is not None:
            find_layer(model, layer)
        if module.n_features is not None:
            self.layer = _classifier_name(model, module.method) if layer is None else layer
        weight = next(model.parameters(), None)
        self.model = model
        self.calibrator = module if weight is None else module.to(weight.device)
        self._calls = _LayerCalls()
        self._to_eval_mode()
        if self.layer is not None:
            find_layer(model, self.layer).register_forward_pre_hook(self._calls.capture)

    def forward(self, *inputs: Any, domains: Any = None, **options: Any) -> Any:
        """Calibrated predictions for the inputs of the network.

        Parameters
        ----------
        *inputs, **options
            Arguments of the network.
        domains : tensor of integers, shape (n,), optional
            Domain of each row, for calibrators that use it, as in :meth:`to_torch`. It is not
            passed to the network.

        Returns
        -------
        TorchPredictions
            Named tuple of ``probabilities``, ``confidence`` and ``temperature``.
        """
        captured: list[tuple[Any, ...]] = []
        self._calls.inputs = captured
        try:
            logits = self.model(*inputs, **options)
        finally:
            self._calls.inputs = None
        check_returns_tensor(logits, self.layer, inputs="inputs")
        self._check_shape(logits)
        features = None if self.layer is None else self._features(captured, logits.shape[0])
        return self.calibrator(logits, features, domains)

    def _check_shape(self, logits: Any) -> None:
        """Raise InputError unless logits have the shape (rows, classes)."""
        n_classes = self.calibrator.n_classes
        if n_classes == 2 and (logits.ndim == 1 or logits.shape[1:] == (1,)):
            raise InputError(
                f"the network returns the shape {tuple(logits.shape)}: one logit z for each row, "
                "but the calibrator was fitted with 2 classes; wrap it in a module whose forward "
                "makes z 1-dimensional and returns torch.stack((torch.zeros_like(z), z), dim=1)"
                f"{renamed_layer(self.layer)}."
            )
        if logits.ndim != 2:
            raise InputError(
                f"the network returns the shape {tuple(logits.shape)}, but logits must have the "
                "shape (rows, classes); wrap it in a module whose forward returns those"
                f"{renamed_layer(self.layer)}."
            )
        if logits.shape[1] != n_classes:
            raise InputError(
                f"the network returns {logits.shape[1]} classes, but the calibrator was fitted "
                f"with {n_classes}; pass a calibrator that was fitted to logits of this network."
            )

    def _features(self, captured: list[tuple[Any, ...]], n_rows: int) -> Any:
        """Input of the last layer, flattened."""
        check_calls(str(self.layer), len(captured))
        features = first_input(str(self.layer), captured[0])
        if features.ndim < 2 or features.shape[0] != n_rows:
            raise InputError(
                f"the input of the layer {self.layer!r} has the shape {tuple(features.shape)} "
                f"for {n_rows} rows of logits, but features must have one row for each; name "
                "another layer."
            )
        features = features.flatten(1)
        n_features = self.calibrator.n_features
        if features.shape[1] != n_features:
            raise InputError(
                f"the input of the layer {self.layer!r} has {features.shape[1]} features, but the "
                f"calibrator was fitted with {n_features}; name the layer whose input the features "
                "of the fit were."
            )
        return features

    def _to_eval_mode(self) -> None:
        try:
            self.eval()
        except NotImplementedError:  # the answer of graphs of torch.export
            raise InputError(
                f"the network is a {type(self.model).__name__} of torch.export, which cannot be "
                "put in eval mode; pass the network that was exported, and export the "
                "CalibratedModel."
            ) from None


class _LayerCalls(threading.local):
    """Inputs of the last layer in a forward pass of this thread; several threads may have one.

    The hook on the layer is a method of this object: a copy of the network has no calibrator.
    """

    def __init__(self) -> None:
        self.inputs: list[tuple[Any, ...]] | None = None

    def capture(self, layer: Any, given: tuple[Any, ...]) -> None:
        """Keep the input of a call, unless the network is called by itself."""
        if self.inputs is not None:
            self.inputs.append(given)

    def __reduce__(self) -> Any:
        return (_LayerCalls, ())  # copies and files of the module hold no inputs


def _calibrator_cure(given: Any) -> str:
    """What to pass instead of an object that is no calibrator."""
    if isinstance(given, CalibratedDomainClassifier):
        return "pass its calibrator_, if it was fitted to logits of this network"
    if isinstance(given, CalibratorModule):
        return "pass the calibrator that the module was made of"
    return "domaincal.load(path) reads one from a file"


def _check_is_not_compiled(model: Any, layer: str | None) -> None:
    """Raise InputError if a part of the network around the layer is compiled.

    Compiled code need not call the hook on the layer.
    """
    for name, part in model.named_modules():
        if name and not f"{layer}.".startswith(f"{name}."):
            continue
        place = "the network" if layer is None else f"the network around the layer {layer!r}"
        if isinstance(part, torch.jit.ScriptModule) and name != layer:
            raise InputError(
                f"{place} is compiled by torch.jit, so that the input of its last layer cannot be "
                "read; pass the network as it was before torch.jit.trace or torch.jit.script."
            )
        if "_orig_mod" in part._modules or part._compiled_call_impl is not None:
            raise InputError(
                f"{place} is compiled by torch.compile, which may leave out the hook on its last "
                "layer; pass the network as it was before, and compile the CalibratedModel instead."
            )


def _classifier_name(model: Any, method: str) -> str:
    """Name of the last layer of a network of timm."""
    classifier = model.get_classifier() if hasattr(model, "get_classifier") else None
    for name, part in model.named_modules():
        if part is classifier and name:
            return str(name)
    raise InputError(
        f"{method} needs features; pass layer=..., the name of the last layer of the network, "
        f"whose input they are, perhaps one of {suggested_layers(model)}."
    )
