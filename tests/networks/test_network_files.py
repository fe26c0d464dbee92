"""Network files: a loaded network equals the saved one; invalid files are refused."""

import json
import os
import resource

import numpy as np
import pytest
import torch

import domaincal as dc
from domaincal._tensor_files import read_tensors, tensor_checksum, write_tensors
from domaincal.vision import ARCHITECTURES, create_network, load_network, save_network
from domaincal.vision.networks import network_file
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


def write_crafted(path, tensors, texts, **changes):
    """Write a network file with a right checksum, whatever its content is."""
    texts = {**texts, **changes}
    write_tensors(path, tensors, {**texts, "sha256": tensor_checksum(texts["network"], tensors)})


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Tensors and metadata of a network file."""
    path = tmp_path_factory.mktemp("networks") / "network.safetensors"
    save_network(create_network("resnet10t", class_names=["a", "b"], side=32), path)
    return read_tensors(path)


def test_missing_weights_are_refused(saved, tmp_path):
    tensors, texts = saved
    path = tmp_path / "cut.safetensors"
    fewer = {k: v for k, v in tensors.items() if k != "fc.weight"}
    for changed, message in (
        (fewer, r"fc.weight: the file has none, timm floats of shape \(2, 512\)"),
        ({**tensors, "more": np.zeros(2)}, r"more: the file has floats of shape \(2,\), timm none"),
        ({**tensors, "fc.bias": np.zeros(3, np.float32)}, r"fc.bias: .*\(3,\), timm .*\(2,\)"),
        ({**tensors, "fc.bias": np.zeros(2, np.int64)}, "fc.bias: the file has int64 of shape"),
    ):
        write_crafted(path, changed, texts)
        with pytest.raises(
            dc.errors.FileFormatError,
            match=rf"cut.* do not fit resnet10t .*{message}.*install the version",
        ):
            load_network(path)


def test_newer_version_of_the_format_is_refused(saved, tmp_path):
    write_tensors(tmp_path / "new.safetensors", saved[0], {**saved[1], "version": "3"})
    with pytest.raises(
        dc.errors.FileFormatError, match=r"new.* has version 3 .* upgrade domaincal"
    ):
        load_network(tmp_path / "new.safetensors")


def test_files_of_version_1_load_without_a_checksum(saved, tmp_path):
    tensors, texts = saved
    assert texts["version"] == "2"
    path = tmp_path / "old.safetensors"
    write_tensors(path, tensors, {**texts, "version": "1", "sha256": ""})
    assert load_network(path).class_names == ("a", "b")
    header = {k: v for k, v in texts.items() if k != "sha256"}
    write_tensors(path, tensors, {**header, "version": "1"})
    assert load_network(path).class_names == ("a", "b")


def test_altered_weights_and_headers_differ_from_the_checksum(saved, tmp_path):
    tensors, texts = saved
    path = tmp_path / "altered.safetensors"
    bias = tensors["fc.bias"].copy()
    bias.view(np.uint8)[1] ^= 1
    for changed, metadata in (
        ({**tensors, "fc.bias": bias}, texts),
        (tensors, {**texts, "network": texts["network"].replace('"b"', '"c"')}),
        (tensors, {**texts, "sha256": "0" * 64}),
        (tensors, {k: v for k, v in texts.items() if k != "sha256"}),
    ):
        write_tensors(path, changed, metadata)
        with pytest.raises(
            dc.errors.FileFormatError, match=r"checksum of .*altered\.safetensors does not match"
        ):
            load_network(path)


@pytest.mark.parametrize(("value", "version"), [(np.nan, "1"), (np.inf, "2"), (1e300, "2")])
def test_weights_that_are_not_finite_are_refused(value, version, saved, tmp_path):
    """1e300 is finite as float64, but not as float32."""
    tensors, texts = saved
    path = tmp_path / "nan.safetensors"
    bias = np.array([0.0, value])
    write_crafted(path, {**tensors, "fc.bias": bias}, texts, version=version)
    with pytest.raises(
        dc.errors.FileFormatError, match=r"nan.* has weights 'fc.bias' that are not finite; train"
    ):
        load_network(path)


def test_networks_with_weights_that_are_not_finite_are_not_saved(tmp_path):
    network = create_network("resnet10t", class_names=["a", "b"])
    with torch.no_grad():
        network.module.fc.weight[0, 0] = torch.nan
    with pytest.raises(dc.errors.InputError, match=r"'fc.weight' that are not finite; train"):
        save_network(network, tmp_path / "x.safetensors")
    assert not (tmp_path / "x.safetensors").exists()


def edited(texts, **changes):
    """JSON of a header with other entries in its provenance or preprocessing, or other names."""
    header = json.loads(texts["network"])
    for key, value in changes.items():
        inner = next((header[part] for part in ("provenance", "preprocessing")
                      if key in header[part]), header)  # fmt: skip
        inner[key] = value
    return json.dumps(header)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"timm": "eva_giant_patch14_560", "side": 560}, "do not fit eva_giant_patch14_560"),
        ({"timm": "vit_base_patch16_224", "side": 4096}, "do not fit vit_base_patch16_224"),
        ({"class_names": [str(k) for k in range(400_000)]}, "do not fit resnet10t"),
        ({"side": 40_000}, "the side of its images is 40000 px"),
        ({"crop": 1e-6}, "crop must be in"),
    ],
)
def test_a_small_file_cannot_name_a_large_network(changes, message, saved, tmp_path):
    path = tmp_path / "giant.safetensors"
    write_crafted(path, {}, saved[1], network=edited(saved[1], **changes))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(dc.errors.FileFormatError, match=rf"giant\.safetensors .*{message}"):
        load_network(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # kB


def test_buffers_that_grow_with_the_side_are_bounded(saved, tmp_path, monkeypatch):
    """The masks of a shifted window are not in the file, and 2 GB large for 4096 px."""
    name, path = "swin_tiny_patch4_window7_224", tmp_path / "masks.safetensors"
    options = {"class_names": ["a", "b"], "side": 4032, "stem": "standard"}
    with torch.device("meta"):
        planned = network_file.build_network(name, **options)
    small = {k: np.zeros(0, np.float32) for k in planned.module.state_dict()}
    write_crafted(path, small, saved[1], network=edited(saved[1], timm=name, side=4032))
    monkeypatch.setattr(network_file, "_require_same_shapes", lambda *_: None)
    monkeypatch.setattr(network_file, "build_network", None)
    with pytest.raises(dc.errors.FileFormatError, match=r"of memory, .*its side is too large"):
        load_network(path)


@pytest.mark.parametrize(
    "name",
    ["hf-hub:timm/resnet10t.c3_in1k", "hf_hub:timm/resnet10t", "local-dir:/tmp", "timm/resnet10t",
     "/resnet10t", "resnet10t.none", "resnet10t@x", "resnet10t.c3_in1k/../x", ""],
)  # fmt: skip
def test_only_registered_networks_are_created(name, saved, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise AssertionError("a network of another origin was created")

    monkeypatch.setattr("timm.create_model", fail)
    path = tmp_path / "x.safetensors"
    write_crafted(path, saved[0], saved[1], network=edited(saved[1], timm=name))
    with pytest.raises(dc.errors.FileFormatError, match="there is no network"):
        load_network(path)


def test_loading_asks_for_no_pretrained_weights(saved, tmp_path, monkeypatch):
    import timm

    asked = []

    def create(name, **options):
        asked.append(options["pretrained"])
        return create_model(name, **options)

    create_model = timm.create_model
    monkeypatch.setattr(timm, "create_model", create)
    path = tmp_path / "x.safetensors"
    write_crafted(path, saved[0], saved[1], network=edited(saved[1], pretrained=True))
    load_network(path)
    assert set(asked) == {False}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "x.safetensors")
    with pytest.raises(dc.errors.InputError, match=r"x\.safetensors is not a regular file"):
        load_network(tmp_path / "x.safetensors")


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        (("name",), None, "its header has no 'name'"),
        (("class_names",), None, "its header has no 'class_names'"),
        (("class_names",), "ab", "'class_names' of its header is a str"),
        (("preprocessing",), None, "its header has no 'preprocessing'"),
        (("preprocessing", "side"), None, "its header has no 'side'"),
        (("preprocessing", "side"), 0, "the side of its images is 0 px, not 1 to 4096"),
        (("preprocessing", "side"), 31.5, "'side' of its header is a float"),
        (("preprocessing", "mean"), [0, 0, 10**400], ".*"),
        (("preprocessing", "std"), [1, 1, 1e400], "std must be"),
        (("preprocessing", "std"), "abc", ".*"),
        (("class_names",), ["a", 3], "class_names must be a sequence of strings"),
        (("class_names",), ["a", "a"], "class_names contains 'a' twice"),
        (("class_names",), ["a", "b" * 1001], "class_names contains 'bbb.* 1001 characters"),
        (("class_names",), ["a", "\ud800"], "class_names contains"),
        (("class_names",), ["a"], "class_names has 1 name"),
        (
            ("provenance", "deep"),
            json.loads("[" * 60 + "]" * 60),
            "the header is nested too deeply",
        ),
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
    write_crafted(path, tensors, texts, network=json.dumps(header))
    with pytest.raises(
        dc.errors.FileFormatError, match=rf"damaged\.safetensors cannot be read \({message}.*train"
    ) as caught:
        load_network(path)
    assert "again" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [None, "", "{", "[]", "3", "[" * 100_000, '{"name": ' * 50_000, '{"name": %s}' % ("1" * 5000),
     '{"name": "a", "name": "b"}'],
)  # fmt: skip
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
