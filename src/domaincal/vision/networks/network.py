"""A torch module, split at its last layer into features and logits."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from domaincal.errors import InputError
from domaincal.vision.networks.preprocessing import Preprocessing


class Network:
    """A module that gives logits and, on the way, features: what enters its last layer.

    Parameters
    ----------
    module : torch.nn.Module
        From a batch of images to logits.
    layer : str
        The name of the last layer, as in ``module.named_modules()``. What enters it, flattened,
        are the features.
    preprocessing : Preprocessing, optional
        Needed for images that are not tensors yet.
    name : str, default "network"
    class_names : sequence of str, optional
    provenance : mapping, optional
        Where it comes from.

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
                f"{type(module).__name__}; pass the module that it was made of."
            )
        layers = dict(module.named_modules())
        if layer not in layers or not layer:
            known = [own for own, part in layers.items() if isinstance(part, nn.Linear)]
            raise InputError(
                f"the network has no layer {layer!r}; name its last one, perhaps one of "
                f"{', '.join(known[-5:]) or 'module.named_modules()'}."
            )
        self.module = module
        self.layer = layer
        self.preprocessing = preprocessing
        self.name = name
        self.class_names = None if class_names is None else tuple(class_names)
        self.provenance = dict(provenance or {})

    def __repr__(self) -> str:
        return f"Network({self.name!r}, layer={self.layer!r})"

    def to(self, device: torch.device | str) -> "Network":
        """The same network, moved there, and ready to be asked."""
        # Images come with channels last; on the CPU, blocked layouts of torch's own are as fast.
        if torch.device(device).type == "cuda":
            self.module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.module.to(device).eval()
        return self

    @torch.inference_mode()
    def outputs(
        self, images: Tensor, precision: torch.dtype = torch.float32
    ) -> tuple[Tensor, Tensor]:
        """Logits (float32) and features of a batch, as the module takes it, on its device.

        All layers but the last work in ``precision``, the last one in float32: half precision would
        leave three digits of a logit. A module whose weights are not float32 works as they are.
        """
        caught: list[Tensor] = []
        device = images.device.type
        mixed = precision != torch.float32 and self.dtype == torch.float32
        if images.is_floating_point() or images.dtype == torch.uint8:  # others are no pixels
            images = images.to(self.dtype)

        def last_layer(
            layer: nn.Module, given: tuple[Any, ...], named: dict[str, Any], output: Any
        ) -> Any:
            if not given or not isinstance(given[0], Tensor):
                first = f"a {type(given[0]).__name__} first" if given else "no positional argument"
                raise InputError(
                    f"the layer {self.layer!r} is called with {first}; features are what it is "
                    "called with: call it as layer(features) in the module's forward, or name "
                    "another layer."
                )
            caught.append(given[0])
            if not mixed:
                return output
            with torch.autocast(device, enabled=False):
                return layer.forward(given[0].float(), *given[1:], **named)

        part = self.module.get_submodule(self.layer)
        hook = part.register_forward_hook(last_layer, with_kwargs=True)
        try:
            with torch.autocast(device, precision, enabled=mixed):
                logits = self.module(images)
        finally:
            hook.remove()
        self._require_rows(logits, caught, len(images))
        return logits.float(), caught[0].flatten(1)

    def _require_rows(self, logits: Any, caught: list[Tensor], n: int) -> None:
        """Refuse what is no row of logits and one of features for each image."""
        if len(caught) != 1:
            raise InputError(
                f"the layer {self.layer!r} was called {len(caught)} times for one batch; name the "
                "last layer that the module calls, which it calls once."
            )
        if not isinstance(logits, Tensor):
            raise InputError(
                f"the network gives a {type(logits).__name__}, not logits alone; wrap it in a "
                "module whose forward returns them, such as self.inner(images)[0] or "
                f"self.inner(images).logits, and name its layer 'inner.{self.layer}'."
            )
        if logits.ndim != 2 or len(logits) != n:
            raise InputError(
                f"the network gives {tuple(logits.shape)} for {n} images; logits have the shape "
                "(images, classes): wrap it in a module whose forward returns those."
            )
        if caught[0].ndim < 2 or len(caught[0]) != n:
            raise InputError(
                f"{tuple(caught[0].shape)} enters the layer {self.layer!r} for {n} images; "
                "features have a row for each image: name another layer."
            )

    @property
    def dtype(self) -> torch.dtype:
        """Of the weights: modules in half or double precision take images of that."""
        kinds = (p.dtype for p in self.module.parameters() if p.dtype.is_floating_point)
        return next(kinds, torch.float32)

    def checksum(self) -> str:
        """Of all weights."""
        digest = hashlib.sha256()
        for name, values in sorted(self.module.state_dict().items()):
            if not isinstance(values, Tensor):  # what a module of the user's adds
                digest.update(f"{name} {values!r}\n".encode())
                continue
            digest.update(f"{name} {tuple(values.shape)} {values.dtype}\n".encode())
            digest.update(values.cpu().contiguous().flatten().view(torch.uint8).numpy().data)
        return digest.hexdigest()[:16]
