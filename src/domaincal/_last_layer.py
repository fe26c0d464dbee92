"""The last layer of a torch module, whose input are the features."""

from __future__ import annotations

import difflib
from typing import Any

from domaincal._tensors import is_tensor, loaded_torch
from domaincal.errors import InputError

_SHOWN = 5


def find_layer(module: Any, layer: Any) -> Any:
    """Part of a module by its name, as in ``module.named_modules()``."""
    layers = dict(module.named_modules())
    if not isinstance(layer, str) or not layer or layer not in layers:
        raise InputError(
            f"the network has no layer {layer!r}; name its last layer, perhaps one of "
            f"{suggested_layers(module, layer)}."
        )
    return layers[layer]


def suggested_layers(module: Any, layer: Any = None) -> str:
    """Names of layers that are similar to ``layer``, and of the last linear layers."""
    layers = dict(module.named_modules())
    similar = difflib.get_close_matches(layer, layers, _SHOWN) if isinstance(layer, str) else []
    linear = [name for name, part in layers.items() if isinstance(part, loaded_torch().nn.Linear)]
    names = dict.fromkeys(name for name in [*similar, *linear[-_SHOWN:]] if name)
    return ", ".join(names) or "module.named_modules()"


def first_input(layer: str, given: tuple[Any, ...]) -> Any:
    """First positional argument of a call of the last layer."""
    if given and is_tensor(given[0]):
        return given[0]
    first = f"a {type(given[0]).__name__} first" if given else "no positional argument"
    raise InputError(
        f"the layer {layer!r} is called with {first}, but its first argument must be the "
        "features; call it as layer(features) in the module's forward, or name another layer."
    )


def check_calls(layer: str, n_calls: int) -> None:
    """Raise InputError unless the last layer was called once."""
    if n_calls != 1:
        raise InputError(
            f"the layer {layer!r} was called {n_calls} times for one batch; name "
            "the last layer of the module, which must be called once."
        )


def check_returns_tensor(logits: Any, layer: str | None, *, inputs: str) -> None:
    """Raise InputError unless the module returned a tensor; ``inputs`` is the name of its input."""
    if not is_tensor(logits):
        raise InputError(
            f"the network returns a {type(logits).__name__} instead of logits; wrap it in a "
            f"module whose forward returns them, such as self.inner({inputs})[0] or "
            f"self.inner({inputs}).logits{renamed_layer(layer)}."
        )


def renamed_layer(layer: str | None) -> str:
    """End of a message whose cure is to wrap the network."""
    return "" if layer is None else f", and name its layer 'inner.{layer}'"
