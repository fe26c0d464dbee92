"""Training reduces the loss, follows its parameters, and records them in the file."""

import numpy as np
import pytest
import torch

import domaincal as dc
from domaincal.vision import create_network, image_batches, load_network, train
from domaincal.vision.training.learning_rates import learning_rates
from domaincal.vision.training.random_crops import random_crops
from networks.conftest import photos, small_network

FAST = {"device": "cpu", "n_jobs": 0, "batch_size": 16, "learning_rate": 0.02}


def network(**options):
    return create_network(
        "resnet10t", class_names=["dark", "bright"], side=32, stem="small", **options
    )


def test_training_learns_an_easy_task_and_saves_the_network(tmp_path):
    made, images = network(), photos(96, side=32)
    images.provenance.update({"made by": "hand", "data set": "synthetic"})
    done = train(
        made, images, tmp_path / "n.safetensors", epochs=3,
        validation=photos(64, side=32, random_state=1), **FAST,
    )  # fmt: skip
    assert done.history["epoch"].tolist() == [1, 2, 3]
    assert done.history["loss"].iloc[-1] < 0.5 * done.history["loss"].iloc[0]
    assert done.accuracy > 0.9
    again = load_network(tmp_path / "n.safetensors")
    assert again.checksum() == made.checksum()
    assert again.provenance["accuracy"] == done.accuracy
    assert again.provenance["epochs"] == 3
    assert again.provenance["images"] == images.fingerprint()
    assert again.provenance["data made by"] == "hand"
    assert again.provenance["data set"] == "synthetic"
    assert set(again.provenance["versions"]) == {
        "python", "torch", "timm", "pillow", "simplejpeg", "domaincal",
    }  # fmt: skip


@pytest.mark.parametrize("schedule", ["one-cycle", "cosine"])
def test_weights_depend_on_the_seed(schedule, tmp_path):
    def weights(seed):
        made = network()
        train(
            made, photos(32, side=32), tmp_path / "n.safetensors", epochs=1, random_state=seed,
            schedule=schedule, **FAST,
        )  # fmt: skip
        return made.checksum()

    assert weights(0) == weights(0) != weights(1)


def test_images_beyond_the_memory_limit_are_decoded_in_each_epoch(tmp_path, monkeypatch):
    sums = []
    for limit in (1 << 30, 0):
        monkeypatch.setattr(image_batches, "MAX_DECODED_BYTES", limit)
        made = network()
        train(made, photos(32, side=32), tmp_path / "n.safetensors", epochs=1, **FAST)
        sums.append(made.checksum())
    assert sums[0] == sums[1]


def test_first_step_has_the_length_of_the_recipe(tmp_path):
    """Nesterov's first step is the rate times (1 + 0.9) times the sum of gradient and decay.

    The gradient is clipped to 0.001; matrices and kernels decay by 0.0005, vectors do not.
    """
    made, fresh = network(), network()
    train(
        made, photos(16, side=32), tmp_path / "n.safetensors", epochs=1, schedule="cosine",
        clip_norm=1e-3, **{**FAST, "learning_rate": 0.5},
    )  # fmt: skip
    before = {name: p.detach() for name, p in fresh.module.named_parameters()}
    moved = {
        name: float((p.detach() - before[name]).norm()) / (0.5 * 1.9)
        for name, p in made.module.named_parameters()
    }

    def together(lengths):
        return float(np.sqrt(sum(length**2 for length in lengths)))

    decay = together(5e-4 * float(p.norm()) for p in before.values() if p.ndim > 1)
    assert abs(together(moved.values()) - decay) <= 1e-3 * 1.001
    assert decay > 2e-3  # both terms are large enough to be noticed
    vectors = together(moved[name] for name, p in before.items() if p.ndim == 1)
    assert 0 < vectors <= 1e-3 * 1.001
    # Batch normalisation has updated its statistics.
    statistics = dict(made.module.named_buffers())
    assert any(
        not torch.equal(statistics[name], value)
        for name, value in fresh.module.named_buffers()
        if "running_mean" in name
    )


def test_global_random_state_is_neither_used_nor_changed(tmp_path):
    sums = []
    for noise in (1, 2):
        torch.manual_seed(noise)
        made = create_network("resnet10t", class_names=["dark", "bright"], side=32, stem="small")
        made.module.drop_rate = 0.5
        state = torch.random.get_rng_state()
        train(made, photos(16, side=32), tmp_path / "n.safetensors", epochs=1, **FAST)
        assert torch.equal(torch.random.get_rng_state(), state)
        sums.append(made.checksum())
    assert sums[0] == sums[1]


