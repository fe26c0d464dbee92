"""Extraction from a user's loader, and errors for invalid batches."""

import warnings

import numpy as np
import pytest
import torch

import domaincal as dc
from domaincal.vision import Corruptions, extract
from networks.conftest import assert_same_rows, extract_rows, photos, small_network


def test_loader_gives_the_rows_of_the_image_set(tmp_path):
    network, images = small_network(), photos()
    pixels = torch.from_numpy(np.stack([images.images[k] for k in range(len(images))]))
    ready = network.preprocessing.normalise(pixels)

    def loader():
        for start in range(0, 40, 9):
            here = slice(start, start + 9)
            yield ready[here], images.labels[here], images.domains[here], images.groups[here]

    one = extract_rows(tmp_path, "one", network, images)
    assert_same_rows(one, extract_rows(tmp_path, "loader", network, loader()))
    # A store that ends in the middle of a batch can be resumed.
    first = list(loader())[:2]
    first[1] = tuple(values[:4] for values in first[1])
    extract_rows(tmp_path, "cut", network, first)
    assert_same_rows(one, extract_rows(tmp_path, "cut", network, list(loader())))


def test_loader_is_wrapped_by_track(tmp_path):
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


def test_loader_in_another_order_is_refused(tmp_path):
    batches = [(torch.randn(4, 3, 16, 16), torch.tensor([0, 1, 0, 1]))] * 2
    extract_rows(tmp_path, "rows", images=batches[:1])
    with pytest.raises(
        dc.errors.InputError,
        match=r"the labels of the loader differ .* from row 0 on; .*shuffle=False",
    ):
        extract_rows(
            tmp_path, "rows", images=[(batches[0][0], torch.tensor([1, 0, 1, 0])), batches[1]]
        )
    with pytest.raises(dc.errors.InputError, match=r"gives 2 rows, but .* has 4; load the same"):
        extract_rows(tmp_path, "rows", images=[(batches[0][0][:2], batches[0][1][:2])])
    with pytest.raises(dc.errors.InputError, match="the loader gives no batch"):
        extract_rows(tmp_path, "none", images=[])
    assert len(extract_rows(tmp_path, "rows", images=batches)) == 8


@pytest.mark.parametrize("domains", [None, ["day", "day", "night", "night"], [3, 3, 1, 1]])
def test_loader_without_labels_can_be_resumed(domains, tmp_path):
    pixels = torch.randn(8, 3, 16, 16)
    batches = [(pixels[:4], None, domains), (pixels[4:], None, domains)]
    whole = extract_rows(tmp_path, "whole", images=batches)
    assert whole.labels is None
    assert whole.domains is None if domains is None else whole.domains.tolist() == 2 * domains
    # The store ends in the middle of a batch; its rows are loaded, but not computed again.
    extract_rows(
        tmp_path, "cut", images=[(pixels[:2], None, None if domains is None else domains[:2])]
    )
    done = extract(small_network(), batches, tmp_path / "cut", device="cpu")
    assert (done.n_kept, done.n_rows) == (2, 8)
    np.testing.assert_allclose(done.store.read().logits, whole.logits, rtol=1e-5)
    np.testing.assert_array_equal(done.store.read().domains, whole.domains)
    with pytest.raises(dc.errors.InputError, match=r"gives 4 rows, but .* has 8; load the same"):
        extract_rows(tmp_path, "whole", images=batches[:1])


def test_loader_that_differs_from_the_store_is_refused(tmp_path):
    pixels, labels = torch.randn(4, 3, 16, 16), torch.tensor([0, 1, 0, 1])
    extract_rows(tmp_path, "rows", images=[(pixels, None, list("aabb"))])
    extract_rows(tmp_path, "labels", images=[(pixels, labels, list("aabb"))])
    with pytest.raises(
        dc.errors.InputError, match=r"the domains of the loader differ .* row 0 on; .*shuffle=Fal"
    ):
        extract_rows(tmp_path, "rows", images=[(pixels, None, list("abab"))])
    with pytest.raises(
        dc.errors.InputError, match=r"the domains of the loader differ .* from row 0 on"
    ):
        extract_rows(tmp_path, "labels", images=[(pixels, labels, list("abab"))])
    with pytest.raises(
        dc.errors.InputError, match=r"gives no domains, but .*rows has some; load the sam"
    ):
        extract_rows(tmp_path, "rows", images=[(pixels, None)])
    with pytest.raises(
        dc.errors.InputError, match=r"gives labels, but .*rows has none; load the same"
    ):
        extract_rows(tmp_path, "rows", images=[(pixels, labels, list("aabb"))])
    with pytest.raises(
        dc.errors.InputError, match=r"gives no labels, but .*labels has some; load the"
    ):
        extract_rows(tmp_path, "labels", images=[(pixels, None, list("aabb"))])


@pytest.mark.parametrize(
    ("first", "second", "what"),
    [
        (([0, 1],), (None,), "labels in one batch and no labels in another"),
        ((None,), ([0, 1],), "no labels in one batch and labels in another"),
        ((None, ["a", "b"]), (None,), "domains in one batch and no domains in another"),
    ],
)
def test_batches_with_different_arrays_are_refused(first, second, what, tmp_path):
    pixels = torch.randn(2, 3, 16, 16)
    with pytest.raises(dc.errors.InputError, match=f"the loader gives {what}; give the same"):
        extract_rows(tmp_path, "rows", images=[(pixels, *first), (pixels, *second)])


