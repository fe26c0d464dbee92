"""``domaincal inspect`` describes a network file without torch."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from safetensors.numpy import save_file

from domaincal.cli import main
from domaincal.vision.networks.header import NetworkHeader

MADE = {"timm": "resnet50.tv_in1k", "pretrained": False, "stem": "small", "seed": 3}
TRAINED = {
    "data split": "train", "data": "TinyImageNet", "images": "100000 images, sha256 0f",
    "epochs": 25, "batch_size": 256,
    "learning_rate": 0.4, "schedule": "one-cycle", "weight_decay": 0.0005, "smallest_crop": 0.35,
    "clip_norm": None, "training_seed": 4, "accuracy": 0.66125, "seconds": 812.5,
    "device": "NVIDIA H200", "versions": {"python": "3.11.2", "torch": "2.13.0", "timm": "1.0.30"},
}  # fmt: skip
LINES = """\
{path} (network): resnet-50
  classes        {classes}
  side           64 px
  timm           resnet50.tv_in1k
  pretrained     no
  stem           small
  seed           3
  data split     train
  data           TinyImageNet
  images         100000 images, sha256 0f
  epochs         25
  batch size     256
  learning rate  0.4
  schedule       one-cycle
  weight decay   0.0005
  smallest crop  0.35
  clip norm      none
  training seed  4
  accuracy       66.12%
  seconds        812.5
  device         NVIDIA H200
  versions       python 3.11.2, torch 2.13.0, timm 1.0.30
"""


def run(*arguments: object, status: int = 0) -> str:
    done = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert done.exit_code == status, done.output
    return done.output


def network_file(tmp_path, *, class_names=("cat", "dog"), provenance=None):
    header = NetworkHeader(
        "resnet-50", class_names, {"side": 64, "crop": 1.0}, provenance or {**MADE, **TRAINED}
    )
    path = tmp_path / "network.safetensors"
    weights = {"fc.weight": np.zeros((2, 3), np.float32)}
    save_file(weights, path, header.texts(weights))
    return path


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (("cat", "dog"), "2: cat, dog"),
        (tuple("abcdefghijklm"), "13: a, b, c, d, e, f, g, h, i, j, k, l and 1 more"),
        (None, "those of timm's weights"),
    ],
)
def test_classes_side_origin_and_training_are_printed(names, shown, tmp_path):
    path = network_file(tmp_path, class_names=names)
    assert run("inspect", path) == LINES.format(path=path, classes=shown)


def test_the_json_document_holds_the_header(tmp_path):
    path = network_file(tmp_path)
    found = json.loads(run("inspect", path, "--json"))
    assert found == {
        "document": "domaincal network", "version": 1, "path": str(path), "n_classes": 2,
        "name": "resnet-50", "class_names": ["cat", "dog"],
        "preprocessing": {"side": 64, "crop": 1.0}, "provenance": {**MADE, **TRAINED},
    }  # fmt: skip
    found = json.loads(run("inspect", network_file(tmp_path, class_names=None), "--json"))
    assert (found["n_classes"], found["class_names"]) == (None, None)


def test_missing_training_and_validation_are_named(tmp_path):
    said = run("inspect", network_file(tmp_path, provenance=MADE))
    assert said.endswith("  seed        3\n  trained     no\n")
    said = run("inspect", network_file(tmp_path, provenance={**MADE, **TRAINED, "accuracy": None}))
    assert "  accuracy       not measured\n" in said


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_damaged_header_is_refused(options, tmp_path):
    path = network_file(tmp_path, provenance={"timm": "resnet18"})
    said = run("inspect", path, *options, status=1)
    assert f"{path} cannot be read (its header has no 'stem'); it may be damaged" in said


@pytest.mark.parametrize(
    ("provenance", "side", "message"),
    [
        ({"accuracy": "high"}, 64, "its accuracy is high, not a number from 0 to 1"),
        ({"stem": "large"}, 64, "stem must be one of standard, small, got 'large'"),
        ({"deep": json.loads("[" * 60 + "]" * 60)}, 64, "the header is nested too deeply"),
        ({}, 40_000, "the side of its images is 40000 px, not 1 to 4096"),
        ({}, True, "the side of its images is True px"),
    ],
)
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_entries_of_wrong_types_are_refused(provenance, side, message, options, tmp_path):
    header = NetworkHeader("x", ("a", "b"), {"side": side}, {**MADE, **provenance})
    path = tmp_path / "network.safetensors"
    save_file({"x": np.zeros(2, np.float32)}, path, header.texts({}))
    assert f"{path} cannot be read ({message}" in " ".join(
        run("inspect", path, *options, status=1).split()
    )


@pytest.mark.parametrize("verb", ["evaluate", "fit"])
def test_a_network_is_refused_as_data(verb, tmp_path):
    more = ("-o", tmp_path / "model.safetensors") if verb == "fit" else ()
    said = run(verb, network_file(tmp_path), *more, status=1)
    assert "holds a network, not rows; run domaincal extract" in said
