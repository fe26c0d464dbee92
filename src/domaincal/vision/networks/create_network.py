"""Networks of timm by name, with pretrained or random weights."""

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import nn

from domaincal._optional import require
from domaincal._validation import check_class_names, check_count, check_option
from domaincal.errors import InputError
from domaincal.vision.networks.network import Network
from domaincal.vision.networks.preprocessing import Preprocessing

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
