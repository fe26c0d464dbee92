"""Every image in every domain: the rows are those of corrupted images."""

import numpy as np
import pytest
import torch

import domaincal as dc
from domaincal.vision import Corruptions
from networks.conftest import photos, rows, same, small_network


def test_clean_rows_are_not_mixed_in_with_corrupted_ones(tmp_path):
    corruptions = Corruptions("cifar", names=["contrast"], severities=[1])
    options = {"network": small_network(32), "images": photos(6, side=32)}
    rows(tmp_path, "rows", **options, corruptions=corruptions)
    with pytest.raises(
        dc.errors.InputError, match=r"in corruptions: it was made with \{.*\}, not none;"
    ):
        rows(tmp_path, "rows", **options)
    rows(tmp_path, "clean", **options)
    with pytest.raises(
        dc.errors.InputError, match=r"in corruptions: it was made with none, not \{.*\};"
    ):
        rows(tmp_path, "clean", **options, corruptions=corruptions)


def test_corruptions_need_a_network_for_images_that_are_large_enough(tmp_path):
    with pytest.raises(
        dc.errors.InputError, match="small takes images of 16 px, and corruptions need"
    ):
        rows(tmp_path, "rows", corruptions=Corruptions("cifar"))
    assert not (tmp_path / "rows").exists()


@pytest.mark.parametrize(("wrong", "message"), [
    ({"names": ["fog", "fog"]}, "holds something twice"),
    ({"severities": [1, 1]}, "holds something twice"),
    ({"names": "fog"}, r"names='fog'; give a list, names=\['fog'\]"),
])  # fmt: skip
def test_corruptions_that_are_not_a_list_of_domains(wrong, message):
    with pytest.raises(dc.errors.InputError, match=message):
        Corruptions("cifar", **wrong)


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
            seen = dc.vision.corrupt(
                torch.from_numpy(pixels), kind, int(severity), constants="cifar"
            )
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
    from domaincal.vision import image_batches as batches

    network, images = small_network(32), photos(7, side=32)
    options = {"corruptions": Corruptions("cifar", names=["contrast"]), "batch_size": 4}
    one = rows(tmp_path, "kept", network, images, **options)
    monkeypatch.setattr(batches, "_KEPT_BYTES", 0)
    same(one, rows(tmp_path, "again", network, images, **options))


def test_the_seed_of_corruptions_counts(tmp_path):
    images = photos(6, side=32)
    made = [
        rows(tmp_path, str(seed), small_network(32), images, corruptions=Corruptions(
            "cifar", names=["gaussian_noise"], severities=[5], seed=seed)).logits
        for seed in (0, 1)
    ]  # fmt: skip
    np.testing.assert_array_equal(made[0][:6], made[1][:6])  # clean
    assert not np.array_equal(made[0][6:], made[1][6:])