def test_invalid_output_is_refused_before_training(tmp_path):
    for out, message in (("n.pt", "must end in .safetensors"), ("no/n.safetensors", "no folder")):
        with pytest.raises(dc.errors.InputError, match=message):
            train(network(), photos(8, side=32), tmp_path / out, epochs=10**6, **FAST)


def test_learning_rates_follow_the_schedules():
    """one-cycle rises from a 25th of the largest rate and falls to about 0; cosine only falls."""
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


def test_crops_of_the_whole_area_are_the_image_or_its_flip():
    images = torch.rand(32, 3, 8, 8)
    crops = random_crops(images, 1.0, torch.Generator().manual_seed(0))
    kept = [torch.allclose(a, b, atol=1e-5) for a, b in zip(images, crops, strict=True)]
    mirrored = [
        torch.allclose(a.flip(-1), b, atol=1e-5) for a, b in zip(images, crops, strict=True)
    ]
    assert all(k != m for k, m in zip(kept, mirrored, strict=True))
    assert 8 <= sum(kept) <= 24


def test_crops_are_inside_the_image():
    """Crops of a ramp from left to right have a smaller range of values."""
    ramp = torch.linspace(0, 1, 16).expand(200, 3, 16, 16)
    crops = random_crops(ramp, 0.25, torch.Generator().manual_seed(0))
    spans = (crops[:, 0, 0, -1] - crops[:, 0, 0, 0]).abs()
    assert crops.min() >= 0
    assert crops.max() <= 1
    assert 0.45 <= spans.min() < 0.6  # a side of at least sqrt(0.25)
    assert spans.max() > 0.9
    torch.testing.assert_close(crops[:, :, 0], crops[:, :, -1])


def test_networks_and_images_that_do_not_fit_are_refused(tmp_path):
    images = photos(32, side=32)
    with pytest.raises(dc.errors.InputError, match="cannot be trained, because"):
        train(small_network(), images, tmp_path / "n.safetensors")
    other = create_network("resnet10t", class_names=["a", "b", "c"])
    with pytest.raises(dc.errors.InputError, match=r"have 2 .* has 3 classes \(a, b, c\); make"):
        train(other, images, tmp_path / "n.safetensors")
    more = create_network("resnet10t", class_names=["new", *images.class_names])
    with pytest.raises(dc.errors.InputError, match="number the classes as the network does"):
        train(more, images, tmp_path / "n.safetensors")
    with pytest.raises(dc.errors.InputError, match="images has 1 image"):
        train(network(), images.select([0]), tmp_path / "n.safetensors", **FAST)
    unlabelled = dc.vision.ImageSet(images.images, class_names=images.class_names)
    with pytest.raises(
        dc.errors.InputError, match=r"^images have no labels, but training needs them"
    ):
        train(network(), unlabelled, tmp_path / "n.safetensors", **FAST)
    with pytest.raises(dc.errors.InputError, match=r"^validation images have no labels"):
        train(network(), images, tmp_path / "n.safetensors", validation=unlabelled, **FAST)
    with pytest.raises(dc.errors.InputError, match="loss is not finite in epoch 1"):
        train(network(), images, tmp_path / "n.safetensors", **{**FAST, "learning_rate": 1e30})
    assert not (tmp_path / "n.safetensors").exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [("learning_rate", 0.0), ("learning_rate", -1.0), ("clip_norm", -1.0), ("weight_decay", -1.0),
     ("smallest_crop", 0.0), ("smallest_crop", 2.0), ("learning_rate", float("nan")),
     ("learning_rate", "fast"), ("n_jobs", -1), ("n_jobs", 1.5)],
)  # fmt: skip
def test_invalid_numbers_are_refused(name, value, tmp_path):
    with pytest.raises(dc.errors.InputError, match=f"{name} must be .*, got {value!r}"):
        train(network(), photos(8, side=32), tmp_path / "n.safetensors", **{**FAST, name: value})


def test_second_training_replaces_the_provenance_of_the_images(tmp_path):
    made, images = network(), photos(32, side=32)
    for known in ({"site": "A", "variant": "v1"}, {"variant": "v2"}):
        images.provenance.clear()
        images.provenance.update(known)
        train(made, images, tmp_path / "n.safetensors", epochs=1, **FAST)
    assert made.provenance["data variant"] == "v2"
    assert "data site" not in made.provenance
    assert made.provenance["timm"] == "resnet10t"
