"""Network files: a loaded network equals the saved one; invalid files are refused."""

import json

import numpy as np
import pytest
import torch

import domaincal as dc
from domaincal._files import read_tensors, write_tensors
from domaincal.vision import ARCHITECTURES, create_network, load_network, save_network
from networks.conftest import small_network


@pytest.mark.parametrize("name", ["resnet18", "vit_tiny_patch16_224"])
def test_loaded_network_equals_the_saved_one(name, tmp_path):
    network = create_network(name, class_names=["a", "b"], side=32, stem="small", random_state=3)
    save_network(network, tmp_path / "network.safetensors")
    again = load_network(tmp_path / "network.safetensors")
    assert again.checksum() == network.checksum()
    assert again.preprocessing == network.preprocessing
    assert again.provenance == network.provenance
    assert again.class_names == ("a", "b")
    images = torch.randn(2, 3, 32, 32)
    for one in (network, again):
        one.module.eval()
    torch.testing.assert_close(network.outputs(images)[0], again.outputs(images)[0])


@pytest.mark.parametrize("now", ["resnet18", None])
def test_file_does_not_depend_on_later_changes_of_architectures(now, tmp_path, monkeypatch):
    monkeypatch.setitem(ARCHITECTURES, "small", "resnet10t.c3_in1k")
    network = create_network("small", class_names=["a", "b"])
    save_network(network, tmp_path / "network.safetensors")
    if now is None:
        monkeypatch.delitem(ARCHITECTURES, "small")
    else:
        monkeypatch.setitem(ARCHITECTURES, "small", now)
    again = load_network(tmp_path / "network.safetensors")
    assert again.name == "small"
    assert again.provenance["timm"] == "resnet10t.c3_in1k"
    assert again.checksum() == network.checksum()


def test_files_of_other_content_are_refused(tmp_path):
    with pytest.raises(dc.errors.InputError, match="there is no file"):
        load_network(tmp_path / "none.safetensors")
    write_tensors(tmp_path / "other.safetensors", {"x": np.zeros(2)}, {})
    with pytest.raises(
        dc.errors.FileFormatError, match=r"other\.safetensors is not a network file of domaincal"
    ):
        load_network(tmp_path / "other.safetensors")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Tensors and metadata of a network file."""
    path = tmp_path_factory.mktemp("networks") / "network.safetensors"
    save_network(create_network("resnet10t", class_names=["a", "b"], side=32), path)
    return read_tensors(path)


def test_missing_weights_are_refused(saved, tmp_path):
    tensors, texts = saved
    path = tmp_path / "cut.safetensors"
    write_tensors(path, {k: v for k, v in tensors.items() if k != "fc.weight"}, texts)
    with pytest.raises(
        dc.errors.FileFormatError,
        match=r"cut.* do not fit resnet10t .*fc\.weight.*install the version",
    ):
        load_network(path)


def test_newer_version_of_the_format_is_refused(saved, tmp_path):
    write_tensors(tmp_path / "new.safetensors", saved[0], {**saved[1], "version": "2"})
    with pytest.raises(
        dc.errors.FileFormatError, match=r"new.* has version 2 .* upgrade domaincal"
    ):
        load_network(tmp_path / "new.safetensors")


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        (("name",), None, "its header has no 'name'"),
        (("class_names",), None, "its header has no 'class_names'"),
        (("class_names",), "ab", "'class_names' of its header is a str"),
        (("preprocessing",), None, "its header has no 'preprocessing'"),
        (("preprocessing", "side"), None, "its header has no 'side'"),
        (("preprocessing", "side"), 0, "side must be"),
        (("preprocessing", "crop"), None, "the preprocessing has no 'crop'"),
        (("preprocessing", "mean"), None, "the preprocessing has no 'mean'"),
        (("preprocessing", "spin"), 2, ".*spin"),
        (("preprocessing", "interpolation"), "cubic", "interpolation must be"),
        (("provenance",), None, "its header has no 'provenance'"),
        (("provenance",), [], "'provenance' of its header is a list"),
        (("provenance", "timm"), None, "its header has no 'timm'"),
        (("provenance", "timm"), "resnet-51", "there is no network 'resnet-51'"),
        (("provenance", "stem"), None, "its header has no 'stem'"),
        (("provenance", "stem"), "large", "stem must be"),
    ],
)
def test_damaged_headers_are_refused(keys, value, message, saved, tmp_path):
    """A value of None removes the key."""
    tensors, texts = saved
    header = json.loads(texts["network"])
    inner = header if len(keys) == 1 else header[keys[0]]
    if value is None:
        del inner[keys[-1]]
    else:
        inner[keys[-1]] = value
    path = tmp_path / "damaged.safetensors"
    write_tensors(path, tensors, {**texts, "network": json.dumps(header)})
    with pytest.raises(
        dc.errors.FileFormatError, match=rf"damaged\.safetensors cannot be read \({message}.*train"
    ) as caught:
        load_network(path)
    assert "again" in str(caught.value)


@pytest.mark.parametrize("text", [None, "", "{", "[]", "3"])
def test_headers_that_are_not_json_objects_are_refused(text, saved, tmp_path):
    tensors, texts = saved
    texts = {k: v for k, v in texts.items() if k != "network"}
    path = tmp_path / "damaged.safetensors"
    write_tensors(path, tensors, texts if text is None else {**texts, "network": text})
    with pytest.raises(
        dc.errors.FileFormatError, match=r"damaged\.safetensors cannot be read .*again"
    ):
        load_network(path)


def test_network_of_a_users_module_is_not_saved(tmp_path):
    with pytest.raises(
        dc.errors.InputError, match=r"was not made by create_network.*save its module with torch"
    ):
        save_network(small_network(), tmp_path / "x.safetensors")
