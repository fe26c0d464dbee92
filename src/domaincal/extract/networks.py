"""Networks: a module of torch, split at its last layer, and what it expects of images."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from domaincal._errors import InputError
from domaincal._optional import require
from domaincal._validation import check_class_names, check_count, check_option
from domaincal.extract.preprocessing import Preprocessing

#: The paper's networks and what timm calls them. Those that ImageNet was learned with are the
#: plain ones, of torchvision; BiT-M is pre-trained on ImageNet-21k, and EfficientNet by AdvProp.
ARCHITECTURES = {
    "resnet-50": "resnet50.tv_in1k",
    "resnext-50": "resnext50_32x4d.tv_in1k",
    "densenet-121": "densenet121.tv_in1k",
    "bit-m-r50": "resnetv2_50x1_bit.goog_in21k_ft_in1k",
    "efficientnet-b1": "tf_efficientnet_b1.ap_in1k",
    "vit-small": "vit_small_patch16_224.augreg_in21k_ft_in1k",
    "vit-base": "vit_base_patch16_224.augreg_in21k_ft_in1k",
}

Stem = Literal["standard", "small"]
_SMALL_PATCH = 8


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
    >>> from domaincal.extract import Network
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


def create_network(
    name: str,
    *,
    class_names: Sequence[str] | None = None,
    side: int | None = None,
    stem: Stem = "standard",
    pretrained: bool = False,
    seed: int = 0,
) -> Network:
    """A network of timm's, with weights that were learned on ImageNet or at random.

    Parameters
    ----------
    name : str
        One of the paper's (resnet-50, resnext-50, densenet-121, bit-m-r50, efficientnet-b1,
        vit-small, vit-base), or any other under timm's name.
    class_names : sequence of str, optional
        Of the classes to be learned: the last layer starts anew. By default it stays as it is.
    side : int, optional
        Of images in px; by default the network's own.
    stem : {"standard", "small"}, default "standard"
        "small" is for images of 32 to 96 px: a first convolution of 3 x 3 px that leaves out none,
        or patches of 8 px. Its weights are random.
    pretrained : bool, default False
        Weights from timm's hub, which must be at reach or in its cache.
    seed : int, default 0
        Of random weights.

    Examples
    --------
    >>> create_network("resnet-50", class_names=["cat", "dog"])  # doctest: +SKIP
    Network('resnet-50', layer='fc')
    """
    timm: Any = require("timm", extra="torch", purpose="networks by name")
    if not isinstance(name, str):
        raise InputError(f"name must be that of a network, such as 'resnet-50', got {name!r}.")
    if side is not None:
        check_count(side, "side", minimum=1)
    if class_names is not None:
        if len(class_names) < 2:
            raise InputError(
                f"class_names has {len(class_names)} name(s); a network tells at least two apart."
            )
        class_names = check_class_names(class_names, n_classes=len(class_names))
    check_option(stem, "stem", ("standard", "small"))
    full = ARCHITECTURES.get(name, name)
    if not timm.is_model(full.split(".")[0]):
        raise InputError(
            f"there is no network {name!r}; choose from {', '.join(ARCHITECTURES)}, or a name of "
            "timm.list_models()."
        )
    try:
        known = timm.models.get_pretrained_cfg(full, allow_unregistered=False)
    except RuntimeError as error:
        raise InputError(
            f"there is no network {name!r} ({str(error).rstrip('.')}); choose a name of "
            "timm.list_pretrained(), or leave out what follows the point."
        ) from error
    layer = _one_classifier(name, known.classifier)
    if pretrained and known.crop_mode != "center":
        raise InputError(
            f"{name} was trained on images that were cut by timm's crop_mode={known.crop_mode!r}, "
            "which is not here; choose a network of crop_mode 'center'."
        )
    if class_names is None and not known.num_classes:
        raise InputError(f"{name} has no classes of its own; pass class_names=[...], and train it.")
    patches = known.first_conv == "patch_embed.proj"
    options: dict[str, Any] = {}
    if class_names is not None:
        options["num_classes"] = len(class_names)
    if known.fixed_input_size and side is not None:
        options["img_size"] = side
    if patches and stem == "small":
        options["patch_size"] = _SMALL_PATCH
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            module = timm.create_model(full, pretrained=pretrained, **options)
        except Exception as error:  # each family of networks has its own
            cure = (
                "pretrained weights need its hub or its cache"
                if pretrained
                else "not all networks take other sides or stems: leave those as they are"
            )
            raise InputError(
                f"timm cannot make {full!r} ({_first_line(error)}); {cure}."
            ) from error
        if stem == "small" and not patches:
            _replace_first_convolution(module, name)
    network = Network(
        module,
        layer,
        preprocessing=Preprocessing.of_timm(module.pretrained_cfg, side=side),
        name=name,
        class_names=class_names,
        provenance={"timm": full, "pretrained": pretrained, "stem": stem, "seed": seed},
    )
    if stem == "small" or side is not None:
        _require_works(network)
    return network


def _require_works(network: Network) -> None:
    """Refuse a network that does not take images of the side that it was asked to."""
    assert network.preprocessing is not None  # timm says what its networks expect
    side = network.preprocessing.side
    cut = getattr(getattr(network.module, "patch_embed", None), "proj", None)
    if isinstance(cut, nn.Conv2d) and cut.kernel_size == cut.stride and side % cut.stride[0]:
        patch = cut.stride[0]
        raise InputError(
            f"side={side} is no multiple of the patches of {network.name}, {patch} px, and it "
            f"would not see the rest; pass side={max(side // patch, 1) * patch}."
        )
    training = network.module.training
    network.module.eval()
    try:
        with torch.inference_mode():
            network.module(torch.zeros(1, 3, side, side))
    except Exception as error:  # each family of networks has its own
        raise InputError(
            f"{network.name} does not take images of {side} px ({_first_line(error)}); choose "
            "another side or stem, or another network."
        ) from error
    finally:
        network.module.train(training)


def _one_classifier(name: str, classifier: Any) -> str:
    """The last layer of a network of timm's; refuse those that have several or none."""
    if isinstance(classifier, str):
        return classifier
    several = f"{len(classifier or ())} last layers ({', '.join(classifier or ())})"
    has = several if classifier else "no last layer"
    raise InputError(
        f"{name} has {has}, and features are what enters the only one; choose a network with one, "
        f"such as {', '.join(ARCHITECTURES)}."
    )


def _replace_first_convolution(module: nn.Module, name: str) -> None:
    """A first convolution of 3 x 3 px that leaves out none, where it was a large or coarse one."""
    first = module.pretrained_cfg["first_conv"]  # type: ignore[index]
    old: Any = dict(module.named_modules()).get(first) if isinstance(first, str) else None
    if not isinstance(old, nn.Conv2d):
        raise InputError(
            f"{name} does not begin with one convolution, which stem='small' replaces; leave "
            "stem='standard'."
        )
    new = type(old)(
        old.in_channels, old.out_channels, 3, stride=1, padding=1, bias=old.bias is not None
    )
    above, _, own = str(first).rpartition(".")
    setattr(module.get_submodule(above), own, new)


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
