"""Small image sets and a small network. timm needs an import of torchvision to work."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import domaincal as dc
from domaincal.cli import main
from domaincal.vision import Network, Preprocessing, extract
from torchvision_shim import declare_operators
from trees import encoded, tiny_imagenet, write_zip

declare_operators()


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Limit torch to one thread: the test workers already use all cores."""
    torch.set_num_threads(1)


def run(*arguments: object, status: int = 0) -> str:
    """Output of a command."""
    done = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert done.exit_code == status, done.output
    return done.output


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Folder of Tiny-ImageNet: six training and six validation images of three classes."""
    files = tiny_imagenet(picture=partial(encoded, side=64), per_class=2)
    return write_zip(tmp_path / "tiny" / "all.zip", files).parent


def photos(n: int = 40, *, side: int = 16, random_state: int = 0) -> dc.vision.ImageSet:
    """Images of two classes, bright and dark, in two domains; each image is a group."""
    rng = np.random.default_rng(random_state)
    labels = rng.integers(0, 2, n)
    pixels = rng.integers(0, 128, (n, side, side, 3)) + 127 * labels[:, None, None, None]
    return dc.vision.ImageSet(
        pixels.astype(np.uint8), labels, class_names=["dark", "bright"],
        domains=np.where(np.arange(n) % 3 == 0, "day", "night"), groups=np.arange(n),
    )  # fmt: skip


def small_network(side: int = 16, random_state: int = 0, n_classes: int = 2) -> Network:
    """Network of a convolution, a mean over the image and a linear layer."""
    with torch.random.fork_rng():
        torch.manual_seed(random_state)
        module = torch.nn.Sequential(
            torch.nn.Conv2d(3, 6, 3, padding=1), torch.nn.BatchNorm2d(6), torch.nn.ReLU(),
            torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(6, n_classes),
        )  # fmt: skip
    return Network(module, "5", preprocessing=Preprocessing(side=side), name="small")


def extract_rows(tmp_path, name, network=None, images=None, **options):
    """Rows of the store ``name`` after an extraction on the CPU."""
    options = {"device": "cpu", "n_jobs": 0, **options}
    network = small_network() if network is None else network
    done = extract(network, photos() if images is None else images, tmp_path / name, **options)
    return done.store.read()


def assert_same_rows(one: dc.CalibrationData, other: dc.CalibrationData) -> None:
    np.testing.assert_allclose(one.logits, other.logits, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(one.features, other.features, rtol=1e-5, atol=1e-6)
    for name in ("labels", "domains", "groups"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
