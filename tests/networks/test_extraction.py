"""Extraction: a store has the outputs of the network, also after interruptions."""

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
from domaincal.vision import Corruptions, Network, Preprocessing, extract, image_batches
from networks.conftest import assert_same_rows, extract_rows, photos, small_network

PLAIN = Preprocessing(side=16)


def darker() -> dc.vision.ImageSet:
    """Images with the same labels and other pixels."""
    images = photos()
    images.images = images.images // 2
    return images


def test_names_never_become_paths(tmp_path):
    hostile = ["../../up", "/etc/passwd", "a/b", "..", "con", "a\nb", "%s $x"]
    images = dc.vision.ImageSet(
        np.zeros((7, 32, 32, 3), np.uint8), np.arange(7), class_names=hostile, domains=hostile,
        groups=hostile,
    )  # fmt: skip
    output = tmp_path / "inner"
    output.mkdir()
    corruptions = Corruptions("cifar", names=["fog"], severities=[1])
    network = small_network(32, n_classes=7)
    data = extract_rows(output, "rows", network, images, corruptions=corruptions)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["inner"]
    assert [path.name for path in output.iterdir() if not path.name.startswith(".")] == ["rows"]
    assert data.class_names == tuple(hostile)
    assert set(data.groups) == set(hostile)
    assert set(data.domains) == {
        f"{name}/{kind}" for name in hostile for kind in ("clean", "fog-1")
    }


def test_rows_are_the_outputs_of_the_network(tmp_path):
    network, images = small_network(), photos()
    data = extract_rows(tmp_path, "rows", network, images)
    pixels = torch.from_numpy(np.stack([images.images[k] for k in range(len(images))]))
    network.module.eval()
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
def test_rows_do_not_depend_on_batches_shards_or_processes(options, tmp_path):
    assert_same_rows(extract_rows(tmp_path, "one"), extract_rows(tmp_path, "other", **options))


def test_default_batch_size_on_the_cpu_is_16(tmp_path):
    network, seen = small_network(), []
    network.module.register_forward_pre_hook(lambda _, given: seen.append(len(given[0])))
    assert len(extract_rows(tmp_path, "rows", network)) == 40
    assert seen[-3:] == [16, 16, 8]


def test_labels_are_renumbered_to_the_classes_of_the_network(tmp_path):
    network = small_network(n_classes=3)
    network.class_names = ("bright", "grey", "dark")
    data = extract_rows(tmp_path, "rows", network, photos())
    assert data.class_names == network.class_names
    np.testing.assert_array_equal(data.labels, np.array([2, 0])[photos().labels])
    assert data.logits.shape == (40, 3)


def without_labels(images: dc.vision.ImageSet, **options) -> dc.vision.ImageSet:
    return dc.vision.ImageSet(
        images.images, domains=images.domains, groups=images.groups, **options
    )


@pytest.mark.parametrize("known", [None, ("dark", "bright")])
def test_images_without_labels_give_the_same_rows_without_labels(known, tmp_path):
    network = small_network()
    network.class_names = known
    labelled = extract_rows(tmp_path, "labelled", network, photos())
    data = extract_rows(tmp_path, "rows", network, without_labels(photos()))
    assert data.labels is None
    assert data.class_names == known
    for name in ("logits", "features", "domains", "groups"):
        np.testing.assert_array_equal(getattr(data, name), getattr(labelled, name))
    named = without_labels(photos(), class_names=["dark", "bright"])
    assert extract_rows(tmp_path, "named", network, named).class_names == ("dark", "bright")


def test_images_without_labels_may_have_some_of_the_classes(tmp_path):
    wide = small_network(n_classes=5)
    every = extract_rows(tmp_path, "all", wide, without_labels(photos())).logits
    two = without_labels(photos(), class_names=["dark", "bright"], columns=[3, 1])
    data = extract_rows(tmp_path, "columns", wide, two)
    np.testing.assert_array_equal(data.logits, every[:, [3, 1]])
    with pytest.raises(
        dc.errors.InputError, match="the network has 5 outputs, but the images have 2"
    ):
        extract_rows(
            tmp_path, "wrong", wide, without_labels(photos(), class_names=["dark", "bright"])
        )
    wide.class_names = ("a", "bright", "b", "dark", "c")
    data = extract_rows(
        tmp_path, "known", wide, without_labels(photos(), class_names=["dark", "bright"])
    )
    np.testing.assert_array_equal(data.logits, every)
    assert data.class_names == wide.class_names
    with pytest.raises(dc.errors.InputError, match="class 'grey', which the network does not know"):
        extract_rows(tmp_path, "wrong", wide, without_labels(photos(), class_names=["grey"]))


def test_images_without_labels_can_be_corrupted(tmp_path):
    images, network = photos(7, side=32), small_network(32)
    options = {"corruptions": Corruptions("cifar", names=["contrast"], severities=[1])}
    labelled = extract_rows(tmp_path, "labelled", network, images, **options)
    data = extract_rows(tmp_path, "rows", network, without_labels(images), **options)
    assert data.labels is None
    for name in ("logits", "domains", "groups"):
        np.testing.assert_array_equal(getattr(data, name), getattr(labelled, name))


