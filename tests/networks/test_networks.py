"""Networks: logits and features of the seven of the paper, and of any module."""

import numpy as np
import pytest
import timm
import torch
from PIL import Image

import domaincal as dc
from domaincal.extract import ARCHITECTURES, Network, Preprocessing, create_network, extract
from networks.conftest import photos, small_network

SEVEN = [
    ("resnet-50", 2048), ("resnext-50", 2048), ("densenet-121", 1024), ("bit-m-r50", 2048),
    ("efficientnet-b1", 1280), ("vit-small", 384), ("vit-base", 768),
]  # fmt: skip


def test_the_paper_has_seven_networks():
    assert [name for name, _ in SEVEN] == list(ARCHITECTURES)


@pytest.mark.parametrize(("name", "n_features"), SEVEN)
def test_logits_and_features_of_the_seven(name, n_features, tmp_path):
    """Random weights, two images, each network's own size: what timm's own functions give."""
    network = create_network(name, class_names=["a", "b", "c"])
    images = dc.ImageSet(
        np.random.default_rng(0).integers(0, 256, (2, 90, 120, 3)).astype(np.uint8),
        [0, 2], class_names=["a", "b", "c"], domains=["x", "y"],
    )  # fmt: skip
    data = extract(network, images, tmp_path / "rows", device="cpu", n_jobs=0).store.read()
    assert data.logits.shape == (2, 3)
    assert data.features.shape == (2, n_features)
    assert data.logits.dtype == data.features.dtype == np.float32
    preprocessing, module = network.preprocessing, network.module.eval()
    cut = np.stack([preprocessing.cut(image) for image in images.images])
    with torch.inference_mode():
        passed = module.forward_features(preprocessing.normalise(torch.from_numpy(cut)))
        features = module.forward_head(passed, pre_logits=True)
        logits = module.forward_head(passed)
    np.testing.assert_allclose(data.features, features.flatten(1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(data.logits, logits, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["resnet-50", "bit-m-r50", "efficientnet-b1", "vit-small"])
def test_a_small_stem_sees_more_of_a_small_image(name):
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
def test_images_are_cut_as_timm_cuts_them(name, size):
    network = create_network(name)
    pixels = np.random.default_rng(1).integers(0, 256, (*size, 3)).astype(np.uint8)
    own = network.preprocessing.cut(pixels)
    config = timm.data.resolve_data_config({}, model=network.module)
    theirs = timm.data.create_transform(**config)(Image.fromarray(pixels))
    ours = network.preprocessing.normalise(torch.from_numpy(own.copy())[None])[0]
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def test_an_image_of_the_right_size_is_taken_as_it_is():
    """Those of ImageNet-C are: to resize and cut them again would show less of them."""
    pixels = np.random.default_rng(1).integers(0, 256, (224, 224, 3)).astype(np.uint8)
    assert create_network("resnet-50").preprocessing.crop < 1
    assert create_network("resnet-50").preprocessing.cut(pixels) is pixels


def test_features_are_what_enters_the_named_layer():
    network = small_network()
    images = torch.randn(5, 3, 16, 16)
    network.module.eval()
    logits, features = network.outputs(images)
    with torch.inference_mode():
        torch.testing.assert_close(features, network.module[:5](images))
        torch.testing.assert_close(logits, network.module(images))


def test_the_last_layer_works_in_single_precision():
    """Half precision changes the features by its rounding, and the logits by no more than that."""
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


def test_a_layer_that_is_not_there():
    with pytest.raises(dc.InputError, match="no layer 'fc'; name its last one, perhaps one of 5"):
        Network(small_network().module, "fc")


def test_a_layer_that_is_not_the_last():
    network = Network(small_network().module, "5")
    network.module.append(torch.nn.Unflatten(1, (1, 2)))
    with pytest.raises(dc.InputError, match="called 1 times and the network gives"):
        network.outputs(torch.zeros(1, 3, 16, 16))


def test_names_that_timm_does_not_know():
    with pytest.raises(dc.InputError, match=r"no network 'resnet-51'; choose from resnet-50, "):
        create_network("resnet-51")


def test_random_weights_follow_the_seed():
    global_state = torch.random.get_rng_state()
    sums = [create_network("resnet18", seed=seed).checksum() for seed in (0, 0, 1)]
    assert sums[0] == sums[1] != sums[2]
    assert torch.equal(torch.random.get_rng_state(), global_state)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"side": 0}, "side"), ({"crop": 0.0}, "crop"), ({"interpolation": "cubic"}, "interpolation")],
)
def test_preprocessing_refuses(wrong, message):
    with pytest.raises(dc.InputError, match=message):
        Preprocessing(**wrong)


def test_photos_are_what_the_tests_think():
    images = photos(6)
    assert len(images) == 6
    assert images.images[0].shape == (16, 16, 3)
