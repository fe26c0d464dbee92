"""A torch module, split at its last layer into features and logits."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from domaincal._last_layer import check_calls, check_returns_tensor, find_layer, first_input
from domaincal.errors import InputError
from domaincal.vision.networks.preprocessing import Preprocessing


class Network:
    """A module that returns logits, and whose last layer's input are the features.

    Parameters
    ----------
    module : torch.nn.Module
        Module that maps a batch of images to logits.
    layer : str
        Name of the last layer, as in ``module.named_modules()``. The features are its input,
        flattened.
    preprocessing : Preprocessing, optional
        How to turn images into the input of the module. It is needed for an :class:`ImageSet`.
    name : str, default "network"
    class_names : sequence of str, optional
    provenance : mapping, optional
        Origin of the network, as JSON values.

    Examples
    --------
    >>> import torch
    >>> from domaincal.vision import Network
    >>> module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 5), torch.nn.ReLU(),
    ...                              torch.nn.Linear(5, 3))
    >>> logits, features = Network(module, "3").outputs(torch.zeros(2, 3, 2, 2))
    >>> tuple(logits.shape), tuple(features.shape)
    ((2, 3), (2, 5))
    """

    def __init__(
        self,
        module: nn.Module,
        layer: str,
        *,
        preprocessing: Preprocessing | None = None,
        name: str = "network",
        class_names: Sequence[str] | None = None,
        provenance: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(module, nn.Module) or isinstance(module, torch.jit.ScriptModule):
            raise InputError(
                f"module must be a torch.nn.Module that is not compiled by torch.jit, got "
                f"{type(module).__name__}; pass the original module."
            )
        find_layer(module, layer)
        self.module = module
        self.layer = layer
        self.preprocessing = preprocessing
        self.name = name
        self.class_names = None if class_names is None else tuple(class_names)
        self.provenance = dict(provenance or {})

    def __repr__(self) -> str:
        return f"Network({self.name!r}, layer={self.layer!r})"

    def to(self, device: torch.device | str) -> Network:
        """Move the module to a device, set eval mode, and return the network itself."""
        # Images have their channels last. On the CPU, torch's own blocked layouts are as fast.
        if torch.device(device).type == "cuda":
            self.module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.module.to(device).eval()
        return self

    @torch.inference_mode()
    def outputs(
        self, images: Tensor, precision: torch.dtype = torch.float32
    ) -> tuple[Tensor, Tensor]:
        """Logits (float32) and features of a batch, which is the input of the module.

        All layers except the last compute in ``precision``. The last layer computes in float32,
        because half precision would leave three digits of a logit. A module whose weights are not
        float32 computes in their type.
        """
        captured: list[Tensor] = []
        device = images.device.type
        mixed = precision != torch.float32 and self.dtype == torch.float32
        if images.is_floating_point() or images.dtype == torch.uint8:  # other types are not pixels
            images = images.to(self.dtype)

        def capture_input(
            layer: nn.Module, given: tuple[Any, ...], named: dict[str, Any], output: Any
        ) -> Any:
            captured.append(first_input(self.layer, given))
            if not mixed:
                return output
            with torch.autocast(device, enabled=False):
                return layer.forward(given[0].float(), *given[1:], **named)

        last_layer = self.module.get_submodule(self.layer)
        hook = last_layer.register_forward_hook(capture_input, with_kwargs=True)
        try:
            with torch.autocast(device, precision, enabled=mixed):
                logits = self.module(images)
        finally:
            hook.remove()
        self._check_outputs(logits, captured, len(images))
        return logits.float(), captured[0].flatten(1)

    def _check_outputs(self, logits: Any, captured: list[Tensor], n: int) -> None:
        """Raise an error unless there is one row of logits and of features for each image."""
        check_calls(self.layer, len(captured))
        check_returns_tensor(logits, self.layer, inputs="images")
        if logits.ndim != 2 or len(logits) != n:
            raise InputError(
                f"the network returns the shape {tuple(logits.shape)} for {n} images, but logits "
                "must have the shape (images, classes); wrap it in a module that returns those."
            )
        if captured[0].ndim < 2 or len(captured[0]) != n:
            raise InputError(
                f"the input of the layer {self.layer!r} has the shape {tuple(captured[0].shape)} "
                f"for {n} images, but features must have one row per image; name another layer."
            )

    @property
    def dtype(self) -> torch.dtype:
        """Floating-point type of the weights, which is also that of the images."""
        dtypes = (p.dtype for p in self.module.parameters() if p.dtype.is_floating_point)
        return next(dtypes, torch.float32)

    def checksum(self) -> str:
        """Hash of all weights."""
        digest = hashlib.sha256()
        for name, values in sorted(self.module.state_dict().items()):
            if not isinstance(values, Tensor):  # extra state of a user's module
                digest.update(f"{name} {values!r}\n".encode())
                continue
            digest.update(f"{name} {tuple(values.shape)} {values.dtype}\n".encode())
            digest.update(values.cpu().contiguous().flatten().view(torch.uint8).numpy().data)
        return digest.hexdigest()[:16]
