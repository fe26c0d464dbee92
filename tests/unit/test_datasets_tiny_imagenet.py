"""Tiny-ImageNet: folders and zip files give the same data set, and errors name missing files."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

import domaincal as dc
from trees import TINY_WNIDS, encoded, tiny_imagenet, write_tree, write_zip


def _parts(files):
    """Contents of three zip files: two of training images, one of validation images and lists."""
    train = {name: content for name, content in files.items() if "/train/" in name}
    half = len(train) // 2
    return {
        "train-0.zip": dict(list(train.items())[:half]),
        "train-1.zip": dict(list(train.items())[half:]),
        "val.zip": {name: content for name, content in files.items() if name not in train},
    }


def _write_parts(folder, files):
    for name, part in _parts(files).items():
        write_zip(folder / name, part)
    return folder


@pytest.fixture
def folders(tmp_path):
    """The same files as a folder, its parent, several zip files and one zip file."""
    files = tiny_imagenet()
    parent = write_tree(tmp_path / "tree", files)
    zips = _write_parts(tmp_path / "zips", files)
    return [
        parent / "tiny-imagenet-200", parent, zips, write_zip(tmp_path / "one" / "all.zip", files)
    ]  # fmt: skip


@pytest.mark.parametrize("split", ["train", "val"])
def test_folders_and_zip_files_give_the_same_rows(folders, split):
    sets = [dc.vision.TinyImageNet(folder, split) for folder in folders]
    for one in sets:
        assert one.class_names == tuple(sorted(TINY_WNIDS))
        assert one.groups.tolist() == sets[0].groups.tolist()
        assert one.labels.tolist() == sets[0].labels.tolist()
        assert one.columns is None
        assert one.provenance["split"] == split
    names = [sets[0].class_names[label] for label in sets[0].labels]
    if split == "train":
        assert [group.split("_")[0] for group in sets[0].groups] == names
        assert sets[0].domains is None
    else:
        assert names == [TINY_WNIDS[(2 * i) % 3] for i in range(6)]
        assert set(sets[0].domains) == {"clean"}


def test_labels_do_not_depend_on_which_files_exist(tmp_path):
    """The classes come from the training images alone, or from wnids.txt."""
    wnids = [f"n{k:08}" for k in range(400, 200, -1)]
    train = {f"tiny-imagenet-200/train/{w}/images/{w}_0.JPEG": "" for w in wnids}
    val = {
        "tiny-imagenet-200/wnids.txt": "\n".join(wnids),
        "tiny-imagenet-200/val/val_annotations.txt": f"val_0.JPEG\t{wnids[7]}\t0\t0\t1\t1\n",
        "tiny-imagenet-200/val/images/val_0.JPEG": "",
    }
    alone = dc.vision.TinyImageNet(write_zip(tmp_path / "a/train.zip", train), "train")
    write_zip(tmp_path / "b/train.zip", train)
    write_zip(tmp_path / "b/val.zip", val)
    beside = dc.vision.TinyImageNet(tmp_path / "b", "train")
    shown = dc.vision.TinyImageNet(tmp_path / "b")
    assert alone.class_names == beside.class_names == shown.class_names
    assert alone.labels.tolist() == beside.labels.tolist() == list(range(200))
    assert shown.class_names[shown.labels[0]] == wnids[7]
    train.popitem()
    with pytest.raises(dc.errors.InputError, match=r"has no wnids.txt, .* 199 instead of 200"):
        dc.vision.TinyImageNet(write_zip(tmp_path / "c/train.zip", train), "train")


FORKED = """
import multiprocessing, sys, domaincal as dc

images = dc.vision.TinyImageNet(sys.argv[1], "train")
def greys(queue):
    queue.put([int(images.images[row].mean()) for row in range(len(images))])

assert images.images[0].shape == (8, 8, 3)  # the file is open when the processes start
context = multiprocessing.get_context("fork")
queue = context.Queue()
for _ in range(2):
    context.Process(target=greys, args=(queue,)).start()