def test_rows_with_and_without_labels_are_not_mixed_in_a_store(tmp_path):
    begun = photos()
    begun.images = Failing(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        extract_rows(tmp_path, "rows", images=without_labels(begun), batch_size=2)
    assert len(dc.Store(tmp_path / "rows")) == 38
    with pytest.raises(dc.errors.InputError, match="differs in images: it was made with"):
        extract_rows(tmp_path, "rows", images=photos())
    whole = extract_rows(tmp_path, "rows", images=without_labels(photos()))
    # Batches of another size round in another way.
    expected = extract_rows(tmp_path, "whole").logits
    np.testing.assert_allclose(whole.logits, expected, rtol=1e-5, atol=1e-6)
    assert whole.labels is None


class Failing:
    """Images of which one raises an error."""

    def __init__(self, error):
        self.error, self.images = error, photos().images

    def __len__(self):
        return 40

    def __getitem__(self, index):
        if index == 38:
            raise self.error
        return self.images[index]


@pytest.mark.parametrize("n_jobs", [0, 2])
def test_rows_before_an_error_are_kept(n_jobs, tmp_path):
    images = photos()
    images.images = Failing(
        dc.errors.FileFormatError("photo 38 cannot be decoded; repair or remove it.")
    )
    with pytest.raises(
        dc.errors.FileFormatError, match=r"^photo 38 cannot be decoded; repair or remove it"
    ):
        extract_rows(tmp_path, "rows", images=images, batch_size=2, n_jobs=n_jobs)
    assert len(dc.Store(tmp_path / "rows")) == 38


def test_rows_before_ctrl_c_are_kept(tmp_path):
    images = photos()
    images.images = Failing(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        extract_rows(tmp_path, "rows", images=images, batch_size=2)
    assert len(dc.Store(tmp_path / "rows")) == 38


def test_shard_is_written_after_some_time(tmp_path, monkeypatch):
    monkeypatch.setattr("domaincal.vision.extraction.extract.SHARD_SECONDS", 0.0)
    extract_rows(tmp_path, "rows", batch_size=10)
    assert len(list((tmp_path / "rows").glob("part-*"))) == 4


def test_store_has_the_columns_of_the_image_set_only(tmp_path):
    images, wide = photos(), small_network(n_classes=5)
    two = dc.vision.ImageSet(
        images.images, images.labels, class_names=images.class_names, columns=[3, 1]
    )
    data = extract_rows(tmp_path, "rows", wide, two)
    every = dc.vision.ImageSet(images.images, images.labels, class_names=list("abcde"))
    np.testing.assert_array_equal(
        data.logits, extract_rows(tmp_path, "all", wide, every).logits[:, [3, 1]]
    )
    with pytest.raises(
        dc.errors.InputError, match="the network has 5 outputs, but the images have 2"
    ):
        extract_rows(tmp_path, "wrong", wide, images)
    wide.class_names = tuple("abcde")
    with pytest.raises(dc.errors.InputError, match="class 'dark', which the network does not know"):
        extract_rows(tmp_path, "wrong", wide, images)


def test_complete_store_is_not_changed(tmp_path):
    extract_rows(tmp_path, "rows")
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "rows").rglob("*")}
    done = extract(small_network(), photos(), tmp_path / "rows", device="cpu", n_jobs=0)
    assert done.n_kept == done.n_rows == 40
    assert before == {p: p.stat().st_mtime_ns for p in (tmp_path / "rows").rglob("*")}


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"network": small_network(random_state=1)}, "weights"),
        ({"images": photos(41)}, "images"),
        ({"images": photos(40, random_state=1)}, "images"),
        ({"images": darker()}, "images"),
        ({"precision": "bfloat16"}, "precision"),
    ],
)
def test_rows_of_other_networks_or_images_are_not_mixed_in_a_store(changed, what, tmp_path):
    extract_rows(tmp_path, "rows", images=photos(40))
    with pytest.raises(
        dc.errors.InputError, match=f"rows differs in {what}.*, not .*; choose another"
    ):
        extract_rows(tmp_path, "rows", **{"images": photos(40), **changed})


@pytest.mark.parametrize("file", ["domains.npy", "features.npy"])
def test_resuming_a_damaged_store_is_refused(file, tmp_path):
    extract_rows(tmp_path, "rows")
    path = tmp_path / "rows" / "part-00000" / file
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(dc.errors.FileFormatError, match=file):
        extract(small_network(), photos(), tmp_path / "rows", device="cpu", n_jobs=0)


@pytest.mark.parametrize("name", ["rows.npz", "rows.CSV", "rows.safetensors"])
def test_store_with_the_suffix_of_a_file_is_refused(name, tmp_path):
    with pytest.raises(dc.errors.InputError, match="name it rows, and convert"):
        extract_rows(tmp_path, name)
    assert not (tmp_path / name).exists()
    assert len(extract_rows(tmp_path, "rows.v2")) == 40


