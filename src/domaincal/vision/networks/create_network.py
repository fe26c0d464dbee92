"""Create networks of timm by name, with pretrained or random weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import nn

from domaincal._optional import require
from domaincal._validation import check_class_names, check_option
from domaincal.errors import InputError
from domaincal.vision.networks.network import Network
from domaincal.vision.networks.preprocessing import Preprocessing, check_side

#: Networks of the paper and their names in timm. The first three have the weights of torchvision,
#: BiT-M and the vision transformers are pretrained on ImageNet-21k, and EfficientNet is trained
#: with AdvProp.
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


def create_network(
    name: str,
    *,
    class_names: Sequence[str] | None = None,
    side: int | None = None,
    stem: Stem = "standard",
    pretrained: bool = False,
    random_state: int = 0,
) -> Network:
    """Create a network of timm with pretrained or random weights.

    Parameters
    ----------
    name : str
        A network of the paper (resnet-50, resnext-50, densenet-121, bit-m-r50, efficientnet-b1,
        vit-small, vit-base), or any other one by its name in timm.
    class_names : sequence of str, optional
        Names of the classes to learn; the network gets a new last layer. By default the network
        keeps the classes and the last layer that it has in timm.
    side : int, optional
        Side of the images in px, at most 4096; by default that of the network in timm.
    stem : {"standard", "small"}, default "standard"
        "small" is for images of 32 to 96 px: a first convolution of 3 x 3 px with stride 1, or
        patches of 8 px. The new stem has random weights.
    pretrained : bool, default False
        Whether to load the pretrained weights of timm from its hub or its cache.
    random_state : int, default 0
        Seed of the random weights.

    Returns
    -------
    Network

    Examples
    --------
    >>> create_network("resnet-50", class_names=["cat", "dog"])  # doctest: +SKIP
    Network('resnet-50', layer='fc')
    """
    network = build_network(
        name, class_names=class_names, side=side, stem=stem, pretrained=pretrained,
        random_state=random_state,
    )  # fmt: skip
    if stem == "small" or side is not None:
        _require_side_works(network)
    return network


def build_network(
    name: str,
    *,
    class_names: Sequence[str] | None,
    side: int | None,
    stem: Stem,
    pretrained: bool = False,
    random_state: int = 0,
) -> Network:
    """Network of :func:`create_network`, without a trial of its side."""
    timm: Any = require("timm", extra="torch", purpose="create_network")
    if not isinstance(name, str):
        raise InputError(f"name must be the name of a network, such as 'resnet-50', got {name!r}.")
    if side is not None:
        check_side(side)
    class_names = _checked_class_names(class_names)
    check_option(stem, "stem", ("standard", "small"))
    timm_name = ARCHITECTURES.get(name, name)
    config = _timm_config(timm, timm_name, name)
    layer = _last_layer(name, config.classifier)
    if pretrained and config.crop_mode != "center":
        raise InputError(
            f"{name} was trained on images that timm crops with crop_mode={config.crop_mode!r}, "
            "which is not supported; choose a network with crop_mode 'center'."
        )
    if class_names is None and not config.num_classes:
        raise InputError(f"{name} has no classes; pass class_names=[...], and train it.")
    options = _timm_options(config, class_names, side, stem)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(random_state)
        module = _timm_module(timm, timm_name, pretrained=pretrained, options=options)
        if stem == "small" and not _has_patches(config):
            _replace_first_convolution(module, name)
    return Network(
        module,
        layer,
        preprocessing=Preprocessing.from_timm(module.pretrained_cfg, side=side),
        name=name,
        class_names=class_names,
        provenance={
            "timm": timm_name, "pretrained": pretrained, "stem": stem, "seed": random_state,
        },
    )  # fmt: skip


def _checked_class_names(class_names: Sequence[str] | None) -> tuple[str, ...] | None:
    if class_names is None:
        return None
    if len(class_names) < 2:
        raise InputError(
            f"class_names has {len(class_names)} name(s); a classifier needs at least two classes."
        )
    return check_class_names(class_names, n_classes=len(class_names))


def _timm_config(timm: Any, timm_name: str, name: str) -> Any:
    """Configuration of a network in timm."""
    if not timm.is_model(timm_name.split(".")[0]):
        raise InputError(
            f"there is no network {name!r}; choose from {', '.join(ARCHITECTURES)}, or a name of "
            "timm.list_models()."
        )
    try:
        return timm.models.get_pretrained_cfg(timm_name, allow_unregistered=False)
    except RuntimeError as error:
        raise InputError(
            f"there is no network {name!r} ({str(error).rstrip('.')}); choose a name of "
            "timm.list_pretrained(), or leave out the part after the point."
        ) from error


def _last_layer(name: str, classifier: Any) -> str:
    """Name of the last layer; raise an error if there is none, or more than one."""
    if isinstance(classifier, str):
        return classifier
    layers = f"{len(classifier or ())} last layers ({', '.join(classifier or ())})"
    raise InputError(
        f"{name} has {layers if classifier else 'no last layer'}, but the features are the input "
        f"of a single last layer; choose a network with one, such as {', '.join(ARCHITECTURES)}."
    )


def _has_patches(config: Any) -> bool:
    """Whether the network starts with patches, as vision transformers do."""
    return bool(config.first_conv == "patch_embed.proj")


def _timm_options(
    config: Any, class_names: Sequence[str] | None, side: int | None, stem: Stem
) -> dict[str, Any]:
    """Arguments of ``timm.create_model`` that differ from its defaults."""
    options: dict[str, Any] = {}
    if class_names is not None:
        options["num_classes"] = len(class_names)
    if config.fixed_input_size and side is not None:
        options["img_size"] = side
    if stem == "small" and _has_patches(config):
        options["patch_size"] = _SMALL_PATCH
    return options


def _timm_module(timm: Any, timm_name: str, *, pretrained: bool, options: dict[str, Any]) -> Any:
    try:
        return timm.create_model(timm_name, pretrained=pretrained, **options)
    except Exception as error:  # each family of networks raises its own errors
        cure = (
            "pretrained weights need its hub or its cache"
            if pretrained
            else "some networks do not support another side or stem: keep the default"
        )
        raise InputError(
            f"timm cannot create {timm_name!r} ({_first_line(error)}); {cure}."
        ) from error


def _replace_first_convolution(module: Any, name: str) -> None:
    """Replace the first convolution by one of 3 x 3 px with stride 1."""
    first = module.pretrained_cfg["first_conv"]
    old: Any = dict(module.named_modules()).get(first) if isinstance(first, str) else None
    if not isinstance(old, nn.Conv2d):
        raise InputError(
            f"{name} does not start with a single convolution, which stem='small' replaces; keep "
            "stem='standard'."
        )
    new = type(old)(
        old.in_channels, old.out_channels, 3, stride=1, padding=1, bias=old.bias is not None
    )
    parent, _, attribute = str(first).rpartition(".")
    setattr(module.get_submodule(parent), attribute, new)


def _require_side_works(network: Network) -> None:
    """Raise an error unless the network accepts images of the side in its preprocessing."""
    assert network.preprocessing is not None  # create_network always sets it
    side = network.preprocessing.side
    projection = getattr(getattr(network.module, "patch_embed", None), "proj", None)
    if isinstance(projection, nn.Conv2d) and projection.kernel_size == projection.stride:
        patch = projection.stride[0]
        if side % patch:
            raise InputError(
                f"side={side} is not a multiple of the patches of {network.name}, {patch} px, so "
                f"that it would ignore the border; pass side={max(side // patch, 1) * patch}."
            )
    training = network.module.training
    network.module.eval()
    try:
        with torch.inference_mode():
            network.module(torch.zeros(1, 3, side, side))
    except Exception as error:  # each family of networks raises its own errors
        if "meta tensor" in str(error):  # the shapes alone do not tell
            return
        raise InputError(
            f"{network.name} does not accept images of {side} px ({_first_line(error)}); choose "
            "another side or stem, or another network."
        ) from error
    finally:
        network.module.train(training)


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
