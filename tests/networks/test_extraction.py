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
from domaincal.extract import Corruptions, Network, Preprocessing, extract
from networks.conftest import photos, small_network

PLAIN = Preprocessing(side=16)


def rows(tmp_path, name, network=None, images=None, **options):
    options = {"device": "cpu", "n_jobs": 0, **options}
    network = small_network() if network is None else network
    done = extract(network, photos() if images is None else images, tmp_path / name, **options)
    return done.store.read()


def darker() -> dc.ImageSet:
    """The same labels, other pixels."""
    images = photos()
    images.images = images.images // 2
    return images


def same(one: dc.CalibrationData, other: dc.CalibrationData) -> None:
    np.testing.assert_allclose(one.logits, other.logits, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(one.features, other.features, rtol=1e-5, atol=1e-6)
    for name in ("labels", "domains", "groups"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_rows_are_those_of_the_images(tmp_path):
    network, images = small_network(), photos()
    data = rows(tmp_path, "rows", network, images)
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
    # Of a loader that was cut off in the middle of a batch, the rest follows.
    first = list(loader())[:2]
    first[1] = tuple(values[:4] for values in first[1])
    rows(tmp_path, "cut", network, first)
    same(one, rows(tmp_path, "cut", network, list(loader())))


def test_a_loader_in_another_order_is_noticed(tmp_path):
    batches = [(torch.randn(4, 3, 16, 16), torch.tensor([0, 1, 0, 1]))] * 2
    rows(tmp_path, "rows", images=batches[:1])
    with pytest.raises(dc.InputError, match=r"other labels than .* from row 0 on; .*shuffle=False"):
        rows(tmp_path, "rows", images=[(batches[0][0], torch.tensor([1, 0, 1, 0])), batches[1]])
    with pytest.raises(dc.InputError, match=r"gives 2 rows, and .* has 4; load the same"):
        rows(tmp_path, "rows", images=[(batches[0][0][:2], batches[0][1][:2])])
    with pytest.raises(dc.InputError, match="the loader gives no batch"):
        rows(tmp_path, "none", images=[])
    assert len(rows(tmp_path, "rows", images=batches)) == 8


def test_images_of_some_of_the_classes_have_the_numbers_of_the_network(tmp_path):
    network = small_network(n_classes=3)
    network.class_names = ("bright", "grey", "dark")
    data = rows(tmp_path, "rows", network, photos())
    assert data.class_names == network.class_names
    np.testing.assert_array_equal(data.labels, np.array([2, 0])[photos().labels])
    assert data.logits.shape == (40, 3)


def without_labels(images: dc.ImageSet, **options) -> dc.ImageSet:
    return dc.ImageSet(images.images, domains=images.domains, groups=images.groups, **options)


@pytest.mark.parametrize("known", [None, ("dark", "bright")])
def test_images_without_labels(known, tmp_path):
    """The same rows but for the labels; the classes are the network's, if it knows them."""
    network = small_network()
    network.class_names = known
    labelled = rows(tmp_path, "labelled", network, photos())
    data = rows(tmp_path, "rows", network, without_labels(photos()))
    assert data.labels is None
    assert data.class_names == known
    for name in ("logits", "features", "domains", "groups"):
        np.testing.assert_array_equal(getattr(data, name), getattr(labelled, name))
    named = without_labels(photos(), class_names=["dark", "bright"])
    assert rows(tmp_path, "named", network, named).class_names == ("dark", "bright")


def test_images_without_labels_of_some_of_the_classes(tmp_path):
    wide = small_network(n_classes=5)
    every = rows(tmp_path, "all", wide, without_labels(photos())).logits
    two = without_labels(photos(), class_names=["dark", "bright"], columns=[3, 1])
    data = rows(tmp_path, "columns", wide, two)
    np.testing.assert_array_equal(data.logits, every[:, [3, 1]])
    with pytest.raises(dc.InputError, match="the network has 5 outputs, but the images are of 2"):
        rows(tmp_path, "wrong", wide, without_labels(photos(), class_names=["dark", "bright"]))
    wide.class_names = ("a", "bright", "b", "dark", "c")
    data = rows(tmp_path, "known", wide, without_labels(photos(), class_names=["dark", "bright"]))
    np.testing.assert_array_equal(data.logits, every)
    assert data.class_names == wide.class_names
    with pytest.raises(dc.InputError, match="class 'grey', which the network does not know"):
        rows(tmp_path, "wrong", wide, without_labels(photos(), class_names=["grey"]))


def test_corruptions_of_images_without_labels(tmp_path):
    images, network = photos(7, side=32), small_network(32)
    options = {"corruptions": Corruptions("cifar", names=["contrast"], severities=[1])}
    labelled = rows(tmp_path, "labelled", network, images, **options)
    data = rows(tmp_path, "rows", network, without_labels(images), **options)
    assert data.labels is None
    for name in ("logits", "domains", "groups"):
        np.testing.assert_array_equal(getattr(data, name), getattr(labelled, name))


def test_images_without_labels_are_not_mixed_with_others(tmp_path):
    begun = photos()
    begun.images = Failing(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        rows(tmp_path, "rows", images=without_labels(begun), batch_size=2)
    assert len(dc.Store(tmp_path / "rows")) == 38
    with pytest.raises(dc.InputError, match="differs in images: it was made with"):
        rows(tmp_path, "rows", images=photos())
    whole = rows(tmp_path, "rows", images=without_labels(photos()))
    np.testing.assert_array_equal(whole.logits, rows(tmp_path, "whole").logits)
    assert whole.labels is None


@pytest.mark.parametrize("domains", [None, ["day", "day", "night", "night"], [3, 3, 1, 1]])
def test_a_loader_without_labels(domains, tmp_path):
    pixels = torch.randn(8, 3, 16, 16)
    batches = [(pixels[:4], None, domains), (pixels[4:], None, domains)]
    whole = rows(tmp_path, "whole", images=batches)
    assert whole.labels is None
    assert whole.domains is None if domains is None else whole.domains.tolist() == 2 * domains
    # Cut off in the middle of a batch; what is there already is only loaded.
    rows(tmp_path, "cut", images=[(pixels[:2], None, None if domains is None else domains[:2])])
    done = extract(small_network(), batches, tmp_path / "cut", device="cpu")
    assert (done.n_kept, done.n_rows) == (2, 8)
    np.testing.assert_allclose(done.store.read().logits, whole.logits, rtol=1e-5)
    np.testing.assert_array_equal(done.store.read().domains, whole.domains)
    with pytest.raises(dc.InputError, match=r"gives 4 rows, and .* has 8; load the same"):
        rows(tmp_path, "whole", images=batches[:1])


def test_a_loader_that_gives_something_else_than_the_store_has(tmp_path):
    pixels, labels = torch.randn(4, 3, 16, 16), torch.tensor([0, 1, 0, 1])
    rows(tmp_path, "rows", images=[(pixels, None, list("aabb"))])
    rows(tmp_path, "labels", images=[(pixels, labels, list("aabb"))])
    with pytest.raises(dc.InputError, match=r"other domains than .* from row 0 on; .*shuffle=Fal"):
        rows(tmp_path, "rows", images=[(pixels, None, list("abab"))])
    with pytest.raises(dc.InputError, match=r"other domains than .* from row 0 on"):
        rows(tmp_path, "labels", images=[(pixels, labels, list("abab"))])
    with pytest.raises(dc.InputError, match=r"gives no domains, and .*rows has some; load the sam"):
        rows(tmp_path, "rows", images=[(pixels, None)])
    with pytest.raises(dc.InputError, match=r"gives labels, and .*rows has none; load the same"):
        rows(tmp_path, "rows", images=[(pixels, labels, list("aabb"))])
    with pytest.raises(dc.InputError, match=r"gives no labels, and .*labels has some; load the"):
        rows(tmp_path, "labels", images=[(pixels, None, list("aabb"))])


@pytest.mark.parametrize(
    ("first", "second", "what"),
    [
        (([0, 1],), (None,), "labels in one batch and no labels in another"),
        ((None,), ([0, 1],), "no labels in one batch and labels in another"),
        ((None, ["a", "b"]), (None,), "domains in one batch and no domains in another"),
    ],
)
def test_batches_that_differ_in_what_they_give(first, second, what, tmp_path):
    pixels = torch.randn(2, 3, 16, 16)
    with pytest.raises(dc.InputError, match=f"the loader gives {what}; give the same"):
        rows(tmp_path, "rows", images=[(pixels, *first), (pixels, *second)])


class Failing:
    """Images of which one cannot be had."""

    def __init__(self, error):
        self.error, self.images = error, photos().images

    def __len__(self):
        return 40

    def __getitem__(self, index):
        if index == 38:
            raise self.error
        return self.images[index]


@pytest.mark.parametrize("n_jobs", [0, 2])
def test_what_is_done_before_an_error_is_kept(n_jobs, tmp_path):
    images = photos()
    images.images = Failing(dc.FileFormatError("photo 38 cannot be decoded; mend or remove it."))
    with pytest.raises(dc.FileFormatError, match=r"^photo 38 cannot be decoded; mend or remove it"):
        rows(tmp_path, "rows", images=images, batch_size=2, n_jobs=n_jobs)
    assert len(dc.Store(tmp_path / "rows")) == 38


def test_what_is_done_before_ctrl_c_is_kept(tmp_path):
    images = photos()
    images.images = Failing(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        rows(tmp_path, "rows", images=images, batch_size=2)
    assert len(dc.Store(tmp_path / "rows")) == 38


def test_a_shard_is_closed_after_a_while(tmp_path, monkeypatch):
    from domaincal.extract import extraction

    monkeypatch.setattr(extraction, "_SHARD_SECONDS", 0.0)
    rows(tmp_path, "rows", batch_size=10)
    assert len(list((tmp_path / "rows").glob("part-*"))) == 4


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
    with pytest.raises(dc.InputError, match=r"it must give \(images, labels\)"):
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
    with pytest.raises(dc.InputError, match="class 'dark', which the network does not know"):
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
        ({"images": photos(40, seed=1)}, "images"),
        ({"images": darker()}, "images"),
        ({"precision": "bfloat16"}, "precision"),
        (
            {"corruptions": Corruptions("cifar", names=["fog"])},
            "corruptions: it was made with none",
        ),
    ],
)
def test_rows_of_something_else_are_not_mixed_in(changed, what, tmp_path):
    rows(tmp_path, "rows", images=photos(40))
    with pytest.raises(dc.InputError, match=f"rows differs in {what}.*, not .*; choose another"):
        rows(tmp_path, "rows", **{"images": photos(40), **changed})


def test_clean_rows_are_not_mixed_in_with_corrupted_ones(tmp_path):
    corruptions = Corruptions("cifar", names=["contrast"], severities=[1])
    options = {"network": small_network(32), "images": photos(6, side=32)}
    rows(tmp_path, "rows", **options, corruptions=corruptions)
    with pytest.raises(dc.InputError, match=r"in corruptions: it was made with \{.*\}, not none;"):
        rows(tmp_path, "rows", **options)


def test_values_that_are_not_finite(tmp_path):
    network = small_network()
    with torch.no_grad():
        network.module[5].weight[0, 0] = torch.inf
    with pytest.raises(dc.InputError, match="gives values that are not finite; check its weights"):
        rows(tmp_path, "rows", network)


def beyond_half_precision() -> tuple[Network, list[tuple[torch.Tensor, torch.Tensor]]]:
    """Three batches, of which the first and the last stay in the range of float16."""
    network = small_network()
    with torch.no_grad():
        network.module[0].weight.mul_(1e4)
        network.module[0].bias.zero_()
        network.module[1].running_var.mul_(1e8)
    random = torch.Generator().manual_seed(0)
    labels = torch.tensor([0, 1, 0, 1])
    pixels = [scale * torch.randn(4, 3, 16, 16, generator=random) for scale in (1.0, 100.0, 1.0)]
    return network, [(images, labels) for images in pixels]


@pytest.mark.parametrize("shard_rows", [4, 100])
def test_what_half_precision_cannot_hold_is_shown_in_float32(shard_rows, tmp_path):
    network, batches = beyond_half_precision()
    exact = rows(tmp_path, "exact", network, batches)
    with pytest.warns(dc.DomaincalWarning, match="4 of 12 images were shown again in float32"):
        data = rows(tmp_path, "rows", network, batches, precision="float16", shard_rows=shard_rows)
    np.testing.assert_array_equal(data.logits[4:8], exact.logits[4:8])
    assert not np.array_equal(data.logits, exact.logits)  # the others are of half precision
    np.testing.assert_allclose(data.logits, exact.logits, rtol=2e-3)
    np.testing.assert_allclose(data.features, exact.features, rtol=2e-3)
    assert data.features.dtype == np.float16


def test_features_that_float16_cannot_hold(tmp_path):
    network, batches = beyond_half_precision()
    with torch.no_grad():
        network.module[1].weight.fill_(1e4)
    with pytest.raises(dc.InputError, match="in float16, as they are stored; pass precision='fl"):
        rows(tmp_path, "rows", network, batches, precision="float16")
    assert len(dc.Store(tmp_path / "rows")) == 4  # the batch before it


@pytest.mark.parametrize("bad", [1, 2])
def test_rows_before_values_that_are_not_finite_are_kept(bad, tmp_path):
    _, batches = beyond_half_precision()
    batches[bad][0][0] = torch.nan
    with pytest.raises(dc.InputError, match="not finite"):
        rows(tmp_path, "rows", images=batches)
    assert len(dc.Store(tmp_path / "rows")) == 4 * bad


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
    images.domains = np.repeat("all", 7)
    corruptions = Corruptions("cifar", names=["contrast", "gaussian_noise"], severities=[1, 5])
    data = rows(tmp_path, "rows", network, images, corruptions=corruptions, batch_size=4)
    names = ["clean", "contrast-1", "contrast-5", "gaussian_noise-1", "gaussian_noise-5"]
    assert list(dict.fromkeys(data.domains.tolist())) == names
    np.testing.assert_array_equal(data.labels, np.tile(images.labels, 5))
    np.testing.assert_array_equal(data.groups, np.tile(images.groups, 5))
    pixels = np.stack([images.images[k] for k in range(7)])
    network.module.eval()
    for name in names:
        seen = pixels
        if name != "clean":
            kind, severity = name.rsplit("-", 1)
            seen = dc.corrupt(torch.from_numpy(pixels), kind, int(severity), constants="cifar")
            seen = seen.numpy()
        logits, _ = network.outputs(network.preprocessing.normalise(torch.from_numpy(seen)))
        np.testing.assert_allclose(data.logits[data.domains == name], logits, rtol=1e-4, atol=1e-6)


def test_corruptions_of_images_of_several_domains(tmp_path):
    images = photos(7, side=32)
    corruptions = Corruptions("cifar", names=["contrast"], severities=[1])
    data = rows(tmp_path, "rows", small_network(32), images, corruptions=corruptions)
    assert data.domain_names.tolist() == [
        "day/clean", "day/contrast-1", "night/clean", "night/contrast-1"
    ]  # fmt: skip
    np.testing.assert_array_equal(
        [name.split("/")[0] for name in data.domains], np.tile(images.domains, 2)
    )


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


def test_two_extractions_into_one_store(tmp_path):
    """One goes on; the other is told, and no row is there twice."""
    store = dc.Store(tmp_path / "rows")
    batches = [(torch.randn(4, 3, 16, 16), torch.tensor([0, 1, 0, 1]))] * 3
    other = rows(tmp_path, "other", images=batches[:1])

    def loader():
        yield batches[0]
        store.append(other)  # meanwhile, by somebody else
        yield batches[1]

    with pytest.raises(dc.InputError, match=r"has \d rows and not \d: somebody else writes to it"):
        extract(small_network(), loader(), store, device="cpu", shard_rows=1)
    assert len(store) in (4, 8)  # whoever of the two was first


def test_nothing_is_left_changed(tmp_path):
    """Modes of the module's parts, hooks, and everybody's random numbers."""
    network = small_network()
    network.module.train()
    network.module[1].eval()
    state = torch.random.get_rng_state()
    rows(tmp_path, "rows", network, n_jobs=2)
    assert [part.training for part in network.module] == [True, False, True, True, True, True]
    assert torch.equal(torch.random.get_rng_state(), state)
    assert not network.module[5]._forward_hooks
    assert not torch.backends.cudnn.benchmark


def test_a_store_goes_on_in_its_own_precision(tmp_path):
    batches = [(torch.randn(4, 3, 16, 16), torch.tensor([0, 1, 0, 1]))] * 2
    begun = rows(tmp_path, "rows", images=batches[:1], precision="bfloat16")
    assert begun.features.dtype == np.float16
    assert begun.logits.dtype == np.float32
    done = extract(small_network(), batches, dc.Store(tmp_path / "rows"), device="cpu")
    assert (done.precision, done.n_rows, done.n_kept) == ("bfloat16", 8, 4)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_modules_of_another_precision(dtype, tmp_path):
    network = small_network()
    exact = rows(tmp_path, "rows", network)
    network.module.to(dtype)
    np.testing.assert_allclose(
        rows(tmp_path, "other", network).logits, exact.logits, rtol=0.05, atol=0.05
    )


def test_rows_of_another_layer_or_of_other_columns_are_not_mixed_in(tmp_path):
    images = photos()
    rows(tmp_path, "layer", Network(small_network().module, "5", preprocessing=PLAIN))
    with pytest.raises(dc.InputError, match="differs in layer: it was made with '5', not '4'"):
        rows(tmp_path, "layer", Network(small_network().module, "4", preprocessing=PLAIN))
    with pytest.raises(dc.InputError, match="layer='4', but the Network has one: '5'"):
        rows(tmp_path, "layer", layer="4")
    wide = small_network(n_classes=5)
    chosen = [
        dc.ImageSet(images.images, images.labels, class_names=["a", "b"], columns=columns)
        for columns in ([0, 2], [3, 1], [3, 7], [-1, 0])
    ]
    rows(tmp_path, "columns", wide, chosen[0])
    with pytest.raises(dc.InputError, match=r"differs in columns: .* \[0, 2\], not \[3, 1\]"):
        rows(tmp_path, "columns", wide, chosen[1])
    with pytest.raises(dc.InputError, match="5 outputs, but columns of the images name 7"):
        rows(tmp_path, "new", wide, chosen[2])
    with pytest.raises(dc.InputError, match="columns of the images are no outputs"):
        rows(tmp_path, "new", wide, chosen[3])


@pytest.mark.parametrize(
    "pixels",
    [np.zeros((4, 16, 16, 3)), np.zeros((4, 16, 16), np.uint8), np.zeros((4, 3, 16, 16), np.uint8)],
)
def test_images_that_are_no_bytes_of_three_channels(pixels, tmp_path):
    images = photos(4)
    images.images = pixels
    with pytest.raises(dc.InputError, match=r"images must be uint8 of shape \(height, width, 3\)"):
        rows(tmp_path, "rows", images=images)


def test_batches_whose_parts_differ_in_length(tmp_path):
    batch = (torch.randn(4, 3, 16, 16), torch.tensor([0, 1, 0]))
    with pytest.raises(dc.InputError, match="gives 4 images and 3 labels in one batch"):
        rows(tmp_path, "rows", images=[batch])


def test_infinite_features_are_noticed(tmp_path):
    network = small_network()
    with torch.no_grad():
        network.module[5].weight.zero_()
        network.module[1].weight.fill_(1e30)
        network.module[0].weight.mul_(1e30)
    with pytest.raises(dc.InputError, match="gives values that are not finite; check its weights"):
        rows(tmp_path, "rows", network)


def test_an_error_of_the_disk_reaches_the_caller(tmp_path, monkeypatch):
    monkeypatch.setattr(dc.Store, "append", lambda *_, **__: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        rows(tmp_path, "rows", batch_size=5, shard_rows=5)


def test_the_seed_of_corruptions_counts(tmp_path):
    images = photos(6, side=32)
    made = [
        rows(tmp_path, str(seed), small_network(32), images, corruptions=Corruptions(
            "cifar", names=["gaussian_noise"], severities=[5], seed=seed)).logits
        for seed in (0, 1)
    ]  # fmt: skip
    np.testing.assert_array_equal(made[0][:6], made[1][:6])  # clean
    assert not np.array_equal(made[0][6:], made[1][6:])


def test_groups_of_a_loader_are_compared(tmp_path):
    pixels, labels, domains = torch.randn(4, 3, 16, 16), torch.tensor([0, 1, 0, 1]), list("aabb")
    rows(tmp_path, "rows", images=[(pixels[:2], labels[:2], domains[:2], [1, 2])])
    with pytest.raises(dc.InputError, match=r"other groups than .* from row 0 on"):
        rows(tmp_path, "rows", images=[(pixels, labels, domains, [7, 8, 9, 9])])
    whole = rows(tmp_path, "rows", images=[(pixels, labels, domains, [1, 2, 9, 9])])
    assert whole.groups.tolist() == [1, 2, 9, 9]


def test_a_batch_that_is_there_in_part_is_compared(tmp_path):
    pixels = torch.randn(4, 3, 16, 16)
    rows(tmp_path, "rows", images=[(pixels[:2], torch.tensor([0, 1]))])
    with pytest.raises(dc.InputError, match=r"other labels than .* from row 0 on"):
        rows(tmp_path, "rows", images=[(pixels, torch.tensor([1, 1, 0, 0]))])


def test_labels_in_a_column_are_the_same_when_it_goes_on(tmp_path):
    batch = (torch.randn(4, 3, 16, 16), torch.tensor([[0], [1], [0], [1]]))
    rows(tmp_path, "rows", images=[batch])
    assert rows(tmp_path, "rows", images=[batch, batch]).labels.tolist() == 2 * [0, 1, 0, 1]


def test_an_error_of_a_shard_is_raised_before_the_next_is_full(tmp_path):
    shown = []

    def loader():
        for k in range(1000):
            shown.append(k)
            yield torch.full((1, 3, 16, 16), torch.nan if k == 0 else 1.0), torch.tensor([0])
            time.sleep(0.005)

    with pytest.raises(dc.InputError, match="not finite"):
        extract(small_network(), loader(), tmp_path / "rows", device="cpu", shard_rows=500)
    assert len(shown) < 1000


def test_images_are_kept_in_a_part_of_the_memory(monkeypatch):
    from domaincal.extract import batches

    assert 0 < batches._kept_bytes(torch.device("cpu")) <= batches._KEPT_BYTES
    pages = {"SC_PHYS_PAGES": 1000, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(batches.os, "sysconf", pages.__getitem__)
    assert batches._kept_bytes(torch.device("cpu")) == 1_024_000
