"""Data sets of images on the command line."""

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
        ("gldv2:random_state=1:random_state=2", {"random_state": 2}),
        ("imagenet-c:classes=all:domains=clean,fog-3",
         {"classes": "all", "domains": ["clean", "fog-3"]}),
        ("imagenet-c:domains=fog-3", {"domains": ["fog-3"]}),
        (r"imagenet-c:clean=C:\val:classes=all", {"clean": r"C:\val", "classes": "all"}),
        ("imagenet-c:clean=at:10/val", {"clean": "at:10/val"}),
        ("imagenet-c:clean=/at/10:30:classes=all", {"clean": "/at/10:30", "classes": "all"}),
        ("table:label=7:domain=null", {"label": "7", "domain": None}),
        ("table:path=null", {"path": "null"}),  # the name of a column: path cannot be None
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
        ("gldv2:random_state=1:n-ind=5", "gldv2 has no parameter 'n-ind'; choose from variant"),
        ("gldv2: n_ind=1", "gldv2 has no parameter ' n_ind'; choose from variant"),
        ("gldv2:n_ind=1:variant", "gldv2 needs a value for 'variant'; write variant=VALUE"),
        ("gldv2:clients=3", "gldv2 has no parameter 'clients'; choose from variant, training_cli"),
        ("gldv2:folder=x", "gldv2 has no parameter 'folder'; choose from variant"),
        ("gldv2:random_state=one", "random_state of gldv2 must be a whole number, got 'one'"),
        ("gldv2:random_state=null", "random_state of gldv2 must be a whole number, got 'null'"),
        ("gldv2:n_ind", "gldv2 needs a value for 'n_ind'; write n_ind=VALUE"),
        ("table:label=", "table needs a value for 'label'; write label=VALUE"),
        ("table:", "table has no parameter ''; choose from folder, path, label"),
        ("rxrx1:seed=1", "rxrx1 has no parameter 'seed'; it has none"),
        ("gldv2:split=train", "gldv2 has no parameter 'split'; use the option --split"),
        ("rxrx1:split", "rxrx1 has no parameter 'split'; use the option --split"),
    ],
)
def test_invalid_specs_are_refused(text, message):
    with pytest.raises(dc.errors.InputError, match=re.escape(message)):
        data_set_from_spec(text)


def test_opened_data_set_equals_the_class_with_the_same_parameters(tmp_path):
    counts = {str(k): 3 + k for k in range(9)}
    write_tree(tmp_path, google_landmarks(counts, table="mini_gld_train_split.csv"))
    named = data_set_from_spec(
        "gldv2:variant=gld23k:training_clients=4:min_rows=3:n_ind=2:random_state=5"
    )
    options = {
        "variant": "gld23k", "training_clients": 4, "min_rows": 3, "n_ind": 2, "random_state": 5,
    }  # fmt: skip
    for split in ("train", "validation"):
        opened = named.open(tmp_path, split)
        made = dc.vision.GoogleLandmarks(tmp_path, split, **options)
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
        ("table:label=x", "train", "table has no split 'train'; it has no splits: leave it out"),
    ],
)
def test_unknown_splits_are_refused(text, split, message, tmp_path):
    with pytest.raises(dc.errors.InputError, match=re.escape(message)):
        data_set_from_spec(text).open(tmp_path, split)


@pytest.mark.parametrize("name", DATA_SETS)
def test_help_lists_every_data_set_and_parameter(name):
    assert name in DATASET_HELP
    without_remarks = re.sub(r"\(.*?\)", "", DATASET_HELP)
    found = re.search(rf"Parameters of {name}: (.*?)\.", without_remarks)
    listed = re.findall(r"\w+", found[1]) if found else []
    assert set(listed) == set(parameter_types(DATA_SETS[name].data_set))


def test_rxrx1_opens_several_splits(tmp_path):
    folder = write_tree(tmp_path / "rxrx1_v1.0", rxrx1())
    both = data_set_from_spec("rxrx1").open(folder, "val,test")
    alone = [data_set_from_spec("rxrx1").open(folder, split) for split in ("val", "test")]
    assert len(both) == sum(map(len, alone)) > max(map(len, alone))
