"""CIFAR: records become images, and errors name invalid files."""

import pickle

import numpy as np
import pytest

import domaincal as dc
from trees import cifar10, write_tree


def test_cifar_10_reads_images_and_labels(tmp_path):
    files, pixels, labels = cifar10()
    write_tree(tmp_path, files)
    train = dc.vision.Cifar10(tmp_path, "train")
    test = dc.vision.Cifar10(tmp_path / "cifar-10-batches-bin")
    np.testing.assert_array_equal(train.images, pixels[:10])
    np.testing.assert_array_equal(test.images, pixels[10:])
    assert train.labels.tolist() + test.labels.tolist() == labels.tolist()
    assert (train.domains, set(test.domains)) == (None, {"clean"})
    assert test.groups.tolist() == ["test-0", "test-1"]
    assert test.class_names[3] == "cat"
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(test)).images[1], pixels[11])


def test_cifar_100_reads_the_fine_classes(tmp_path):
    record = bytes([1, 2]) + bytes(range(256)) * 12
    write_tree(tmp_path, {
        "cifar-100-binary/fine_label_names.txt": "apple\nbaby\nbear\n",
        "cifar-100-binary/train.bin": record * 3,
    })  # fmt: skip
    train = dc.vision.Cifar100(tmp_path, "train")
    assert train.labels.tolist() == [2, 2, 2]
    np.testing.assert_array_equal(train.images[0][0, :4], [[k] * 3 for k in range(4)])
    with pytest.raises(
        dc.errors.InputError, match=r"expected test.bin, fine_label_names.txt in .*found "
    ):
        dc.vision.Cifar100(tmp_path)


def test_missing_and_damaged_files_are_refused(tmp_path):
    files, _, _ = cifar10()
    names = "cifar-10-batches-bin/batches.meta.txt"
    folder = write_tree(tmp_path, files)
    (folder / names).write_text("airplane\n")
    with pytest.raises(dc.errors.FileFormatError, match=r"batches.meta.txt lists 1 classes"):
        dc.vision.Cifar10(folder, "train")
    batch = folder / "cifar-10-batches-bin/test_batch.bin"
    batch.write_bytes(batch.read_bytes()[:-1])
    with pytest.raises(
        dc.errors.FileFormatError, match="has 6145 bytes, but must consist of images of 3073"
    ):
        dc.vision.Cifar10(folder)
    batch.write_bytes(b"")
    with pytest.raises(dc.errors.FileFormatError, match="has 0 bytes"):
        dc.vision.Cifar10(folder)
    batch.unlink()
    with pytest.raises(
        dc.errors.InputError, match=r"expected test_batch.bin, .*batches.meta.txt.*unpack"
    ):
        dc.vision.Cifar10(folder)
    with pytest.raises(dc.errors.InputError, match="does not exist; expected cifar-10-batches-bin"):
        dc.vision.Cifar10(folder / "nowhere")
    with pytest.raises(dc.errors.InputError, match="is a file; expected"):
        dc.vision.Cifar10(folder / names)
    with pytest.raises(dc.errors.InputError, match="split must be one of"):
        dc.vision.Cifar10(folder, "val")
