"""ImageNet-C: 76 domains of the same images, and the columns of the 200 classes."""

import importlib.util
import pickle
import shutil

import numpy as np
import pytest

import domaincal as dc
from domaincal.experiments.partitions import CORRUPTION_PARTITIONS
from domaincal.vision.datasets import imagenet_c as module
from trees import IMAGENET_WNIDS, encoded, imagenet_c, write_tree


@pytest.fixture
def three_classes(monkeypatch):
    lists = {
        "imagenet_synsets.txt": list(IMAGENET_WNIDS),
        "imagenet_r_synsets.txt": [IMAGENET_WNIDS[0], IMAGENET_WNIDS[2]],
    }
    monkeypatch.setattr(module, "read_synsets", lists.__getitem__)


@pytest.fixture
def folder(tmp_path):
    """All 76 domains; half of them in the folders of their families."""
    domains = list(module.DOMAINS)
    write_tree(tmp_path, imagenet_c(domains[:40]))
    write_tree(tmp_path, imagenet_c(domains[40:], by_family=True))
    return tmp_path


@pytest.mark.usefixtures("three_classes")
def test_all_domains_have_the_same_images_and_columns_are_those_of_the_classes(folder):
    images = dc.vision.ImageNetC(folder)
    assert len(images) == 76 * 2
    assert images.class_names == (IMAGENET_WNIDS[0], IMAGENET_WNIDS[2])
    assert images.columns.tolist() == [0, 2]
    assert images.labels.tolist() == [0, 1] * 76
    names, counts = np.unique(images.domains, return_counts=True)
    assert (len(names), set(counts)) == (76, {2})
    for group in np.unique(images.groups):
        assert len(np.unique(images.domains[images.groups == group])) == 76
    ind, ood = CORRUPTION_PARTITIONS["unseen-types"].choose(dict.fromkeys(names, 2), random_state=0)
    assert (len(ind), len(ood)) == (41, 35)
    every = dc.vision.ImageNetC(folder, classes="all")
    assert (len(every), every.columns) == (76 * 3, None)
    assert every.labels.tolist() == [0, 1, 2] * 76


@pytest.mark.usefixtures("three_classes")
def test_images_belong_to_their_domains(tmp_path):
    pytest.importorskip("PIL")
    domains = ["clean", "fog-3", "shot_noise-1"]
    write_tree(tmp_path, imagenet_c(domains, picture=encoded))
    shutil.move(tmp_path / "clean", tmp_path / "val")
    images = dc.vision.ImageNetC(tmp_path, clean=tmp_path / "val", domains=domains, classes="all")
    greys = [int(images.images[k].mean()) for k in range(9)]
    assert greys == list(range(9))
    assert images.domains.tolist() == np.repeat(domains, 3).tolist()
    again = pickle.loads(pickle.dumps(images.select(images.domains == "fog-3")))
    assert [int(again.images[k].mean()) for k in range(3)] == [3, 4, 5]
    assert int(images.images[-1].mean()) == 8
    with pytest.raises(IndexError):
        images.images[9]


@pytest.mark.usefixtures("three_classes")
def test_missing_folders_and_images_are_refused(folder):
    shutil.rmtree(folder / "digital/pixelate/2")
    with pytest.raises(
        dc.errors.InputError,
        match=r"expected <corruption>/<severity> for all 76 domains.*1 are missing: pixelate/2; "
        r"get them, or select others with domains=\[...\]",
    ):
        dc.vision.ImageNetC(folder)
    assert len(dc.vision.ImageNetC(folder, domains=["pixelate-1", "pixelate-3"])) == 4
    (folder / f"weather/fog/4/{IMAGENET_WNIDS[2]}/more.JPEG").write_bytes(b"")
    with pytest.raises(
        dc.errors.InputError, match=r"1 images are only in one of .*fog.3 and .*fog.4"
    ):
        dc.vision.ImageNetC(folder, domains=["fog-3", "fog-4"])
    shutil.rmtree(folder / f"weather/fog/5/{IMAGENET_WNIDS[0]}")
    with pytest.raises(
        dc.errors.InputError, match=r"each of 2 classes.*fog.5.*1 are missing: n01440764"
    ):
        dc.vision.ImageNetC(folder, domains=["fog-5"])
    shutil.rmtree(folder / "clean")
    with pytest.raises(
        dc.errors.InputError, match=r"clean validation images in .*clean, .*pass clean="
    ):
        dc.vision.ImageNetC(folder)
    for domains, value in ((["fog-6"], "'fog-6'"), ("fog-3", "'fog-3'"), ([], r"\[\]")):
        with pytest.raises(
            dc.errors.InputError, match=f"domains must be a list of domains .*, got {value}"
        ):
            dc.vision.ImageNetC(folder, domains=domains)
    with pytest.raises(
        dc.errors.InputError, match="'nowhere' does not exist; expected the folder that contains"
    ):
        dc.vision.ImageNetC("nowhere")
    with pytest.raises(dc.errors.InputError, match="classes must be one of"):
        dc.vision.ImageNetC(folder, classes="imagenet-a")


def test_columns_equal_the_indices_of_timm(tmp_path):
    if importlib.util.find_spec("timm") is None:
        pytest.skip("timm is not installed")
    every, chosen = map(module.read_synsets, ("imagenet_synsets.txt", "imagenet_r_synsets.txt"))
    assert (len(every), len(chosen)) == (1000, 200)
    assert every == sorted(every)
    assert chosen == sorted(chosen)
    write_tree(tmp_path, {f"clean/{wnid}/a.JPEG": "" for wnid in chosen})
    images = dc.vision.ImageNetC(tmp_path, domains=["clean"])
    indices = module.read_synsets("imagenet_r_indices.txt")
    assert images.columns.tolist() == [int(k) for k in indices]


def test_missing_timm_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(dc.errors.MissingDependencyError, match=r"pip install 'domaincal\[torch\]'"):
        dc.vision.ImageNetC(tmp_path)
