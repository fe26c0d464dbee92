"""Loaders of the user's: the rows are those of the batches, and what is none is named."""

import warnings

import numpy as np
import pytest
import torch

import domaincal as dc
from domaincal.vision import Corruptions, extract
from networks.conftest import photos, rows, same, small_network


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


def test_progress_of_a_loader_is_tracked(tmp_path):
    images = list(zip(torch.randn(10, 3, 2, 2), range(10), strict=True))
    loader, steps = torch.utils.data.DataLoader(images, batch_size=4), []

    def track(batches):
        assert len(batches) == 3
        for batch in batches:
            steps.append(len(batch[0]))
            yield batch

    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 10))
    assert extract(module, loader, tmp_path / "rows", layer="1", track=track).n_rows == 10
    assert steps == [4, 4, 2]


def test_a_loader_in_another_order_is_noticed(tmp_path):
    batches = [(torch.randn(4, 3, 16, 16), torch.tensor([0, 1, 0, 1]))] * 2
    rows(tmp_path, "rows", images=batches[:1])
    with pytest.raises(
        dc.errors.InputError, match=r"other labels than .* from row 0 on; .*shuffle=False"
    ):
        rows(tmp_path, "rows", images=[(batches[0][0], torch.tensor([1, 0, 1, 0])), batches[1]])
    with pytest.raises(dc.errors.InputError, match=r"gives 2 rows, and .* has 4; load the same"):
        rows(tmp_path, "rows", images=[(batches[0][0][:2], batches[0][1][:2])])
    with pytest.raises(dc.errors.InputError, match="the loader gives no batch"):
        rows(tmp_path, "none", images=[])
    assert len(rows(tmp_path, "rows", images=batches)) == 8


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
    with pytest.raises(dc.errors.InputError, match=r"gives 4 rows, and .* has 8; load the same"):
        rows(tmp_path, "whole", images=batches[:1])


def test_a_loader_that_gives_something_else_than_the_store_has(tmp_path):
    pixels, labels = torch.randn(4, 3, 16, 16), torch.tensor([0, 1, 0, 1])
    rows(tmp_path, "rows", images=[(pixels, None, list("aabb"))])
    rows(tmp_path, "labels", images=[(pixels, labels, list("aabb"))])
    with pytest.raises(
        dc.errors.InputError, match=r"other domains than .* from row 0 on; .*shuffle=Fal"
    ):
        rows(tmp_path, "rows", images=[(pixels, None, list("abab"))])
    with pytest.raises(dc.errors.InputError, match=r"other domains than .* from row 0 on"):
        rows(tmp_path, "labels", images=[(pixels, labels, list("abab"))])
    with pytest.raises(
        dc.errors.InputError, match=r"gives no domains, and .*rows has some; load the sam"
    ):
        rows(tmp_path, "rows", images=[(pixels, None)])
    with pytest.raises(
        dc.errors.InputError, match=r"gives labels, and .*rows has none; load the same"
    ):
        rows(tmp_path, "rows", images=[(pixels, labels, list("aabb"))])
    with pytest.raises(
        dc.errors.InputError, match=r"gives no labels, and .*labels has some; load the"
    ):
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
    with pytest.raises(dc.errors.InputError, match=f"the loader gives {what}; give the same"):
        rows(tmp_path, "rows", images=[(pixels, *first), (pixels, *second)])


def test_a_module_and_its_layer(tmp_path):
    module = small_network().module
    batches = [(torch.randn(4, 3, 16, 16), torch.tensor([0, 1, 0, 1]))]
    done = extract(module, batches, tmp_path / "rows", layer="5", device="cpu")
    data = done.store.read()
    assert data.features.shape == (4, 6)
    assert data.domains is None
    with pytest.raises(dc.errors.InputError, match="layer is None"):
        extract(module, batches, tmp_path / "other", device="cpu")
    with pytest.raises(dc.errors.InputError, match="corruptions are for an ImageSet"):
        extract(
            module, batches, tmp_path / "other", layer="5", corruptions=Corruptions("cifar"),
            device="cpu",
        )  # fmt: skip