def test_folder_that_is_not_a_store_is_refused(tmp_path):
    (tmp_path / "rows").mkdir()
    with pytest.raises(
        dc.errors.FileFormatError, match=r"neither a complete store.*; choose another folder"
    ):
        extract_rows(tmp_path, "rows")


def test_checksum_depends_on_extra_state_of_a_module():
    class Counting(torch.nn.Linear):
        count = 3

        def get_extra_state(self):
            return {"count": self.count}

        def set_extra_state(self, state):
            self.count = state["count"]

    one, other = Counting(4, 2), Counting(4, 2)
    other.load_state_dict(one.state_dict())
    module = torch.nn.Sequential(torch.nn.Flatten(), one)
    first = Network(module, "1").checksum()
    module[1] = other
    assert Network(module, "1").checksum() == first
    other.count = 4
    assert Network(module, "1").checksum() != first


def test_image_set_needs_a_network_with_preprocessing(tmp_path):
    network = Network(small_network().module, "5")
    with pytest.raises(dc.errors.InputError, match="has no preprocessing, which images need"):
        extract_rows(tmp_path, "rows", network)


def test_unknown_device_is_refused(tmp_path):
    with pytest.raises(dc.errors.InputError, match="device='abacus' cannot be used"):
        extract_rows(tmp_path, "rows", device="abacus")
    with pytest.raises(dc.errors.InputError, match="device='meta' cannot be used"):
        extract_rows(tmp_path, "rows", device="meta")


KILLED = """
import sys, time
sys.path[:0] = [{tests!r}]
from networks.conftest import assert_same_rows, extract_rows, photos, small_network
from domaincal.vision import extract

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


def test_extraction_resumes_after_kill_9(tmp_path):
    """After two kills at different rows, the store has every row once, in order."""
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
    assert_same_rows(
        done.store.read(verify=True), extract_rows(tmp_path, "whole", images=photos(120))
    )


def test_extraction_restores_modes_hooks_and_random_state(tmp_path):
    network = small_network()
    network.module.train()
    network.module[1].eval()
    state = torch.random.get_rng_state()
    extract_rows(tmp_path, "rows", network, n_jobs=2)
    assert [part.training for part in network.module] == [True, False, True, True, True, True]
    assert torch.equal(torch.random.get_rng_state(), state)
    assert not network.module[5]._forward_hooks
    assert not torch.backends.cudnn.benchmark


def test_rows_of_other_layers_or_columns_are_not_mixed_in_a_store(tmp_path):
    images = photos()
    extract_rows(tmp_path, "layer", Network(small_network().module, "5", preprocessing=PLAIN))
    with pytest.raises(
        dc.errors.InputError, match="differs in layer: it was made with '5', not '4'"
    ):
        extract_rows(tmp_path, "layer", Network(small_network().module, "4", preprocessing=PLAIN))
    with pytest.raises(dc.errors.InputError, match="layer='4', but the Network has the layer '5'"):
        extract_rows(tmp_path, "layer", layer="4")
    wide = small_network(n_classes=5)
    chosen = [
        dc.vision.ImageSet(images.images, images.labels, class_names=["a", "b"], columns=columns)
        for columns in ([0, 2], [3, 1], [3, 7], [-1, 0])
    ]
    extract_rows(tmp_path, "columns", wide, chosen[0])
    with pytest.raises(
        dc.errors.InputError, match=r"differs in columns: .* \[0, 2\], not \[3, 1\]"
    ):
        extract_rows(tmp_path, "columns", wide, chosen[1])
    with pytest.raises(
        dc.errors.InputError, match="5 outputs, but columns of the images contains 7"
    ):
        extract_rows(tmp_path, "new", wide, chosen[2])
    with pytest.raises(dc.errors.InputError, match="columns of the images are not the outputs"):
        extract_rows(tmp_path, "new", wide, chosen[3])


@pytest.mark.parametrize(
    "pixels",
    [np.zeros((4, 16, 16, 3)), np.zeros((4, 16, 16), np.uint8), np.zeros((4, 3, 16, 16), np.uint8)],
)
def test_images_that_are_not_uint8_with_three_channels_are_refused(pixels, tmp_path):
    images = photos(4)
    images.images = pixels
    with pytest.raises(
        dc.errors.InputError, match=r"images must be uint8 of shape \(height, width, 3\)"
    ):
        extract_rows(tmp_path, "rows", images=images)


def test_errors_of_the_writer_are_raised(tmp_path, monkeypatch):
    monkeypatch.setattr(dc.Store, "append", lambda *_, **__: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        extract_rows(tmp_path, "rows", batch_size=5, shard_rows=5)


def test_decoded_images_take_at_most_a_quarter_of_the_memory(monkeypatch):
    cpu = torch.device("cpu")
    assert 0 < image_batches.decoded_bytes_limit(cpu) <= image_batches.MAX_DECODED_BYTES
    pages = {"SC_PHYS_PAGES": 1000, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(os, "sysconf", pages.__getitem__)
    assert image_batches.decoded_bytes_limit(cpu) == 1_024_000
