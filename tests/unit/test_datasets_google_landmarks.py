"""GLDv2: training, InD and OOD clients are disjoint, and files are found in all layouts."""

import numpy as np
import pytest

import domaincal as dc
from trees import google_landmarks, write_tree

COUNTS = {str(k): 3 + k for k in range(12)}
SMALL = {"training_clients": 5, "min_rows": 6, "n_ind": 2}


@pytest.fixture
def folder(tmp_path):
    return write_tree(tmp_path, google_landmarks(COUNTS))


@pytest.mark.parametrize("seed", range(4))
def test_training_and_validation_clients_are_disjoint(folder, seed):
    train = dc.vision.GoogleLandmarks(folder, "train", **SMALL, random_state=seed)
    validation = dc.vision.GoogleLandmarks(folder, **SMALL, random_state=seed)
    trained, shown = set(train.domains), set(validation.domains)
    assert len(trained) == 5
    assert shown == {name for name, n in COUNTS.items() if n >= 6} - trained
    assert len(validation.ind_domains) == 2
    assert sorted(validation.ind_domains + validation.ood_domains) == sorted(shown)
    assert (train.ind_domains, train.ood_domains) == ((), ())
    for images in (train, validation):
        for name, n in zip(*np.unique(images.domains, return_counts=True), strict=True):
            assert n == COUNTS[name]
        assert images.class_names == ("0", "1", "2", "3", "4")
    order = np.random.default_rng(seed).permutation(12)
    assert trained == {sorted(COUNTS)[k] for k in order[:5]}
    again = dc.vision.GoogleLandmarks(folder, "train", **SMALL, random_state=seed)
    assert again.groups.tolist() == train.groups.tolist()
    ind, ood = validation.draw_domains(2, random_state=seed)
    assert (tuple(ind), tuple(ood)) == (validation.ind_domains, validation.ood_domains)


def test_at_least_one_client_must_be_ood(folder):
    n = len(set(dc.vision.GoogleLandmarks(folder, **SMALL).domains))
    assert len(dc.vision.GoogleLandmarks(folder, **{**SMALL, "n_ind": n - 1}).ood_domains) == 1
    with pytest.raises(dc.errors.InputError, match=f"n_ind={n}, but only {n} of"):
        dc.vision.GoogleLandmarks(folder, **{**SMALL, "n_ind": n})


def test_other_seeds_draw_other_clients(folder):
    draws = {
        tuple(
            np.unique(
                dc.vision.GoogleLandmarks(folder, "train", **SMALL, random_state=seed).domains
            )
        )
        for seed in range(6)
    }
    assert len(draws) > 3


def test_files_are_found_in_all_layouts(tmp_path):
    """Tables as unpacked by their distributors; images in subfolders or in one folder."""
    files = google_landmarks(COUNTS, table="landmarks-user-160k/federated_train.csv")
    nested = {name.replace("train/", "images/", 1): content for name, content in files.items()}
    flat = {
        f"images/{name.split('/')[-1]}" if name.endswith(".jpg") else name: content
        for name, content in files.items()
    }
    bare = {name.removeprefix("train/"): content for name, content in files.items()}
    sets = [
        dc.vision.GoogleLandmarks(write_tree(tmp_path / str(k), tree), **SMALL)
        for k, tree in enumerate((files, nested, flat, bare))
    ]
    for images in sets:
        assert images.groups.tolist() == sets[0].groups.tolist()
    small = write_tree(tmp_path / "s", google_landmarks(COUNTS, table="mini_gld_train_split.csv"))
    assert len(dc.vision.GoogleLandmarks(small, variant="gld23k", **SMALL)) == len(sets[0])
    with pytest.raises(
        dc.errors.InputError, match=r"expected federated_train.csv.*variant='gld23k'"
    ):
        dc.vision.GoogleLandmarks(small, **SMALL)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"training_clients": 500}, "training_clients=500, but .* has 12 clients; lower it"),
        ({"training_clients": 12}, "training_clients=12, but .* has 12 clients"),
        ({"n_ind": 30}, "n_ind=30, but only . of the 7 clients .* have min_rows=6"),
        ({"min_rows": 300}, "only 0 of .* have min_rows=300 images"),
        ({"split": "val"}, "split must be one of"),
        ({"variant": "gld"}, "variant must be one of"),
        ({"random_state": -1}, "random_state must be a whole number"),
        ({"n_ind": 0}, "n_ind must be a whole number"),
    ],
)
def test_invalid_arguments_are_refused(folder, arguments, message):
    with pytest.raises(dc.errors.InputError, match=message):
        dc.vision.GoogleLandmarks(folder, **{**SMALL, **arguments})


@pytest.mark.parametrize("name", ["../abc", "/etc/passwd", "a/b", "a\\b", ".."])
def test_ids_of_images_cannot_be_paths(name, folder):
    table = folder / "federated_train.csv"
    table.write_text(table.read_text() + f"1,{name},0\n")
    with pytest.raises(
        dc.errors.InputError, match=r"'image_id' of .*federated_train.csv contains .* in row \d+"
    ):
        dc.vision.GoogleLandmarks(folder, **SMALL)


def test_errors_name_missing_files_and_columns(folder):
    images = dc.vision.GoogleLandmarks(folder, **SMALL)
    gone = images.images.names[1]
    (folder / "train" / gone).unlink()
    with pytest.raises(
        dc.errors.InputError, match=f"1 of the .* federated_train.csv names .*{gone}"
    ):
        dc.vision.GoogleLandmarks(folder, **SMALL)
    (folder / "train").rename(folder / "pictures")
    with pytest.raises(dc.errors.InputError, match=r"expected images such as train/./././.*found "):
        dc.vision.GoogleLandmarks(folder, **SMALL)
    (folder / "federated_train.csv").write_text("user,image_id,class\n1,abc,1\n")
    with pytest.raises(
        dc.errors.InputError, match=r"lacks the column 'user_id'.*found user, image_id"
    ):
        dc.vision.GoogleLandmarks(folder, **SMALL)
    (folder / "federated_train.csv").write_text("user_id,image_id,class\n")
    with pytest.raises(dc.errors.InputError, match="has no rows"):
        dc.vision.GoogleLandmarks(folder, **SMALL)
    (folder / "federated_train.csv").unlink()
    with pytest.raises(
        dc.errors.InputError, match=r"expected federated_train.csv in .*found pictures/"
    ):
        dc.vision.GoogleLandmarks(folder, **SMALL)
