"""``domaincal train`` and ``extract``, and the experiment that uses both, on synthetic images."""

import json
from functools import partial

import numpy as np
import pytest

import domaincal as dc
from domaincal.vision import load_network
from networks.conftest import run
from trees import encoded, tiny_imagenet, write_tree, write_zip

FAST = (
    "--network", "resnet10t", "--side", "64", "--stem", "small", "--epochs", "1",
    "--batch-size", "3", "--learning-rate", "0.01", "--device", "cpu", "--jobs", "0",
)  # fmt: skip


def test_train_then_extract_with_corruptions_then_resume(images, tmp_path):
    network, rows = tmp_path / "n.safetensors", tmp_path / "rows"
    said = run("train", "tiny-imagenet", images, network, *FAST, "--validation-split", "val")
    assert "resnet10t: 1 epochs of 6 images" in said
    assert "accuracy" in said
    extract = ("extract", "tiny-imagenet", images, rows, "--network", network, "--device", "cpu",
               "--jobs", "0", "--batch-size", "5", "--corrupt", "tiny-imagenet")  # fmt: skip
    assert "456 images in" in run(*extract)
    data = dc.read(rows)
    assert len(data) == 76 * 6
    assert len(data.domain_names) == 76
    assert data.logits.shape[1] == 3
    assert data.provenance["network"] == "resnet10t"
    assert data.provenance["network data split"] == "train"  # by default
    assert data.provenance["corruptions"]["constants"] == "tiny-imagenet"
    assert "already has all 456 rows" in run(*extract)
    again = json.loads(run(*extract, "--json"))
    assert (again["document"], again["n_rows"], again["n_kept"]) == (
        "domaincal extraction",
        456,
        456,
    )
    refused = run(*extract, "--seed", "1", status=1)
    assert "differs in corruptions: it was made with {" in refused


def test_train_prints_json_and_does_not_overwrite(images, tmp_path):
    network = tmp_path / "n.safetensors"
    train = ("train", "tiny-imagenet", images, network, *FAST)
    printed = json.loads(run(*train, "--json"))
    assert printed["document"] == "domaincal training"
    assert [row["epoch"] for row in printed["history"]] == [1]
    assert printed["history"][0]["accuracy"] is None
    assert printed["provenance"] == load_network(network).provenance
    assert "exists; pass --force" in run(*train, status=1)
    run(*train, "--force")


def test_table_of_images_can_be_trained_on_and_extracted(tmp_path):
    files = {f"{name}.png": encoded(value, format="PNG", side=40)
             for name, value in (("a", 10), ("b", 200), ("c", 20), ("d", 220))}  # fmt: skip
    folder = write_tree(tmp_path / "photos", files)
    table = folder / "photos.csv"
    table.write_text(
        "path,species,site\na.png,dark,x\nb.png,bright,x\nc.png,dark,y\nd.png,bright,y\n"
    )
    dataset = "table:label=species:domain=site"
    network = tmp_path / "n.safetensors"
    options = ("--network", "resnet10t", "--side", "32", "--stem", "small", "--epochs", "1",
               "--batch-size", "2", "--device", "cpu", "--jobs", "0")  # fmt: skip
    run("train", dataset, table, network, *options)
    run("extract", dataset, table, tmp_path / "rows", "--network", network, "--jobs", "0")
    data = dc.read(tmp_path / "rows")
    assert data.class_names == ("bright", "dark")
    assert data.labels.tolist() == [1, 0, 1, 0]
    assert data.domains.tolist() == ["x", "x", "y", "y"]


def test_calibrator_can_be_applied_to_a_new_site_without_labels(tmp_path):
    values = {"a": 10, "b": 200, "c": 20, "d": 220, "e": 90}
    files = {f"{name}.png": encoded(value, format="PNG", side=40) for name, value in values.items()}
    folder = write_tree(tmp_path / "photos", files)
    known, new = folder / "known.csv", folder / "new.csv"
    known.write_text(
        "path,label,domain\na.png,dark,x\nb.png,bright,x\nc.png,dark,y\nd.png,bright,y\n"
    )
    new.write_text("path,site\ne.png,z\nb.png,z\n")
    network, model = tmp_path / "n.safetensors", tmp_path / "ts.safetensors"
    fast = ("--network", "resnet10t", "--side", "32", "--stem", "small", "--epochs", "1",
            "--batch-size", "2", "--device", "cpu", "--jobs", "0")  # fmt: skip
    dataset = "table:label=null:domain=site"
    assert "images have no labels" in run("train", dataset, new, network, *fast, status=1)
    assert "null on the command line" in run("train", "table", new, network, *fast, status=1)
    run("train", "table", known, network, *fast)
    extract = ("--network", network, "--jobs", "0", "--device", "cpu")
    run("extract", "table", known, tmp_path / "rows", *extract)
    run("extract", dataset, new, tmp_path / "new", *extract)
    data = dc.read(tmp_path / "new")
    assert data.labels is None
    assert data.class_names == ("bright", "dark")
    assert data.domains.tolist() == ["z", "z"]
    assert "no labels" in run("inspect", tmp_path / "new")
    run("fit", tmp_path / "rows", "-o", model, "--method", "ts")
    assert "2 rows" in run("apply", model, tmp_path / "new", "-o", tmp_path / "p.csv")


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("--network", "none.safetensors"), 1, "there is no file none.safetensors"),
        (("--network", "resnet-51"), 1, "there is no network 'resnet-51'; choose from resnet-50"),
        (("--network", "resnet10t", "--split", "x"), 1, "has no split 'x'; it has val, train"),
        (("--network", "resnet10t", "--split", "val,train"), 1, "takes one split at a time"),
        ((), 2, "Missing option '--network'"),
        (("--network", "resnet10t", "--corrupt", "mnist"), 2, "'mnist' is not one of"),
    ],
)  # fmt: skip
def test_invalid_options_of_extract_are_refused(arguments, status, message, images, tmp_path):
    said = run("extract", "tiny-imagenet", images, tmp_path / "rows", *arguments, status=status)
    assert message in said
    assert not (tmp_path / "rows").exists()


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        ("mnist", "there is no data set of images 'mnist'; choose from tiny-imagenet"),
        ("gldv2:variants=gld23k", "gldv2 has no parameter 'variants'; choose from variant,"),
        ("gldv2:random_state=one", "random_state of gldv2 must be a whole number, got 'one'"),
    ],
)
@pytest.mark.parametrize("verb", ["extract", "train"])
def test_invalid_data_sets_are_usage_errors(verb, dataset, message, tmp_path):
    assert message in run(verb, dataset, tmp_path, tmp_path / "n.safetensors", *FAST[:2], status=2)


