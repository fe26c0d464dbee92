"""Training: what is easy is learned, and the file says how."""

import numpy as np
import pytest
import torch

import domaincal as dc
from domaincal.extract import create_network, load_network, train
from domaincal.extract.training_steps import learning_rates, random_crops
from networks.conftest import photos, small_network

FAST = {"device": "cpu", "n_jobs": 0, "batch_size": 16, "learning_rate": 0.02}


def network(**options):
    return create_network(
        "resnet10t", class_names=["dark", "bright"], side=32, stem="small", **options
    )


def test_dark_and_bright_are_learned(tmp_path):
    made = network()
    done = train(
        made, photos(96, side=32), tmp_path / "n.safetensors", epochs=3,
        validation=photos(64, side=32, seed=1), **FAST,
    )  # fmt: skip
    assert done.history["epoch"].tolist() == [1, 2, 3]
    assert done.history["loss"].iloc[-1] < 0.5 * done.history["loss"].iloc[0]
    assert done.accuracy > 0.9
    again = load_network(tmp_path / "n.safetensors")
    assert again.checksum() == made.checksum()
    assert again.provenance["accuracy"] == done.accuracy
    assert again.provenance["epochs"] == 3
    assert set(again.provenance["versions"]) == {"python", "torch", "timm", "domaincal"}


@pytest.mark.parametrize("schedule", ["one-cycle", "cosine"])
def test_the_seed_decides(schedule, tmp_path):
    def weights(seed):
        made = network()
        train(
            made, photos(32, side=32), tmp_path / "n.safetensors", epochs=1, seed=seed,
            schedule=schedule, **FAST,
        )  # fmt: skip
        return made.checksum()

    assert weights(0) == weights(0) != weights(1)


def test_images_that_are_too_many_to_keep_are_decoded_for_each_epoch(tmp_path, monkeypatch):
    from domaincal.extract import batches

    sums = []
    for limit in (1 << 30, 0):
        monkeypatch.setattr(batches, "_KEPT_BYTES", limit)
        made = network()
        train(made, photos(32, side=32), tmp_path / "n.safetensors", epochs=1, **FAST)
        sums.append(made.checksum())
    assert sums[0] == sums[1]


def test_learning_rates():
    """One cycle rises from a 25th to the largest and falls to about 0; a cosine only falls."""
    rates = np.array(learning_rates("one-cycle", 100, 0.5))
    assert len(rates) == 100
    assert rates[0] == pytest.approx(0.5 / 25)
    assert rates.argmax() == 30
    assert rates.max() == pytest.approx(0.5)
    assert (np.diff(rates[:31]) > 0).all()
    assert (np.diff(rates[30:]) < 0).all()
    assert 0 < rates[-1] < 0.001
    cosine = np.array(learning_rates("cosine", 100, 0.5))
    assert cosine[0] == 0.5
    assert (np.diff(cosine) < 0).all()
    assert cosine[50] == pytest.approx(0.25)
    assert learning_rates("one-cycle", 1, 0.5) == [0.5]


def test_crops_of_the_whole_are_the_image_or_its_reflection():
    images = torch.rand(32, 3, 8, 8)
    crops = random_crops(images, 1.0, torch.Generator().manual_seed(0))
    kept = [torch.allclose(a, b, atol=1e-5) for a, b in zip(images, crops, strict=True)]
    mirrored = [
        torch.allclose(a.flip(-1), b, atol=1e-5) for a, b in zip(images, crops, strict=True)
    ]
    assert all(k != m for k, m in zip(kept, mirrored, strict=True))
    assert 8 <= sum(kept) <= 24


def test_crops_stay_inside():
    """A ramp from left to right: a part of it has a smaller span, and values of the whole."""
    ramp = torch.linspace(0, 1, 16).expand(200, 3, 16, 16)
    crops = random_crops(ramp, 0.25, torch.Generator().manual_seed(0))
    spans = (crops[:, 0, 0, -1] - crops[:, 0, 0, 0]).abs()
    assert crops.min() >= 0
    assert crops.max() <= 1
    assert 0.45 <= spans.min() < 0.6  # a side of at least sqrt(0.25)
    assert spans.max() > 0.9
    torch.testing.assert_close(crops[:, :, 0], crops[:, :, -1])


def test_what_cannot_be_trained(tmp_path):
    images = photos(32, side=32)
    with pytest.raises(dc.InputError, match="cannot be trained here"):
        train(small_network(), images, tmp_path / "n.safetensors")
    other = create_network("resnet10t", class_names=["a", "b", "c"])
    with pytest.raises(dc.InputError, match="the network has 3 classes"):
        train(other, images, tmp_path / "n.safetensors")
    with pytest.raises(dc.InputError, match="loss is not finite in epoch 1"):
        train(network(), images, tmp_path / "n.safetensors", **{**FAST, "learning_rate": 1e30})
    assert not (tmp_path / "n.safetensors").exists()
