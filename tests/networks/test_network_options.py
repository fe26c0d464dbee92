"""What is asked of ``domaincal train``, ``extract`` and Tiny-ImageNet-C arrives where it counts."""

import json
from functools import partial

import pytest
import timm
import torch

import domaincal as dc
from domaincal._files import read_tensor_metadata
from domaincal.experiments.tiny_imagenet_c import tiny_imagenet_c
from domaincal.vision import Network, create_network, load_network, save_network
from domaincal.vision.extraction import extract as extraction
from domaincal.vision.networks.header import NetworkHeader
from networks.conftest import run
from trees import encoded, tiny_imagenet, write_tree

#: Of timm's, the smallest with convolutions.
SMALL = "test_resnet"
QUICK = ("--network", SMALL, "--side", "32", "--epochs", "1", "--device", "cpu", "--jobs", "0")


@pytest.fixture
def network(tmp_path):
    """A file of a network for these images."""
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
def test_train_does_as_its_options_say(options, key, expected, images, tmp_path):
    """The provenance says what was used: a test of training sees each of them at work."""
    run("train", "tiny-imagenet", images, tmp_path / "n.safetensors", *QUICK, *options)
    assert load_network(tmp_path / "n.safetensors").provenance[key] == expected


@pytest.mark.parametrize("pretrained", [True, False])
def test_train_starts_from_pretrained_weights_if_asked(pretrained, images, tmp_path, monkeypatch):
    """timm's weights are not at hand here: random ones stand for them."""
    make, asked = timm.create_model, []

    def create_model(name, *, pretrained, **options):
        asked.append(pretrained)
        return make(name, **options)

    monkeypatch.setattr(timm, "create_model", create_model)
    path = tmp_path / "n.safetensors"
    run("train", "tiny-imagenet", images, path, *QUICK, *["--pretrained"] * pretrained)
    assert asked == [pretrained]
    assert load_network(path).provenance["pretrained"] is pretrained


@pytest.mark.parametrize("compiled", [True, False])
def test_train_compiles_if_asked(compiled, images, tmp_path, monkeypatch):
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


def test_a_table_has_no_split(tmp_path):
    """None is asked of it unless the user names one, which is refused."""
    files = {f"{k}.png": encoded(20 * k, format="PNG", side=40) for k in range(4)}
    table = write_tree(tmp_path / "photos", files) / "photos.csv"
    table.write_text(
        "path,label,domain\n" + "".join(f"{k}.png,{'ab'[k % 2]},x\n" for k in range(4))
    )
    path = tmp_path / "n.safetensors"
    said = run("train", "table", table, path, *QUICK, "--split", "train", status=1)
    assert "table has no split 'train'; it has none: leave it out" in said
    assert not path.exists()
    assert "1 epochs of 4 images" in run("train", "table", table, path, *QUICK)


@pytest.mark.parametrize("verb", ["train", "extract"])
def test_the_device_is_the_one_that_was_asked_for(verb, images, network, tmp_path):
    options = ("--network", SMALL if verb == "train" else network, "--device", "abacus")
    said = run(verb, "tiny-imagenet", images, tmp_path / "out.safetensors", *options, status=1)
    assert "device='abacus' cannot be used" in said


def test_the_number_of_processes_is_the_one_that_was_asked_for(
    images, network, tmp_path, monkeypatch
):
    asked = []

    def worker_count(n_jobs):
        asked.append(n_jobs)
        return 0

    for module in ("extraction.extract", "training.train"):
        monkeypatch.setattr(f"domaincal.vision.{module}.worker_count", worker_count)
    run("train", "tiny-imagenet", images, tmp_path / "n.safetensors", *QUICK, "--jobs", "3")
    options = ("--network", network, "--device", "cpu")
    run("extract", "tiny-imagenet", images, tmp_path / "rows", *options, "--jobs", "5")
    assert asked == [3, 5]


def test_extract_does_as_its_options_say(images, network, tmp_path, monkeypatch):
    sizes, kinds, outputs = [], set(), Network.outputs

    def recorded(self, given, precision):
        sizes.append(len(given))
        kinds.add(precision)
        return outputs(self, given, precision)

    monkeypatch.setattr(Network, "outputs", recorded)
    options = ("--network", network, "--device", "cpu", "--jobs", "0", "--json")
    more = ("--batch-size", "4", "--precision", "bfloat16", "--split", "train")
    rows = tmp_path / "rows"
    said = json.loads(run("extract", "tiny-imagenet", images, rows, *options, *more))
    assert sizes == [1, 4, 2]  # a black one first, then six
    assert kinds == {torch.bfloat16}
    assert (said["precision"], said["device"], said["n_rows"]) == ("bfloat16", "cpu", 6)
    assert said["images_per_second"] == pytest.approx(6 / said["seconds"])
    assert said["provenance"]["precision"] == "bfloat16"
    assert said["provenance"]["data split"] == "train"
    assert said["provenance"]["corruptions"] is None


def test_extract_corrupts_with_the_seed_that_was_asked_for(images, network, tmp_path, monkeypatch):
    monkeypatch.setattr(extraction.Corruptions, "domains", ("clean", "gaussian_noise-1"))
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


def test_tiny_imagenet_c_is_made_as_its_definition_says(tmp_path):
    """The recipe is in the file of the network and in the store of its rows."""
    recipe = {"epochs": 2, "learning_rate": 0.02, "weight_decay": 0.01, "clip_norm": 0.5}
    made = tmp_path / "made"
    data = tiny_imagenet_c(
        SMALL, folder=_tree(tmp_path / "tiny"), made=made, constants="cifar", **recipe
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


def test_another_recipe_is_another_network(tmp_path, monkeypatch):
    """What decides the weights is in the name of their file; what does not, is not."""
    monkeypatch.setattr(extraction.Corruptions, "domains", ("clean", "gaussian_noise-1"))
    make = partial(tiny_imagenet_c, SMALL, folder=_tree(tmp_path / "tiny"), made=tmp_path / "made")
    usual = {"epochs": 1, "learning_rate": 0.02, "weight_decay": 0.0, "clip_norm": None}
    others = ({"epochs": 2}, {"learning_rate": 0.01}, {"weight_decay": 0.1}, {"clip_norm": 1.0})
    for changed in ({}, *others):
        make(**{**usual, **changed})
    assert len(list((tmp_path / "made").glob("*.safetensors"))) == 5
    make(**usual, constants="cifar")
    assert len(list((tmp_path / "made").glob("*.safetensors"))) == 5
    assert len([p for p in (tmp_path / "made").iterdir() if p.is_dir()]) == 6
