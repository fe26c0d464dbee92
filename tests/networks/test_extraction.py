"""Extraction: the rows of a store are those of the network, whatever the batches and the kills."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import domaincal as dc
from domaincal.extract import Corruptions, Network, extract
from networks.conftest import photos, small_network


def rows(tmp_path, name, network=None, images=None, **options):
    options = {"device": "cpu", "n_jobs": 0, **options}
    network = small_network() if network is None else network
    done = extract(network, photos() if images is None else images, tmp_path / name, **options)
    return done.store.read()


def same(one: dc.CalibrationData, other: dc.CalibrationData) -> None:
    np.testing.assert_allclose(one.logits, other.logits, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(one.features, other.features, rtol=1e-5, atol=1e-6)
    for name in ("labels", "domains", "groups"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_rows_are_those_of_the_images(tmp_path):
    network, images = small_network(), photos()
    data = rows(tmp_path, "rows", network, images)
    pixels = torch.from_numpy(np.stack([images.images[k] for k in range(len(images))]))
    logits, features = network.outputs(network.preprocessing.normalise(pixels))
    np.testing.assert_allclose(data.logits, logits, rtol=1e-5)
    np.testing.assert_allclose(data.features, features, rtol=1e-5)
    np.testing.assert_array_equal(data.labels, images.labels)
    np.testing.assert_array_equal(data.domains, images.domains)
    np.testing.assert_array_equal(data.groups, images.groups)
    assert data.class_names == images.class_names


@pytest.mark.parametrize("options", [
    {"batch_size": 1}, {"batch_size": 7}, {"batch_size": 7, "shard_rows": 10}, {"n_jobs": 2},
])  # fmt: skip
def test_batches_shards_and_processes_change_nothing(options, tmp_path):
    same(rows(tmp_path, "one"), rows(tmp_path, "other", **options))


def test_a_loader_gives_the_same_rows(tmp_path):
    network, images = small_network(), photos()
    pixels = torch.from_numpy(np.stack([images.images[k] for k in range(len(images))]))
    ready = network.preprocessing.normalise(pixels)

    def loader():
        for start in range(0, 40, 9):
            here = slice(start, start + 9)
            yield ready[here], images.labels[here], images.domains[here], images.groups[here]

    one = rows(tmp_path, "one", network, images)
    same(one, rows(tmp_path, "loader", network, loader()))
    # Of a loader that was cut off in the middle of a shard, the rest follows.
    first = list(loader())[:2]
    rows(tmp_path, "cut", network, first)
    same(one, rows(tmp_path, "cut", network, list(loader())))


def test_a_module_and_its_layer(tmp_path):
    module = small_network().module
    batches = [(torch.randn(4, 3, 16, 16), torch.tensor([0, 1, 0, 1]))]
    done = extract(module, batches, tmp_path / "rows", layer="5", device="cpu")
    data = done.store.read()
    assert data.features.shape == (4, 6)
    assert data.domains is None
    with pytest.raises(dc.InputError, match="layer is None"):
        extract(module, batches, tmp_path / "other", device="cpu")
    with pytest.raises(dc.InputError, match="corruptions are for an ImageSet"):
        extract(
            module, batches, tmp_path / "other", layer="5", corruptions=Corruptions("cifar"),
            device="cpu",
        )  # fmt: skip


@pytest.mark.parametrize("batch", [torch.zeros(2, 3, 16, 16), (torch.zeros(2, 3, 16, 16),)])
def test_loaders_that_give_something_else(batch, tmp_path):
    with pytest.raises(dc.InputError, match=r"it must give tuples \(images, labels\)"):
        extract(small_network(), [batch], tmp_path / "rows", device="cpu")


def test_only_the_classes_of_the_set_are_kept(tmp_path):
    images, wide = photos(), small_network(n_classes=5)
    two = dc.ImageSet(images.images, images.labels, class_names=images.class_names, columns=[3, 1])
    data = rows(tmp_path, "rows", wide, two)
    every = dc.ImageSet(images.images, images.labels, class_names=list("abcde"))
    np.testing.assert_array_equal(data.logits, rows(tmp_path, "all", wide, every).logits[:, [3, 1]])
    with pytest.raises(dc.InputError, match="the network has 5 outputs, but the images are of 2"):
        rows(tmp_path, "wrong", wide, images)
    wide.class_names = tuple("abcde")
    with pytest.raises(dc.InputError, match="the network knows 5 classes"):
        rows(tmp_path, "wrong", wide, images)


def test_a_complete_store_is_left_alone(tmp_path):
    rows(tmp_path, "rows")
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "rows").rglob("*")}
    done = extract(small_network(), photos(), tmp_path / "rows", device="cpu", n_jobs=0)
    assert done.n_kept == done.n_rows == 40
    assert before == {p: p.stat().st_mtime_ns for p in (tmp_path / "rows").rglob("*")}


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"network": small_network(seed=1)}, "weights"),
        ({"images": photos(41)}, "images"),
        ({"precision": "bfloat16"}, "precision"),
        ({"corruptions": Corruptions("cifar", names=["fog"])}, "corruptions"),
    ],
)
def test_rows_of_something_else_are_not_mixed_in(changed, what, tmp_path):
    rows(tmp_path, "rows", images=photos(40))
    with pytest.raises(dc.InputError, match=f"was made with another {what}"):
        rows(tmp_path, "rows", **{"images": photos(40), **changed})


def test_values_that_are_not_finite(tmp_path):
    network = small_network()
    with torch.no_grad():
        network.module[5].weight[0, 0] = torch.inf
    with pytest.raises(dc.InputError, match="not finite in this precision"):
        rows(tmp_path, "rows", network)


def test_images_need_a_size(tmp_path):
    network = Network(small_network().module, "5")
    with pytest.raises(dc.InputError, match="does not say what it expects of images"):
        rows(tmp_path, "rows", network)


def test_a_device_that_is_not_there(tmp_path):
    with pytest.raises(dc.InputError, match="device='abacus' cannot be used"):
        rows(tmp_path, "rows", device="abacus")


def test_every_image_in_every_domain(tmp_path):
    """Row by row: the corrupted image, its label, its domain, and the image as the group."""
    network, images = small_network(32), photos(7, side=32)
    corruptions = Corruptions("cifar", names=["contrast", "gaussian_noise"], severities=[1, 5])
    data = rows(tmp_path, "rows", network, images, corruptions=corruptions, batch_size=4)
    names = ["clean", "contrast-1", "contrast-5", "gaussian_noise-1", "gaussian_noise-5"]
    assert list(dict.fromkeys(data.domains.tolist())) == names
    np.testing.assert_array_equal(data.labels, np.tile(images.labels, 5))
    np.testing.assert_array_equal(data.groups, np.tile(images.groups, 5))
    pixels = np.stack([images.images[k] for k in range(7)])
    for name in names:
        seen = pixels
        if name != "clean":
            kind, severity = name.rsplit("-", 1)
            seen = dc.corrupt(torch.from_numpy(pixels), kind, int(severity), constants="cifar")
            seen = seen.numpy()
        logits, _ = network.outputs(network.preprocessing.normalise(torch.from_numpy(seen)))
        np.testing.assert_allclose(data.logits[data.domains == name], logits, rtol=1e-4, atol=1e-6)


def test_images_that_are_too_many_to_keep_are_decoded_again(tmp_path, monkeypatch):
    from domaincal.extract import batches

    network, images = small_network(32), photos(7, side=32)
    options = {"corruptions": Corruptions("cifar", names=["contrast"]), "batch_size": 4}
    one = rows(tmp_path, "kept", network, images, **options)
    monkeypatch.setattr(batches, "_KEPT_BYTES", 0)
    same(one, rows(tmp_path, "again", network, images, **options))


KILLED = """
import sys, time
sys.path[:0] = [{tests!r}]
from networks.conftest import photos, small_network
from domaincal.extract import extract

images = photos(120)
class Slow:
    def __len__(self):
        return 120
    def __getitem__(self, index):
        time.sleep(0.01)
        return pixels[index]
pixels, images.images = images.images, Slow()
extract(small_network(), images, {out!r}, device="cpu", n_jobs=0, batch_size=5, shard_rows=10)
"""


def test_extraction_goes_on_after_kill_9(tmp_path):
    """Killed twice at different places, then left alone: every row once, in order."""
    out = tmp_path / "rows"
    script = KILLED.format(tests=str(Path(__file__).parents[1]), out=str(out))
    counts = []
    for least in (10, 50):
        process = subprocess.Popen([sys.executable, "-c", script])
        deadline = time.monotonic() + 60
        while len(dc.Store(out)) < least and time.monotonic() < deadline:
            assert process.poll() is None
            time.sleep(0.002)
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        counts.append(len(dc.Store(out)))
    assert 10 <= counts[0] < counts[1] < 120
    done = extract(small_network(), photos(120), out, device="cpu", n_jobs=0, batch_size=5)
    assert done.n_kept == counts[1]
    same(done.store.read(verify=True), rows(tmp_path, "whole", images=photos(120)))
