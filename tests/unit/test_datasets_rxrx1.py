"""RxRx1: the official splits, from metadata.csv."""

import numpy as np
import pytest

import domaincal as dc
from trees import RXRX1_EXPERIMENTS, encoded, rxrx1, write_tree


@pytest.fixture
def folder(tmp_path):
    return write_tree(tmp_path / "rxrx1_v1.0", rxrx1())


@pytest.mark.parametrize(
    ("split", "sites", "experiments"),
    [
        ("train", {"1"}, ["HEPG2-01", "RPE-01"]),
        ("id_test", {"2"}, ["HEPG2-01", "RPE-01"]),
        ("val", {"1", "2"}, ["HEPG2-08", "HUVEC-17", "RPE-08", "U2OS-04"]),
        ("test", {"1", "2"}, ["HEPG2-09", "U2OS-05"]),
    ],
)
def test_splits_are_the_official_ones(folder, split, sites, experiments):
    images = dc.vision.RxRx1(folder, split)
    assert np.unique(images.domains).tolist() == experiments
    assert {name[-5] for name in images.images.names} == sites
    assert len(images) == 2 * len(sites) * len(experiments)
    assert len(images.class_names) == 1139
    order = list(RXRX1_EXPERIMENTS)
    assert images.labels.tolist() == [1138 - order.index(name) for name in images.domains]
    for group in np.unique(images.groups):  # the sites of a well
        inside = images.groups == group
        assert len(np.unique(images.labels[inside])) == 1
        assert inside.sum() == len(sites)


def test_val_and_test_are_the_domains_of_the_paper(folder):
    images = dc.vision.RxRx1(folder.parent, ["val", "test"])
    assert len(np.unique(images.domains)) == 6
    experiment = dc.experiments.read_experiment("rxrx1")
    counts = dict(zip(*np.unique(images.domains, return_counts=True), strict=True))
    official, first = experiment.partitions[:2]
    ind, ood = official.choose(counts, random_state=0)
    assert ind == np.unique(dc.vision.RxRx1(folder, "val").domains).tolist()
    assert ood == np.unique(dc.vision.RxRx1(folder, "test").domains).tolist()
    # The partition is random-4-1, whose seed is 1.
    assert images.draw_domains(4, random_state=1) == first.choose(counts, random_state=99)


def test_images_belong_to_their_rows(tmp_path):
    pytest.importorskip("PIL")
    write_tree(tmp_path, rxrx1(picture=lambda value: encoded(value, format="PNG")))
    images = dc.vision.RxRx1(tmp_path, "val")
    order = list(RXRX1_EXPERIMENTS)
    expected = [
        10 * order.index(name.split("/")[0]) + 2 * int(name.split("/")[1]) for name in images.groups
    ]
    greys = [int(images.images[k][0, 0, 0]) for k in range(len(images))]
    assert [grey - site for grey, site in zip(greys, [1, 2] * 8, strict=True)] == expected


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (",sirna_id", ",other", r"lacks the column 'sirna_id'; expected dataset, .*found site_id"),
        (",1138\n", ",1139\n", "contains 1139; expected 0 to 1138"),
        (",1138\n", ",treated\n", "'sirna_id'.*holds 'treated' in row 0; expected whole numbers"),
        (",1138\n", ",\n", "'sirna_id'.*is empty in row 0"),
        (",train,", ",training,", "'dataset'.*contains training; expected train, val, test"),
        (",val,", ",test,", "no rows of the split 'val'"),
        ("HEPG2-08,1,B02", "../x,1,B02", r"'experiment' of .* contains '../x' in row 8, which can"),
        ("HEPG2-08,1,B02", "..,1,B02", r"'experiment' of .* contains '..' in row 8"),
        ("HEPG2-08,1,B02", r"HEPG2-08,1\0,B02", r"'plate' of .* contains '1.*0' in row 8"),
        ("HEPG2-08,1,B02", "HEPG2-08,1,/B02", r"'well' of .* contains '/B02' in row 8"),
        ("HEPG2-08,1,B02", "HEPG2-08,1,B03", r"2 of the 16 images that metadata.csv names are not"),
    ],
)
def test_invalid_tables_are_refused(folder, old, new, message):
    path = folder / "metadata.csv"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(dc.errors.InputError, match=message):
        dc.vision.RxRx1(folder)


def test_errors_name_missing_files_and_splits(folder, tmp_path):
    with pytest.raises(
        dc.errors.InputError, match=r"'nowhere' does not exist; expected .*metadata.csv"
    ):
        dc.vision.RxRx1("nowhere")
    for split in ("valid", [], ["val", "x"]):
        with pytest.raises(dc.errors.InputError, match="split must be one of"):
            dc.vision.RxRx1(folder, split)
    (folder / "images/HEPG2-08/Plate2/B02_s2.png").unlink()
    with pytest.raises(
        dc.errors.InputError, match=r"1 of the 16 images.*HEPG2-08/Plate2/B02_s2.png; get"
    ):
        dc.vision.RxRx1(folder)
    dc.vision.RxRx1(folder, "test")
    (folder / "metadata.csv").unlink()
    with pytest.raises(
        dc.errors.InputError, match=r"expected metadata.csv and images/.*found images/"
    ):
        dc.vision.RxRx1(folder)