@pytest.mark.parametrize("batch", [torch.zeros(2, 3, 16, 16), (torch.zeros(2, 3, 16, 16),)])
def test_loaders_that_give_something_else(batch, tmp_path):
    with pytest.raises(dc.errors.InputError, match=r"it must give \(images, labels\)"):
        extract(small_network(), [batch], tmp_path / "rows", device="cpu")


def test_numbers_that_are_no_pixels_stay_whole(tmp_path):
    module = torch.nn.Sequential(torch.nn.EmbeddingBag(50, 8), torch.nn.Linear(8, 3))
    tokens = torch.randint(0, 50, (6, 4), generator=torch.Generator().manual_seed(0))
    done = extract(module, [(tokens, [0, 1, 2, 0, 1, 2])], tmp_path / "rows", layer="1")
    np.testing.assert_allclose(done.store.read().logits, module(tokens).detach(), rtol=1e-5)


def test_what_is_no_network(tmp_path):
    batches = [(torch.zeros(2, 3), [0, 1])]
    with pytest.raises(dc.errors.InputError, match="got 'resnet-50'; create_network"):
        extract("resnet-50", batches, tmp_path / "rows")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says that it is old
        scripted = torch.jit.script(torch.nn.Sequential(torch.nn.Linear(3, 2)))
    with pytest.raises(dc.errors.InputError, match="that is not compiled by torch"):
        extract(scripted, batches, tmp_path / "rows", layer="0")


@pytest.mark.parametrize(("images", "message"), [
    ([torch.zeros(3), torch.ones(3)], "gives a list of images; it must give one tensor"),
    (torch.zeros(0, 3), "gives a batch without images"),
])  # fmt: skip
def test_batches_that_are_no_tensor_of_images(images, message, tmp_path):
    with pytest.raises(dc.errors.InputError, match=message):
        rows(tmp_path, "rows", images=[(images, [0, 1][: len(images)], [])])


def test_two_extractions_into_one_store(tmp_path):
    """One goes on; the other is told, and no row is there twice."""
    store = dc.Store(tmp_path / "rows")
    batches = [(torch.randn(4, 3, 16, 16), torch.tensor([0, 1, 0, 1]))] * 3
    other = rows(tmp_path, "other", images=batches[:1])

    def loader():
        yield batches[0]
        store.append(other)  # meanwhile, by somebody else
        yield batches[1]

    with pytest.raises(
        dc.errors.InputError, match=r"has \d rows and not \d: somebody else writes to it"
    ):
        extract(small_network(), loader(), store, device="cpu", shard_rows=1)
    assert len(store) in (4, 8)  # whoever of the two was first


def test_batches_whose_parts_differ_in_length(tmp_path):
    batch = (torch.randn(4, 3, 16, 16), torch.tensor([0, 1, 0]))
    with pytest.raises(dc.errors.InputError, match="gives 4 images and 3 labels in one batch"):
        rows(tmp_path, "rows", images=[batch])


def test_groups_of_a_loader_are_compared(tmp_path):
    pixels, labels, domains = torch.randn(4, 3, 16, 16), torch.tensor([0, 1, 0, 1]), list("aabb")
    rows(tmp_path, "rows", images=[(pixels[:2], labels[:2], domains[:2], [1, 2])])
    with pytest.raises(dc.errors.InputError, match=r"other groups than .* from row 0 on"):
        rows(tmp_path, "rows", images=[(pixels, labels, domains, [7, 8, 9, 9])])
    whole = rows(tmp_path, "rows", images=[(pixels, labels, domains, [1, 2, 9, 9])])
    assert whole.groups.tolist() == [1, 2, 9, 9]


def test_a_batch_that_is_there_in_part_is_compared(tmp_path):
    pixels = torch.randn(4, 3, 16, 16)
    rows(tmp_path, "rows", images=[(pixels[:2], torch.tensor([0, 1]))])
    with pytest.raises(dc.errors.InputError, match=r"other labels than .* from row 0 on"):
        rows(tmp_path, "rows", images=[(pixels, torch.tensor([1, 1, 0, 0]))])


def test_labels_in_a_column_are_the_same_when_it_goes_on(tmp_path):
    batch = (torch.randn(4, 3, 16, 16), torch.tensor([[0], [1], [0], [1]]))
    rows(tmp_path, "rows", images=[batch])
    assert rows(tmp_path, "rows", images=[batch, batch]).labels.tolist() == 2 * [0, 1, 0, 1]
