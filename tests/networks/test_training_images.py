"""Images that a network is shown during training and validation, and the accuracy."""

import numpy as np
import pytest
import torch

import domaincal as dc
from domaincal.vision import Extraction, Network, Preprocessing, extract, train
from networks.conftest import photos, small_network

SIDE = 8
PLAIN = Preprocessing(side=SIDE)


class Recorder(torch.nn.Module):
    """Module that classifies by the mean of an image, and records its inputs."""

    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(1, 2)
        self.shown = []
        with torch.no_grad():
            self.fc.weight[:, 0] = torch.tensor([-1.0, 1.0])
            self.fc.bias.zero_()

    def forward(self, images):
        self.shown.append((self.training, images.detach().clone()))
        return self.fc(images.mean((1, 2, 3))[:, None])

    def seen(self, *, training):
        return torch.cat([images for mode, images in self.shown if mode == training])


def trained(tmp_path, images, **options):
    """Train a recorder with steps that change nothing."""
    network = Network(
        Recorder(), "fc", preprocessing=PLAIN, class_names=["dark", "bright"],
        provenance={"timm": "none", "stem": "standard"},
    )  # fmt: skip
    still = {"learning_rate": 1e-30, "weight_decay": 0.0, "device": "cpu", "n_jobs": 0}
    done = train(network, images, tmp_path / "n.safetensors", **{**still, **options})
    return done, network.module


def noise(n, *, random_state=0):
    """Images that are all different, without symmetry."""
    pixels = (
        np.random.default_rng(random_state).integers(0, 256, (n, SIDE, SIDE, 3)).astype(np.uint8)
    )
    return dc.vision.ImageSet(pixels, np.arange(n) % 2, class_names=["dark", "bright"])


def normalised(images):
    return PLAIN.normalise(torch.from_numpy(np.asarray(images.images)))


def rows_of(shown, images):
    """Row of each shown image, which may be flipped."""
    known = normalised(images)
    both = torch.cat([known, known.flip(-1)])
    far = (shown[:, None] - both[None]).flatten(2).abs().amax(2)
    assert far.min(1).values.max() < 1e-3, "an image is not a whole image of the set"
    return (far.argmin(1) % len(known)).tolist()


def test_every_epoch_has_a_new_order(tmp_path):
    images = noise(12)
    _, module = trained(tmp_path, images, epochs=3, batch_size=4, smallest_crop=1.0)
    orders = [tuple(epoch) for epoch in np.split(np.array(rows_of(
        module.seen(training=True), images)), 3)]  # fmt: skip
    assert all(sorted(order) == list(range(12)) for order in orders)
    assert len({*orders, tuple(range(12))}) == 4


def test_epochs_have_full_batches_only(tmp_path):
    images = noise(10)
    _, module = trained(tmp_path, images, epochs=20, batch_size=4, smallest_crop=1.0)
    assert [len(shown) for _, shown in module.shown] == [4] * 2 * 20
    assert set(rows_of(module.seen(training=True), images)) == set(range(10))


def test_training_uses_crops_and_validation_whole_images(tmp_path):
    images, validation = noise(12), noise(7, random_state=1)
    _, module = trained(
        tmp_path, images, validation=validation, epochs=1, batch_size=3, smallest_crop=0.25
    )
    assert [mode for mode, _ in module.shown] == [True] * 4 + [False] * 3
    torch.testing.assert_close(module.seen(training=False), normalised(validation))
    learned = module.seen(training=True)
    with pytest.raises(AssertionError, match="not a whole image"):
        rows_of(learned, images)
    # The values of crops are within the range of the images.
    assert learned.min() >= normalised(images).min()
    assert learned.max() <= normalised(images).max()


def test_crops_differ_between_epochs_and_depend_on_the_seed(tmp_path):
    one = noise(1)  # repeated, so that the order makes no difference
    images = dc.vision.ImageSet(
        np.repeat(one.images, 2, axis=0), [0, 0], class_names=one.class_names
    )
    shown = {
        seed: trained(tmp_path, images, epochs=2, random_state=seed)[1].seen(training=True)
        for seed in (0, 1)
    }
    assert len(shown[0].flatten(1).unique(dim=0)) == 4
    assert not torch.equal(shown[0], shown[1])
    again = trained(tmp_path, images, epochs=2, random_state=0)[1].seen(training=True)
    assert torch.equal(shown[0], again)


@pytest.mark.parametrize("batch_size", [2, 3, 7, 100])
def test_accuracy_is_that_of_all_images_of_the_validation_set(batch_size, tmp_path):
    """Five of seven images are correct; the mean over batches would differ."""
    grey = np.array([10, 10, 240, 240, 10, 10, 240], np.uint8)
    pixels = np.broadcast_to(grey[:, None, None, None], (7, SIDE, SIDE, 3))
    labels = [0, 0, 1, 1, 0, 1, 0]
    validation = dc.vision.ImageSet(pixels.copy(), labels, class_names=["dark", "bright"])
    done, _ = trained(tmp_path, noise(8), validation=validation, epochs=2, batch_size=batch_size)
    assert done.history["accuracy"].tolist() == [5 / 7, 5 / 7]
    assert done.accuracy == done.network.provenance["accuracy"] == 5 / 7


def test_accuracy_is_nan_without_a_validation_set(tmp_path):
    done, module = trained(tmp_path, noise(4), epochs=1)
    assert np.isnan(done.accuracy)
    assert done.network.provenance["accuracy"] is None
    assert all(mode for mode, _ in module.shown)


@pytest.mark.parametrize(
    ("name", "value"), [("batch_size", 1), ("epochs", 0), ("random_state", -1)]
)
def test_invalid_numbers_are_refused_before_training(name, value, tmp_path):
    with pytest.raises(dc.errors.InputError, match=f"{name} must be .* got {value}"):
        trained(tmp_path, noise(4), **{name: value})
    assert not (tmp_path / "n.safetensors").exists()


@pytest.mark.parametrize("name", ["batch_size", "shard_rows"])
@pytest.mark.parametrize("value", [2.5, 0, -3])
def test_invalid_numbers_are_refused_before_extraction(name, value, tmp_path):
    with pytest.raises(dc.errors.InputError, match=f"{name} must be .* got {value}"):
        extract(small_network(), photos(), tmp_path / "rows", device="cpu", **{name: value})
    assert not (tmp_path / "rows").exists()


def test_rate_counts_new_rows_only(tmp_path):
    done = Extraction(
        dc.Store(tmp_path / "rows"), n_rows=30, n_kept=10, seconds=4.0, device="cpu",
        precision="float32",
    )  # fmt: skip
    assert done.rate == 5.0
