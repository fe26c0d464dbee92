"""Options of ``domaincal train``, ``extract`` and Tiny-ImageNet-C reach the library."""

import json
from functools import partial

import pytest
import timm
import torch

import domaincal as dc
from domaincal._tensor_files import read_tensor_metadata
from domaincal.experiments.tiny_imagenet_c import tiny_imagenet_c
from domaincal.vision import Corruptions, Network, create_network, load_network, save_network
from domaincal.vision.networks.header import NetworkHeader
from networks.conftest import run
from trees import encoded, tiny_imagenet, write_tree

#: The smallest network of timm with convolutions.
SMALL = "test_resnet"
QUICK = ("--network", SMALL, "--side", "32", "--epochs", "1", "--device", "cpu", "--jobs", "0")


@pytest.fixture
def network(tmp_path):
    """File of a network for these images."""
    names = dc.vision.TinyImageNet(_tree(tmp_path / "names"), "val").class_names
    path = tmp_path / "network.safetensors"
    save_network(create_network(SMALL, class_names=names, side=32, stem="small"), path)
    return path


def _tree(folder):
    return write_tree(folder, tiny_imagenet(picture=partial(encoded, side=64), per_class=1))


@pytest.mark.parametrize(
    ("options", "key", "expected"),
    [
        (("--batch-size", "3"), "batch_size", 3),
        (("--learning-rate", "0.03"), "learning_rate", 0.03),
        (("--schedule", "cosine"), "schedule", "cosine"),
        ((), "schedule", "one-cycle"),
        (("--weight-decay", "0.25"), "weight_decay", 0.25),
        (("--clip-norm", "0.5"), "clip_norm", 0.5),
        ((), "clip_norm", None),
        (("--seed", "7"), "seed", 7),
        (("--seed", "7"), "training_seed", 7),
        (("--epochs", "2"), "epochs", 2),
        (("--stem", "small"), "stem", "small"),
        ((), "data split", "train"),
        (("--split", "val"), "data split", "val"),
    ],
)
def test_options_of_train_are_in_the_provenance(options, key, expected, images, tmp_path):
    run("train", "tiny-imagenet", images, tmp_path / "n.safetensors", *QUICK, *options)
    assert load_network(tmp_path / "n.safetensors").provenance[key] == expected


@pytest.mark.parametrize("pretrained", [True, False])
def test_train_passes_on_the_option_pretrained(pretrained, images, tmp_path, monkeypatch):
    """Random weights stand for the pretrained ones of timm, which need a download."""
    make, calls = timm.create_model, []

    def create_model(name, *, pretrained, **options):
        calls.append(pretrained)
        return make(name, **options)

    monkeypatch.setattr(timm, "create_model", create_model)
    path = tmp_path / "n.safetensors"
    run("train", "tiny-imagenet", images, path, *QUICK, *["--pretrained"] * pretrained)
    assert calls == [pretrained]
    assert load_network(path).provenance["pretrained"] is pretrained


