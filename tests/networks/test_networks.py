"""Networks: logits and features of the seven networks of the paper, and of any module."""

import resource
from dataclasses import dataclass

import numpy as np
import pytest
import timm
import torch
from PIL import Image

import domaincal as dc
from domaincal.vision import ARCHITECTURES, Network, Preprocessing, create_network, extract
from networks.conftest import photos, small_network

SEVEN = [
    ("resnet-50", 2048), ("resnext-50", 2048), ("densenet-121", 1024), ("bit-m-r50", 2048),
    ("efficientnet-b1", 1280), ("vit-small", 384), ("vit-base", 768),
]  # fmt: skip


def test_architectures_are_the_seven_of_the_paper():
    assert [name for name, _ in SEVEN] == list(ARCHITECTURES)


@pytest.mark.parametrize(("name", "n_features"), SEVEN)
def test_logits_and_features_equal_those_of_timm(name, n_features, tmp_path):
    network = create_network(name, class_names=["a", "b", "c"])
    images = dc.vision.ImageSet(
        np.random.default_rng(0).integers(0, 256, (2, 90, 120, 3)).astype(np.uint8),
        [0, 2], class_names=["a", "b", "c"], domains=["x", "y"],
    )  # fmt: skip
    data = extract(network, images, tmp_path / "rows", device="cpu", n_jobs=0).store.read()
    assert data.logits.shape == (2, 3)
    assert data.features.shape == (2, n_features)
    assert data.logits.dtype == data.features.dtype == np.float32
    preprocessing, module = network.preprocessing, network.module.eval()
    cropped = np.stack([preprocessing.resize_and_crop(image) for image in images.images])
    with torch.inference_mode():
        passed = module.forward_features(preprocessing.normalise(torch.from_numpy(cropped)))
        features = module.forward_head(passed, pre_logits=True)
        logits = module.forward_head(passed)
    np.testing.assert_allclose(data.features, features.flatten(1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(data.logits, logits, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["resnet-50", "bit-m-r50", "efficientnet-b1", "vit-small"])
def test_small_stem_gives_larger_feature_maps_of_small_images(name):
    images = torch.zeros(1, 3, 64, 64)
    reached = {}
    for stem in ("standard", "small"):
        network = create_network(name, class_names=["a", "b"], side=64, stem=stem)
        with torch.inference_mode():
            seen = network.module.eval().forward_features(images)
        reached[stem] = seen[0].numel()
    assert reached["small"] > 3 * reached["standard"]


@pytest.mark.parametrize("name", ["resnet-50", "bit-m-r50", "efficientnet-b1"])
@pytest.mark.parametrize("size", [(300, 400), (64, 500), (333, 331)])
def test_preprocessing_equals_that_of_timm(name, size):
    network = create_network(name)
    pixels = np.random.default_rng(1).integers(0, 256, (*size, 3)).astype(np.uint8)
    own = network.preprocessing.resize_and_crop(pixels)
    config = timm.data.resolve_data_config({}, model=network.module)
    theirs = timm.data.create_transform(**config)(Image.fromarray(pixels))
    ours = network.preprocessing.normalise(torch.from_numpy(own.copy())[None])[0]
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size", [(40, 600), (600, 40), (3, 1000)])
def test_long_images_are_cropped_while_they_are_resized(size, monkeypatch):
    preprocessing = Preprocessing(side=32, crop=0.875)
    pixels = np.random.default_rng(1).integers(0, 256, (*size, 3)).astype(np.uint8)
    at_once = preprocessing.resize_and_crop(pixels)
    monkeypatch.setattr("domaincal.vision.networks.preprocessing._LONG", 1000)
    in_two_steps = preprocessing.resize_and_crop(pixels)
    assert np.abs(at_once.astype(int) - in_two_steps).max() <= 2  # of rounding


def test_a_long_image_takes_no_more_memory():
    """Resized as a whole, it would have 224 x 22,400,000 px."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert Preprocessing().resize_and_crop(np.zeros((1, 100_000, 3), np.uint8)).shape[0] == 224
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kB


def test_image_of_the_right_size_is_not_resized_or_cropped():
    """Images of ImageNet-C have the right size: a second crop would remove more of them."""
    pixels = np.random.default_rng(1).integers(0, 256, (224, 224, 3)).astype(np.uint8)
    assert create_network("resnet-50").preprocessing.crop < 1
    assert create_network("resnet-50").preprocessing.resize_and_crop(pixels) is pixels


def test_features_are_the_input_of_the_last_layer():
    network = small_network()
    images = torch.randn(5, 3, 16, 16)
    network.module.eval()
    logits, features = network.outputs(images)
    with torch.inference_mode():
        torch.testing.assert_close(features, network.module[:5](images))
        torch.testing.assert_close(logits, network.module(images))


def test_last_layer_computes_in_float32():
    """Half precision changes the logits only through the rounding of the features."""
    network = small_network()
    network.module.eval()
    images = torch.randn(64, 3, 16, 16)
    exact, _ = network.outputs(images)
    logits, features = network.outputs(images, torch.bfloat16)
    assert features.dtype == torch.bfloat16
    assert logits.dtype == torch.float32
    with torch.inference_mode():
        torch.testing.assert_close(logits, network.module[5](features.float()))
    torch.testing.assert_close(logits, exact, rtol=0.02, atol=0.02)
    assert not torch.equal(logits, logits.bfloat16().float())


def test_unknown_layer_is_refused():
    with pytest.raises(
        dc.errors.InputError, match="no layer 'fc'; name its last layer, perhaps one of 5"
    ):
        Network(small_network().module, "fc")


@pytest.mark.parametrize(
    ("added", "message"),
    [
        (torch.nn.Unflatten(1, (1, 2)), r"returns the shape \(3, 1, 2\) for 3 images, but"),
        (torch.nn.Flatten(0), r"returns the shape \(6,\) for 3 images"),
        (torch.nn.Sequential(torch.nn.Flatten(0), torch.nn.Unflatten(0, (2, 3))),
         r"returns the shape \(2, 3\) for 3 images"),
    ],
)  # fmt: skip
def test_logits_of_another_shape_are_refused(added, message):
    network = Network(small_network().module.append(added), "5")
    with pytest.raises(dc.errors.InputError, match=message):
        network.outputs(torch.zeros(3, 3, 16, 16))


@dataclass
class Output:
    logits: torch.Tensor


@pytest.mark.parametrize(
    ("wrap", "name"),
    [
        (lambda logits: (logits, logits), "tuple"),
        (lambda logits: [logits], "list"),
        (lambda logits: {"logits": logits}, "dict"),
        (Output, "Output"),
        (lambda logits: None, "NoneType"),
    ],
)
def test_outputs_that_are_not_tensors_are_refused(wrap, name, tmp_path, monkeypatch):
    """The error is raised before an image is decoded, and its cure works."""

    class Wrapped(torch.nn.Module):
        def __init__(self, give):
            super().__init__()
            self.inner, self.give = small_network().module.eval(), give

        def forward(self, images):
            return self.give(self.inner(images))

    monkeypatch.setattr(Preprocessing, "resize_and_crop", None)  # decoding would fail
    network = Network(Wrapped(wrap), "inner.5", preprocessing=Preprocessing(side=16))
    message = f"returns a {name} instead of logits; wrap it .*'inner.inner.5'"
    with pytest.raises(dc.errors.InputError, match=message):
        extract(network, photos(), tmp_path / "rows", device="cpu", n_jobs=0)
    with pytest.raises(dc.errors.InputError, match=message):
        network.outputs(torch.zeros(2, 3, 16, 16))

    class Logits(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Wrapped(Output)

        def forward(self, images):
            return self.inner(images).logits

    logits, features = Network(Logits(), "inner.inner.5").outputs(torch.zeros(2, 3, 16, 16))
    assert (logits.shape, features.shape) == ((2, 2), (2, 6))


class Calling(torch.nn.Module):
    """Module that calls its last layer with a given function."""

    def __init__(self, call):
        super().__init__()
        self.head, self.call = torch.nn.Linear(4, 2), call

    def forward(self, images):
        return self.call(self.head, images.flatten(1)[:, :4])


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda head, x: head(input=x), "'head' is called with no positional argument, .* call it"),
        (lambda head, x: head(head(x).repeat(1, 2)), "'head' was called 2 times for one batch"),
        (lambda head, x: x[:, :2], "'head' was called 0 times for one batch; name the last layer"),
        (
            lambda head, x: head(x.mean(0))[None].repeat(4, 1),
            r"input of the layer 'head' has the shape \(4,\) for 4",
        ),
        (
            lambda head, x: head(x.repeat(2, 1))[:4],
            r"input of the layer 'head' has the shape \(8, 4\) for 4 images",
        ),
    ],
)
def test_invalid_calls_of_the_last_layer_are_refused(call, message, precision):
    with pytest.raises(dc.errors.InputError, match=message):
        Network(Calling(call), "head").outputs(torch.zeros(4, 3, 4, 4), precision)


class Scaled(torch.nn.Linear):
    def forward(self, given, scale=1.0):
        if isinstance(given, tuple):
            given, scale = given
        return scale * super().forward(given)


def test_last_layer_called_with_a_tuple_is_refused():
    module = Calling(lambda head, x: head((x, 2.0)))
    module.head = Scaled(4, 2)
    with pytest.raises(dc.errors.InputError, match="'head' is called with a tuple first"):
        Network(module, "head").outputs(torch.zeros(3, 3, 4, 4))


@pytest.mark.parametrize("call", [lambda head, x: head(x, 2.0), lambda head, x: head(x, scale=2.0)])
def test_further_arguments_of_the_last_layer_are_passed_on_in_half_precision(call):
    module = Calling(call)
    module.head = Scaled(4, 2)
    images = torch.randn(3, 3, 4, 4)
    exact, _ = Network(module, "head").outputs(images)
    half, _ = Network(module, "head").outputs(images, torch.bfloat16)
    torch.testing.assert_close(half, exact)


def test_images_of_other_classes_are_refused_before_any_is_decoded(tmp_path, monkeypatch):
    monkeypatch.setattr(Preprocessing, "resize_and_crop", None)
    with pytest.raises(
        dc.errors.InputError, match="the network has 3 outputs, but the images have 2"
    ):
        extract(small_network(n_classes=3), photos(), tmp_path / "rows", device="cpu", n_jobs=0)


def test_unknown_names_are_refused():
    with pytest.raises(
        dc.errors.InputError, match=r"no network 'resnet-51'; choose from resnet-50, "
    ):
        create_network("resnet-51")
    with pytest.raises(
        dc.errors.InputError, match=r"no network 'resnet50.x' \(Invalid pretrained tag"
    ):
        create_network("resnet50.x")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("deit_tiny_distilled_patch16_224", r"has 2 last layers \(head, head_dist\).*resnet-50"),
        ("qwen3_vit_88m_enc", "has no last layer, .* choose a network with one, such as resnet-50"),
    ],
)
def test_networks_without_a_single_last_layer_are_refused(name, message, monkeypatch):
    monkeypatch.setattr(timm, "create_model", None)  # the network is neither created nor downloaded
    with pytest.raises(dc.errors.InputError, match=f"{name} {message}"):
        create_network(name, class_names=["a", "b"], pretrained=True)


def test_network_without_classes_needs_class_names(monkeypatch):
    monkeypatch.setattr(timm, "create_model", None)
    with pytest.raises(
        dc.errors.InputError, match=r"vit_small_patch14_dinov2 has no classes; .*class_names"
    ):
        create_network("vit_small_patch14_dinov2")


@pytest.mark.parametrize("name", ["pvt_v2_b0", "gcvit_xxtiny", "convnext_atto"])
def test_other_networks_accept_another_side(name):
    network = create_network(name, class_names=["a", "b", "c"], side=64)
    assert network.module.training  # as created by timm
    assert network.outputs(torch.zeros(2, 3, 64, 64))[0].shape == (2, 3)


@pytest.mark.parametrize(("name", "options", "message"), [
    ("halonet26t", {"side": 64}, r"does not accept images of 64 px \(AssertionError\); choose"),
    ("coat_tiny", {"stem": "small"}, "coat_tiny does not accept images of 224 px .* another side"),
    ("pvt_v2_b0", {"stem": "small"}, "timm cannot create .*'patch_size'.* another side or stem"),
    ("fastvit_t8", {"stem": "small"}, "does not start with a single convolution.*keep stem="),
    ("vit-small", {"side": 30}, "side=30 is not a multiple of the patches .* 16 px.*side=16"),
    ("vit-small", {"side": 36, "stem": "small"}, "not a multiple of the patches .* 8 px.*side=32"),
    ("swin_tiny_patch4_window7_224", {"side": 50}, "a multiple of the patches .* 4 px.*side=48"),
    ("dm_nfnet_f0", {"pretrained": True}, "crop_mode='squash', which is not supported"),
    (None, {}, "name must be the name of a network, such as 'resnet-50', got None"),
    ("resnet10t", {"class_names": ["a"]}, "class_names has 1 name"),
])  # fmt: skip
def test_unsupported_arguments_are_refused(name, options, message):
    with pytest.raises(dc.errors.InputError, match=message):
        create_network(name, **{"class_names": ["a", "b", "c"], **options})


def test_random_weights_depend_on_the_seed():
    global_state = torch.random.get_rng_state()
    sums = [create_network("resnet18", random_state=seed).checksum() for seed in (0, 0, 1)]
    assert sums[0] == sums[1] != sums[2]
    assert torch.equal(torch.random.get_rng_state(), global_state)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"side": 0}, "side"),
        ({"side": 4097}, "side must be at most 4096 px, got 4097"),
        ({"crop": 0.2}, "crop must be in"),
        ({"interpolation": "cubic"}, "interpolation"),
        ({"mean": 0.5}, "mean must be three numbers"),
        ({"std": (1.0, 1.0)}, "std must be three numbers"),
        ({"std": (1.0, 0.0, 1.0)}, "std must be above 0"),
    ],
)
def test_invalid_preprocessing_is_refused(wrong, message):
    with pytest.raises(dc.errors.InputError, match=message):
        Preprocessing(**wrong)
