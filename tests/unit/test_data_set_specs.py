"""Sets of images as a command writes them."""

import re

import pytest

import domaincal as dc
from domaincal.cli.image_options import DATASET_HELP
from domaincal.vision.datasets.catalogue import DATA_SETS, data_set_from_spec, parameter_types
from trees import google_landmarks, rxrx1, write_tree


@pytest.mark.parametrize(
    ("text", "parameters"),
    [
        ("rxrx1", {}),
        ("gldv2:variant=gld23k:training_clients=9", {"variant": "gld23k", "training_clients": 9}),
        ("gldv2:seed=1:seed=2", {"seed": 2}),
        ("imagenet-c:classes=all:domains=clean,fog-3",
         {"classes": "all", "domains": ["clean", "fog-3"]}),
        ("imagenet-c:domains=fog-3", {"domains": ["fog-3"]}),
        (r"imagenet-c:clean=C:\val:classes=all", {"clean": r"C:\val", "classes": "all"}),
        ("imagenet-c:clean=at:10/val", {"clean": "at:10/val"}),
        ("imagenet-c:clean=/at/10:30:classes=all", {"clean": "/at/10:30", "classes": "all"}),
        ("table:label=7:domain=null", {"label": "7", "domain": None}),
        ("table:path=null", {"path": "null"}),  # a column, for there must be one
        ("table:folder=photos:class_names=cat,dog",
         {"folder": "photos", "class_names": ["cat", "dog"]}),
    ],
)  # fmt: skip
def test_values_have_the_types_of_the_parameters(text, parameters):
    named = data_set_from_spec(text)
    assert named.name == text.split(":")[0]
    assert named.parameters == parameters


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mnist", "there is no data set of images 'mnist'; choose from tiny-imagenet, cif"),
        ("gldv2:n-ind=5", "gldv2 has no parameter 'n-ind'; choose from variant"),
        ("gldv2:seed=1:n-ind=5", "gldv2 has no parameter 'n-ind'; choose from variant"),
        ("gldv2: seed=1", "gldv2 has no parameter ' seed'; choose from variant"),
        ("gldv2:seed=1:variant", "gldv2 needs a value for 'variant'; write variant=VALUE"),
        ("gldv2:clients=3", "gldv2 has no parameter 'clients'; choose from variant, training_cli"),
        ("gldv2:folder=x", "gldv2 has no parameter 'folder'; choose from variant"),
        ("gldv2:seed=one", "seed of gldv2 must be a whole number, got 'one'"),
        ("gldv2:seed=null", "seed of gldv2 must be a whole number, got 'null'"),
        ("gldv2:seed", "gldv2 needs a value for 'seed'; write seed=VALUE"),
        ("table:label=", "table needs a value for 'label'; write label=VALUE"),
        ("table:", "table has no parameter ''; choose from folder, path, label"),
        ("rxrx1:seed=1", "rxrx1 has no parameter 'seed'; it has none"),
        ("gldv2:split=train", "gldv2 has no parameter 'split'; use the option --split"),
        ("rxrx1:split", "rxrx1 has no parameter 'split'; use the option --split"),
    ],
)
def test_what_is_written_wrong_is_named(text, message):
    with pytest.raises(dc.errors.InputError, match=re.escape(message)):
        data_set_from_spec(text)


def test_the_set_is_that_of_the_class(tmp_path):
    counts = {str(k): 3 + k for k in range(9)}
    write_tree(tmp_path, google_landmarks(counts, table="mini_gld_train_split.csv"))
    named = data_set_from_spec("gldv2:variant=gld23k:training_clients=4:min_rows=3:n_ind=2:seed=5")
    options = {"variant": "gld23k", "training_clients": 4, "min_rows": 3, "n_ind": 2, "seed": 5}
    for split in ("train", "validation"):
        opened, made = (
            named.open(tmp_path, split),
            dc.vision.GoogleLandmarks(tmp_path, split, **options),
        )
        assert isinstance(opened, dc.vision.GoogleLandmarks)
        assert opened.images.names == made.images.names
        assert opened.ind_domains == made.ind_domains
    assert named.open(tmp_path).ood_domains == made.ood_domains


@pytest.mark.parametrize(
    ("text", "split", "message"),
    [
        ("tiny-imagenet", "x", "tiny-imagenet has no split 'x'; it has val, train"),
        ("tiny-imagenet", "val,train", "tiny-imagenet takes one split at a time, got 'val,train'"),
        ("rxrx1", "val,dev", "rxrx1 has no split 'dev'; it has val, test, id_test, train"),
        ("table:label=x", "train", "table has no split 'train'; it has none: leave it out"),
    ],
)
def test_wrong_splits_are_named(text, split, message, tmp_path):
    with pytest.raises(dc.errors.InputError, match=re.escape(message)):
        data_set_from_spec(text).open(tmp_path, split)


@pytest.mark.parametrize("name", DATA_SETS)
def test_help_knows_every_data_set_and_parameter(name):
    assert name in DATASET_HELP
    listed = DATASET_HELP.partition("imagenet-c has")[2].replace("; ", ";").split(";")
    clauses = {"imagenet-c": listed[0], **{c.split()[0]: c.partition(" ")[2] for c in listed[1:]}}
    parameters = set(parameter_types(DATA_SETS[name].data_set))
    without_remarks = re.sub(r"\(.*?\)", "", clauses.get(name, ""))
    assert set(re.findall(r"\w+", without_remarks)) == parameters


def test_several_splits_of_rxrx1(tmp_path):
    place = write_tree(tmp_path / "rxrx1_v1.0", rxrx1())
    both = data_set_from_spec("rxrx1").open(place, "val,test")
    alone = [data_set_from_spec("rxrx1").open(place, split) for split in ("val", "test")]
    assert len(both) == sum(map(len, alone)) > max(map(len, alone))