greys(queue)
print([queue.get(timeout=60) for _ in range(3)])
"""


def test_forked_processes_read_the_same_zip_files_correctly(tmp_path):
    """Forked processes share the position in an open file unless each opens it anew."""
    pytest.importorskip("PIL")
    folder = _write_parts(tmp_path, tiny_imagenet(picture=encoded, per_class=20))
    groups = dc.vision.TinyImageNet(folder, "train").groups
    order = [TINY_WNIDS.index(group.split("_")[0]) for group in groups]
    expected = [40 * k + int(group[10:-5]) for k, group in zip(order, groups, strict=True)]
    done = subprocess.run(
        [sys.executable, "-c", FORKED, folder], capture_output=True, text=True, timeout=120
    )
    assert done.stdout.strip() == str([expected] * 3), done.stderr


def test_pickled_data_set_can_be_read(tmp_path):
    pytest.importorskip("PIL")
    images = dc.vision.TinyImageNet(_write_parts(tmp_path, tiny_imagenet(picture=encoded)))
    first = images.images[0]
    again = pickle.loads(pickle.dumps(images.select([2, 0])))
    np.testing.assert_array_equal(again.images[1], first)
    assert again.groups.tolist() == ["val_2.JPEG", "val_0.JPEG"]


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize(
    ("split", "change", "message"),
    [
        ("val", {"val/val_annotations.txt": None}, "differ in 6 images.*get the whole"),
        ("val", {"val/images/val_4.JPEG": None}, "differ in 1 images: val_4.JPEG; get the images"),
        ("val", {"val/val_annotations.txt": "val_0.JPEG\n"}, "has the line 'val_0.JPEG'"),
        ("val", {"wnids.txt": "n01443537"}, "does not contain the classes n02124075, n04067472"),
        ("val", {"wnids.txt": "cat"}, "WordNet ids such as n01443537, got cat"),
        ("val", {"wnids.txt": ""}, "WordNet ids such as n01443537, got nothing"),
        ("train", {"wnids.txt": " ".join([*TINY_WNIDS, "n00000001"])}, "1 classes: n00000001"),
        ("train", {"train/n01443537/images/n01443537_0.JPEG": None,
                   "train/n01443537/images/n01443537_1.JPEG": None}, "1 classes: n01443537"),
    ],
)  # fmt: skip
def test_missing_files_and_classes_are_refused(tmp_path, zipped, split, change, message):
    files = tiny_imagenet()
    for name, content in change.items():
        if content is None:
            del files["tiny-imagenet-200/" + name]
        else:
            files["tiny-imagenet-200/" + name] = content
    write_zip(tmp_path / "x.zip", files) if zipped else write_tree(tmp_path, files)
    with pytest.raises((dc.errors.InputError, dc.errors.FileFormatError), match=message):
        dc.vision.TinyImageNet(tmp_path, split)


def test_errors_name_expected_and_found_files(tmp_path):
    with pytest.raises(
        dc.errors.InputError, match="does not exist; give the folder tiny-imagenet-200"
    ):
        dc.vision.TinyImageNet(tmp_path / "nowhere")
    (tmp_path / "cats").mkdir()
    with pytest.raises(
        dc.errors.InputError, match=r"expected tiny-imagenet-200/train.*found cats/"
    ):
        dc.vision.TinyImageNet(tmp_path)
    with pytest.raises(dc.errors.InputError, match="found nothing"):
        dc.vision.TinyImageNet(tmp_path / "cats")
    with pytest.raises(
        dc.errors.InputError, match="split must be one of 'val', 'train', got 'test'"
    ):
        dc.vision.TinyImageNet(tmp_path, "test")
    parts = _parts(tiny_imagenet())
    write_zip(tmp_path / "val.zip", parts["val.zip"])
    with pytest.raises(
        dc.errors.InputError, match=r"expected .*train/<wnid>.*found cats/, val.zip; get"
    ):
        dc.vision.TinyImageNet(tmp_path, "train")
    with pytest.raises(dc.errors.InputError, match=r"val.zip, which contains none"):
        dc.vision.TinyImageNet(tmp_path / "val.zip", "train")
    content = (tmp_path / "val.zip").read_bytes()
    (tmp_path / "val.zip").write_bytes(content[: len(content) // 2])
    with pytest.raises(dc.errors.FileFormatError, match=r"val.zip cannot be read .*get it again"):
        dc.vision.TinyImageNet(tmp_path)


def test_errors_name_damaged_images(tmp_path):
    pytest.importorskip("PIL")
    path = write_zip(tmp_path / "x.zip", tiny_imagenet(picture=encoded))
    images = dc.vision.TinyImageNet(path)
    content = bytearray(path.read_bytes())
    start = content.index(encoded(200))
    content[start + 30] ^= 255
    path.write_bytes(content)
    with pytest.raises(
        dc.errors.FileFormatError, match=r"x.zip:.*val_0.JPEG cannot be read .*get it again"
    ):
        images.images[0]
    assert images.images[1].shape == (8, 8, 3)
    with pytest.raises(dc.errors.FileFormatError, match=r"x.zip:.*val_0.JPEG is not an image"):
        dc.vision.TinyImageNet(write_zip(tmp_path / "y/x.zip", tiny_imagenet())).images[0]


def test_real_data_set_has_the_published_sizes(shared_data):
    pytest.importorskip("PIL")
    folder = shared_data / "tiny-imagenet-200"
    train, val = dc.vision.TinyImageNet(folder, "train"), dc.vision.TinyImageNet(folder)
    assert (len(train), len(val), len(val.class_names)) == (60_000, 10_000, 200)
    assert train.class_names == val.class_names
    assert set(np.bincount(train.labels)) == {300}
    assert set(np.bincount(val.labels)) == {50}
    # The first line of val_annotations.txt is: val_0.JPEG n03444034 0 32 44 62
    assert (val.groups[0], val.class_names[val.labels[0]]) == ("val_0.JPEG", "n03444034")
    for image in (train.images[59_999], val.images[0]):
        assert image.shape == (64, 64, 3)
        assert image.dtype == np.uint8