@pytest.mark.parametrize("compiled", [True, False])
def test_train_passes_on_the_option_compile(compiled, images, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(torch, "compile", lambda module: seen.append(module) or module)
    path = tmp_path / "n.safetensors"
    run("train", "tiny-imagenet", images, path, *QUICK, *["--compile"] * compiled)
    assert len(seen) == compiled


def test_train_measures_on_the_validation_split(images, tmp_path):
    path = tmp_path / "n.safetensors"
    run("train", "tiny-imagenet", images, path, *QUICK)
    assert load_network(path).provenance["accuracy"] is None
    run("train", "tiny-imagenet", images, path, *QUICK, "--force", "--validation-split", "val")
    assert 0 <= load_network(path).provenance["accuracy"] <= 1


def test_table_has_no_split_to_train_on(tmp_path):
    files = {f"{k}.png": encoded(20 * k, format="PNG", side=40) for k in range(4)}
    table = write_tree(tmp_path / "photos", files) / "photos.csv"
    table.write_text(
        "path,label,domain\n" + "".join(f"{k}.png,{'ab'[k % 2]},x\n" for k in range(4))
    )
    path = tmp_path / "n.safetensors"
    said = run("train", "table", table, path, *QUICK, "--split", "train", status=1)
    assert "table has no split 'train'; it has no splits: leave it out" in said
    assert not path.exists()
    assert "1 epochs of 4 images" in run("train", "table", table, path, *QUICK)


@pytest.mark.parametrize("verb", ["train", "extract"])
def test_verbs_pass_on_the_device(verb, images, network, tmp_path):
    options = ("--network", SMALL if verb == "train" else network, "--device", "abacus")
    said = run(verb, "tiny-imagenet", images, tmp_path / "out.safetensors", *options, status=1)
    assert "device='abacus' cannot be used" in said


def test_verbs_pass_on_the_number_of_processes(images, network, tmp_path, monkeypatch):
    counts = []

    def worker_count(n_jobs):
        counts.append(n_jobs)
        return 0

    for module in ("extraction.extract", "training.train"):
        monkeypatch.setattr(f"domaincal.vision.{module}.worker_count", worker_count)
    run("train", "tiny-imagenet", images, tmp_path / "n.safetensors", *QUICK, "--jobs", "3")
    options = ("--network", network, "--device", "cpu")
    run("extract", "tiny-imagenet", images, tmp_path / "rows", *options, "--jobs", "5")
    assert counts == [3, 5]


def test_extract_passes_on_its_options(images, network, tmp_path, monkeypatch):
    sizes, precisions, outputs = [], set(), Network.outputs

    def recorded(self, given, precision):
        sizes.append(len(given))
        precisions.add(precision)
        return outputs(self, given, precision)

    monkeypatch.setattr(Network, "outputs", recorded)
    options = ("--network", network, "--device", "cpu", "--jobs", "0", "--json")
    more = ("--batch-size", "4", "--precision", "bfloat16", "--split", "train")
    rows = tmp_path / "rows"
    said = json.loads(run("extract", "tiny-imagenet", images, rows, *options, *more))
    assert sizes == [1, 4, 2]  # a black image, then six images
    assert precisions == {torch.bfloat16}
    assert (said["precision"], said["device"], said["n_rows"]) == ("bfloat16", "cpu", 6)
    assert said["images_per_second"] == pytest.approx(6 / said["seconds"])
    assert said["provenance"]["precision"] == "bfloat16"
    assert said["provenance"]["data split"] == "train"
    assert said["provenance"]["corruptions"] is None


def test_extract_passes_on_the_seed_of_the_corruptions(images, network, tmp_path, monkeypatch):
    monkeypatch.setattr(Corruptions, "domains", ("clean", "gaussian_noise-1"))
    options = ("--network", network, "--device", "cpu", "--jobs", "0", "--corrupt", "cifar")
    made = {}
    for seed in (0, 7):
        rows = tmp_path / f"rows-{seed}"
        run("extract", "tiny-imagenet", images, rows, *options, "--seed", seed)
        made[seed] = dc.read(rows)
        assert made[seed].provenance["corruptions"]["seed"] == seed
        assert made[seed].provenance["corruptions"]["constants"] == "cifar"
    assert (made[0].logits[:6] == made[7].logits[:6]).all()
    assert (made[0].logits[6:] != made[7].logits[6:]).any()


def test_recipe_of_tiny_imagenet_c_is_in_the_network_file_and_the_store(tmp_path):
    recipe = {"epochs": 2, "learning_rate": 0.02, "weight_decay": 0.01, "clip_norm": 0.5}
    made = tmp_path / "made"
    data = tiny_imagenet_c(
        SMALL, folder=_tree(tmp_path / "tiny"), cache_folder=made, constants="cifar", **recipe
    )
    (checkpoint,) = made.glob("*.safetensors")
    header = NetworkHeader.from_texts(read_tensor_metadata(checkpoint), checkpoint)
    expected = {**recipe, "timm": SMALL, "stem": "small", "pretrained": False}
    assert {key: header.provenance[key] for key in expected} == expected
    assert header.provenance["data split"] == "train"
    assert header.provenance["accuracy"] is not None
    assert header.preprocessing["side"] == 64
    assert header.name == SMALL
    written = data.provenance
    assert {key: written[f"network {key}"] for key in expected} == expected
    assert written["corruptions"]["constants"] == "cifar"
    assert written["corruptions"]["severities"] == [1, 2, 3, 4, 5]
    assert written["data split"] == "val"
    assert written["preprocessing"]["side"] == 64
    assert written["weights"] == load_network(checkpoint).checksum()
    assert (len(data), len(data.domain_names)) == (76 * 3, 76)
    store = made / f"{checkpoint.stem}-cifar"
    assert dc.read(store).provenance == written


def test_other_recipe_trains_another_network(tmp_path, monkeypatch):
    """The constants of the corruptions do not change the network."""
    monkeypatch.setattr(Corruptions, "domains", ("clean", "gaussian_noise-1"))
    folders = {"folder": _tree(tmp_path / "tiny"), "cache_folder": tmp_path / "made"}
    make = partial(tiny_imagenet_c, SMALL, **folders)
    usual = {"epochs": 1, "learning_rate": 0.02, "weight_decay": 0.0, "clip_norm": None}
    others = ({"epochs": 2}, {"learning_rate": 0.01}, {"weight_decay": 0.1}, {"clip_norm": 1.0})
    for changed in ({}, *others):
        make(**{**usual, **changed})
    assert len(list((tmp_path / "made").glob("*.safetensors"))) == 5
    make(**usual, constants="cifar")
    assert len(list((tmp_path / "made").glob("*.safetensors"))) == 5
    assert len([p for p in (tmp_path / "made").iterdir() if p.is_dir()]) == 6