def test_module_needs_the_name_of_its_last_layer(tmp_path):
    module = small_network().module
    batches = [(torch.randn(4, 3, 16, 16), torch.tensor([0, 1, 0, 1]))]
    done = extract(module, batches, tmp_path / "rows", layer="5", device="cpu")
    data = done.store.read()
    assert data.features.shape == (4, 6)
    assert data.domains is None
    with pytest.raises(dc.errors.InputError, match="layer is None"):
        extract(module, batches, tmp_path / "other", device="cpu")
    with pytest.raises(dc.errors.InputError, match="corruptions need an ImageSet"):
        extract(
            module, batches, tmp_path / "other", layer="5", corruptions=Corruptions("cifar"),
            device="cpu",
        )  # fmt: skip


@pytest.mark.parametrize("batch", [torch.zeros(2, 3, 16, 16), (torch.zeros(2, 3, 16, 16),)])
def test_loader_that_gives_no_tuple_is_refused(batch, tmp_path):
    with pytest.raises(dc.errors.InputError, match=r"it must give \(images, labels\)"):
        extract(small_network(), [batch], tmp_path / "rows", device="cpu")


def test_integer_inputs_are_not_converted(tmp_path):
    module = torch.nn.Sequential(torch.nn.EmbeddingBag(50, 8), torch.nn.Linear(8, 3))
    tokens = torch.randint(0, 50, (6, 4), generator=torch.Generator().manual_seed(0))
    done = extract(module, [(tokens, [0, 1, 2, 0, 1, 2])], tmp_path / "rows", layer="1")
    np.testing.assert_allclose(done.store.read().logits, module(tokens).detach(), rtol=1e-5)


def test_objects_that_are_not_networks_are_refused(tmp_path):
    batches = [(torch.zeros(2, 3), [0, 1])]
    with pytest.raises(dc.errors.InputError, match="got 'resnet-50'; make one with create_network"):
        extract("resnet-50", batches, tmp_path / "rows")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit is deprecated
        scripted = torch.jit.script(torch.nn.Sequential(torch.nn.Linear(3, 2)))
    with pytest.raises(dc.errors.InputError, match="that is not compiled by torch"):
        extract(scripted, batches, tmp_path / "rows", layer="0")


@pytest.mark.parametrize(("images", "message"), [
    ([torch.zeros(3), torch.ones(3)], "gives a list of images; it must give one tensor"),
    (torch.zeros(0, 3), "gives a batch without images"),
])  # fmt: skip
def test_batches_without_a_tensor_of_images_are_refused(images, message, tmp_path):
    with pytest.raises(dc.errors.InputError, match=message):
        extract_rows(tmp_path, "rows", images=[(images, [0, 1][: len(images)], [])])


def test_second_extraction_into_the_same_store_is_refused(tmp_path):
    """One of the two continues, the other raises an error, and no row is there twice."""
    store = dc.Store(tmp_path / "rows")
    batches = [(torch.randn(4, 3, 16, 16), torch.tensor([0, 1, 0, 1]))] * 3
    other = extract_rows(tmp_path, "other", images=batches[:1])

    def loader():
        yield batches[0]
        store.append(other)  # by another process
        yield batches[1]

    with pytest.raises(
        dc.errors.InputError, match=r"has \d rows instead of \d: another process appends"
    ):
        extract(small_network(), loader(), store, device="cpu", shard_rows=1)
    assert len(store) in (4, 8)  # depends on which of the two was first


def test_batches_with_arrays_of_different_lengths_are_refused(tmp_path):
    batch = (torch.randn(4, 3, 16, 16), torch.tensor([0, 1, 0]))
    with pytest.raises(dc.errors.InputError, match="gives 4 images and 3 labels in one batch"):
        extract_rows(tmp_path, "rows", images=[batch])


def test_groups_of_a_loader_are_compared_with_the_store(tmp_path):
    pixels, labels, domains = torch.randn(4, 3, 16, 16), torch.tensor([0, 1, 0, 1]), list("aabb")
    extract_rows(tmp_path, "rows", images=[(pixels[:2], labels[:2], domains[:2], [1, 2])])
    with pytest.raises(
        dc.errors.InputError, match=r"the groups of the loader differ .* from row 0 on"
    ):
        extract_rows(tmp_path, "rows", images=[(pixels, labels, domains, [7, 8, 9, 9])])
    whole = extract_rows(tmp_path, "rows", images=[(pixels, labels, domains, [1, 2, 9, 9])])
    assert whole.groups.tolist() == [1, 2, 9, 9]


def test_partly_stored_batch_is_compared_with_the_store(tmp_path):
    pixels = torch.randn(4, 3, 16, 16)
    extract_rows(tmp_path, "rows", images=[(pixels[:2], torch.tensor([0, 1]))])
    with pytest.raises(
        dc.errors.InputError, match=r"the labels of the loader differ .* from row 0 on"
    ):
        extract_rows(tmp_path, "rows", images=[(pixels, torch.tensor([1, 1, 0, 0]))])


def test_labels_in_a_column_can_be_resumed(tmp_path):
    batch = (torch.randn(4, 3, 16, 16), torch.tensor([[0], [1], [0], [1]]))
    extract_rows(tmp_path, "rows", images=[batch])
    assert extract_rows(tmp_path, "rows", images=[batch, batch]).labels.tolist() == 2 * [0, 1, 0, 1]