def test_folder_without_images_is_refused(tmp_path):
    said = run("train", "tiny-imagenet", tmp_path, tmp_path / "n.safetensors", *FAST, status=1)
    assert "expected tiny-imagenet-200/train, tiny-imagenet-200/val or .zip files" in said


def test_experiment_trains_and_extracts_once(images, tmp_path):
    definition = tmp_path / "small.toml"
    definition.write_text("""
        name = "small"
        partitions = ["unseen-severity-5"]
        methods = {TS = "ts", oracle = "oracle"}
        [data]
        Small = {source = "tiny-imagenet-c", network = "resnet10t", epochs = 1}
        "Other constants" = {source = "tiny-imagenet-c", network = "resnet10t", epochs = 1, constants = "cifar"}
    """)  # noqa: E501
    out = tmp_path / "out"
    make = ("reproduce", "summary", "--experiment", definition, "--data", images, "-o", out)
    run(*make, "--network", "Small")
    made = {path.name for path in (out / "made").iterdir()}
    assert len(made) == 2  # a network and a store
    network = next((out / "made").glob("*.safetensors"))
    before = network.stat().st_mtime_ns
    printed = run(*make)
    assert "small, Small" in printed
    assert "small, Other constants" in printed
    assert len(list((out / "made").iterdir())) == 3  # another store of the same network
    assert network.stat().st_mtime_ns == before
    assert "there is no network 'Large' in small; choose from Small, Other" in run(
        *make, "--network", "Large", status=1
    )
    table = dc.experiments.read_experiment(definition, data=images)
    assert [source.network for source in table.sources] == ["Small", "Other constants"]
    said = json.loads((out / "provenance.json").read_text())[0]
    assert said["rows"]["Small"][0]["weights"] == load_network(network).checksum()
    # The identity of a source depends on the images, not on their folder.
    known = table.sources[0].identity(0)
    moved = images.rename(tmp_path / "elsewhere")
    assert dc.experiments.read_experiment(definition, data=moved).sources[0].identity(0) == known
    assert set(known["images"]) == {"train", "val"}
    assert known["images"]["train"] != known["images"]["val"]
    write_zip(moved / "all.zip", tiny_imagenet(picture=partial(encoded, side=64), per_class=3))
    assert dc.experiments.read_experiment(definition, data=moved).sources[0].identity(0) != known


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("{source = 'tiny-imagenet-c'}", "needs the option 'network'"),
        ("{source = 'tiny-imagenet-c', network = 'resnet10t', constants = 'x'}", "constants"),
        ("{source = 'tiny-imagenet-c', network = 'resnet10t', epoch = 1}", "no option 'epoch'"),
    ],
)
def test_invalid_experiment_trains_nothing(written, message, images, tmp_path):
    (tmp_path / "wrong.toml").write_text(f"name = 'x'\ndata = {{net = {written}}}\n")
    said = run(
        "reproduce", "summary", "--experiment", tmp_path / "wrong.toml", "--data", images,
        "-o", tmp_path / "out", status=1,
    )  # fmt: skip
    assert message in said
    assert not list(tmp_path.glob("out/made/*"))


def test_experiment_of_the_paper_has_seven_networks():
    experiment = dc.experiments.read_experiment("tiny-imagenet-c")
    assert len(experiment.sources) == 7
    assert experiment.n_bins == 100
    assert np.all([method.name for method in experiment.methods][:3] == ["MSP", "TS", "MD-TS"])
    assert len(dc.experiments.read_experiment("tiny-imagenet-c-mild").sources) == 1
