"""Extraction with corruptions: every image is shown in every domain."""

import numpy as np
import pytest
import torch

import domaincal as dc
from domaincal.vision import Corruptions, image_batches
from networks.conftest import assert_same_rows, extract_rows, photos, small_network


def test_clean_and_corrupted_rows_are_not_mixed_in_a_store(tmp_path):
    corruptions = Corruptions("cifar", names=["contrast"], severities=[1])
    options = {"network": small_network(32), "images": photos(6, side=32)}
    extract_rows(tmp_path, "rows", **options, corruptions=corruptions)
    with pytest.raises(
        dc.errors.InputError, match=r"in corruptions: it was made with \{.*\}, not none;"
    ):
        extract_rows(tmp_path, "rows", **options)
    extract_rows(tmp_path, "clean", **options)
    with pytest.raises(
        dc.errors.InputError, match=r"in corruptions: it was made with none, not \{.*\};"
    ):
        extract_rows(tmp_path, "clean", **options, corruptions=corruptions)


def test_corruptions_need_a_network_for_large_images(tmp_path):
    with pytest.raises(
        dc.errors.InputError, match="small takes images of 16 px, but corruptions need"
    ):
        extract_rows(tmp_path, "rows", corruptions=Corruptions("cifar"))
    assert not (tmp_path / "rows").exists()


@pytest.mark.parametrize(("wrong", "message"), [
    ({"names": ["fog", "fog"]}, "contains a value twice"),
    ({"severities": [1, 1]}, "contains a value twice"),
    ({"names": "fog"}, r"names must be a list, got 'fog'; pass names=\['fog'\]"),
])  # fmt: skip
def test_invalid_corruptions_are_refused(wrong, message):
    with pytest.raises(dc.errors.InputError, match=message):
        Corruptions("cifar", **wrong)


def test_rows_are_those_of_the_corrupted_images(tmp_path):
    network, images = small_network(32), photos(7, side=32)
    images.domains = np.repeat("all", 7)
    corruptions = Corruptions("cifar", names=["contrast", "gaussian_noise"], severities=[1, 5])
    data = extract_rows(tmp_path, "rows", network, images, corruptions=corruptions, batch_size=4)
    names = ["clean", "contrast-1", "contrast-5", "gaussian_noise-1", "gaussian_noise-5"]
    assert list(dict.fromkeys(data.domains.tolist())) == names
    np.testing.assert_array_equal(data.labels, np.tile(images.labels, 5))
    np.testing.assert_array_equal(data.groups, np.tile(images.groups, 5))
    pixels = np.stack([images.images[k] for k in range(7)])
    network.module.eval()
    for name in names:
        seen = pixels
        if name != "clean":
            corruption, severity = name.rsplit("-", 1)
            seen = dc.vision.corrupt(
                torch.from_numpy(pixels), corruption, int(severity), constants="cifar"
            )
            seen = seen.numpy()
        logits, _ = network.outputs(network.preprocessing.normalise(torch.from_numpy(seen)))
        np.testing.assert_allclose(data.logits[data.domains == name], logits, rtol=1e-4, atol=1e-6)


def test_corruptions_of_several_domains_make_combined_domains(tmp_path):
    images = photos(7, side=32)
    corruptions = Corruptions("cifar", names=["contrast"], severities=[1])
    data = extract_rows(tmp_path, "rows", small_network(32), images, corruptions=corruptions)
    assert data.domain_names.tolist() == [
        "day/clean", "day/contrast-1", "night/clean", "night/contrast-1"
    ]  # fmt: skip
    np.testing.assert_array_equal(
        [name.split("/")[0] for name in data.domains], np.tile(images.domains, 2)
    )


def test_images_beyond_the_memory_limit_are_decoded_again(tmp_path, monkeypatch):
    network, images = small_network(32), photos(7, side=32)
    options = {"corruptions": Corruptions("cifar", names=["contrast"]), "batch_size": 4}
    one = extract_rows(tmp_path, "kept", network, images, **options)
    monkeypatch.setattr(image_batches, "MAX_DECODED_BYTES", 0)
    assert_same_rows(one, extract_rows(tmp_path, "again", network, images, **options))


def test_corruptions_depend_on_the_seed(tmp_path):
    images = photos(6, side=32)
    made = [
        extract_rows(tmp_path, str(seed), small_network(32), images, corruptions=Corruptions(
            "cifar", names=["gaussian_noise"], severities=[5], random_state=seed)).logits
        for seed in (0, 1)
    ]  # fmt: skip
    np.testing.assert_array_equal(made[0][:6], made[1][:6])  # clean
    assert not np.array_equal(made[0][6:], made[1][6:])
