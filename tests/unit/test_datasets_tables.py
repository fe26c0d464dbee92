"""Tables of images, and tables of numbers."""

import numpy as np
import pandas as pd
import pytest

import domaincal as dc
from trees import encoded, write_tree


def _table(folder, text, pictures=("a/1.png", "a/2.png", "3.png")):
    write_tree(folder, dict.fromkeys(pictures, b""))
    path = folder / "images.csv"
    path.write_text(text)
    return path


TEXT = "path,label,domain\na/2.png,dog,night\n3.png,cat,day\na/1.png,dog,day\n"


def test_images_are_in_the_order_of_the_table(tmp_path):
    images = dc.vision.ImageTable(_table(tmp_path, TEXT))
    assert images.class_names == ("cat", "dog")
    assert images.labels.tolist() == [1, 0, 1]
    assert images.domains.tolist() == ["night", "day", "day"]
    assert images.groups is None
    assert images.images.names == ["a/2.png", "3.png", "a/1.png"]


def test_columns_and_classes_can_be_named(tmp_path):
    text = "\ufeff file, kind,where,shot\na/1.png,1,NA,7\na/2.png,0,07,7\n"
    path = _table(tmp_path / "pictures", text)
    table = tmp_path / "table.csv"
    path.rename(table)
    named = {"path": "file", "label": "kind", "domain": "where"}
    images = dc.vision.ImageTable(table, tmp_path / "pictures", **named, group="shot")
    assert images.class_names == ("0", "1")
    assert images.domains.tolist() == ["NA", "07"]
    assert images.groups.tolist() == ["7", "7"]
    images = dc.vision.ImageTable(
        table, tmp_path / "pictures", **named, class_names=["1", "x", "0"]
    )
    assert images.labels.tolist() == [0, 2]  # all of them are names
    images = dc.vision.ImageTable(table, tmp_path / "pictures", **named, class_names=["x", "y"])
    assert images.labels.tolist() == [1, 0]  # none of them is a name: numbers
    images = dc.vision.ImageTable(table, tmp_path / "pictures", **{**named, "domain": None})
    assert images.domains is None


def test_column_of_groups_is_optional(tmp_path):
    path = _table(tmp_path, "path,label,domain,group\n3.png,0,a,x\na/1.png,2,b,x\n")
    assert dc.vision.ImageTable(path).groups.tolist() == ["x", "x"]
    assert dc.vision.ImageTable(path).class_names == ("0", "1", "2")
    assert dc.vision.ImageTable(path, group=None).groups is None


def test_table_without_labels_gives_images_without_labels(tmp_path):
    path = _table(tmp_path, "path,domain\n3.png,a\na/1.png,b\n")
    images = dc.vision.ImageTable(path, label=None)
    assert (images.labels, images.class_names) == (None, None)
    assert images.domains.tolist() == ["a", "b"]
    assert repr(images) == "ImageTable(2 images, 2 domains, no labels)"
    images = dc.vision.ImageTable(path, label=None, domain=None, class_names=["cat", "dog"])
    assert (images.labels, images.class_names, images.domains) == (None, ("cat", "dog"), None)


def test_column_of_labels_is_not_read_with_label_none(tmp_path):
    images = dc.vision.ImageTable(_table(tmp_path, TEXT.replace("cat", "")), label=None)
    assert (images.labels, images.class_names, len(images)) == (None, None, 3)


def test_paths_outside_the_folder_are_refused_with_their_row(tmp_path):
    write_tree(tmp_path / "far", {"x.jpg": b""})
    for outside in (f"{tmp_path}/far/x.jpg", "../far/x.jpg", "a/../../far/x.jpg", ".."):
        path = _table(tmp_path / "here", f"path,label,domain\n3.png,0,a\n{outside},0,a\n")
        with pytest.raises(
            dc.errors.InputError, match=rf"images.csv names '{outside}' in row 1, .*relative paths"
        ):
            dc.vision.ImageTable(path)


def test_a_number_of_a_class_cannot_name_its_memory(tmp_path):
    """The numbers up to the largest become names."""
    for label in ("999999999", "99999999999"):
        path = _table(tmp_path / label, f"path,label,domain\na/1.png,1,a\n3.png,{label},a\n")
        with pytest.raises(
            dc.errors.InputError,
            match=rf"label in row 1 of .* is {label}, but .*below 1000000",
        ):
            dc.vision.ImageTable(path)


def test_links_inside_the_folder_are_followed(tmp_path):
    pytest.importorskip("PIL")
    write_tree(tmp_path / "far", {"x.jpg": encoded(200)})
    path = _table(tmp_path / "here", "path,label,domain\nlink/x.jpg,0,a\n")
    (tmp_path / "here/link").symlink_to(tmp_path / "far")
    assert int(dc.vision.ImageTable(path).images[0].mean()) == 200


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        (TEXT.replace("3.png", "4.png"), {}, r"1 of the 3 images that images.csv names .*4.png"),
        (TEXT.replace("a/", "b/"), {}, r"2 of the 3 images .*b/2.png, b/1.png; get them"),
        (TEXT.replace("a/", "b" * 5000 + "/"), {}, r"2 of the 3 images .*; get them"),
        (TEXT, {"domain": "site"}, r"lacks the column 'site'; expected path, label, site, found"),
        (TEXT, {"group": "shot"}, "lacks the column 'shot'"),
        (
            TEXT.replace("label", "kind"),
            {},
            "lacks the column 'label'; .*; pass the names of your columns as path=",
        ),
        (
            TEXT.replace("label", "kind"),
            {},
            r"all except path can be None \(null on the command line\)",
        ),
        (TEXT, {"class_names": ["cat", "fox"]}, "label 'dog' in row 0 .*is not in class_names"),
        (TEXT.replace("dog", "3"), {"class_names": ["a", "b"]}, "label '3' in row 0"),
        ("path,label,domain\n3.png,5,a\n", {"class_names": ["a", "b"]}, "has the label 5, but"),
        ("path,label,domain\n3.png,,a\n", {}, "'label' of .* is empty in row 0"),
        ("path,label,domain\n3.png,1\n", {}, "'domain' of .* is empty in row 0"),
        ("path,label,domain\n", {}, "has no rows"),
        (
            "path,label,domain\n3.png,0,a\na/1.png,-1,a\n",
            {},
            "label in row 1 of .* is -1, but class numbers",
        ),
        (
            "path,label,domain, domain\n3.png,1,a,b\n",
            {},
            "has the column 'domain' twice; remove one",
        ),
        ("", {}, "is empty; the first line must be a header"),
        (TEXT, {"folder": "nowhere"}, "folder='nowhere' is not a folder"),
    ],
)
def test_invalid_tables_of_images_are_refused(tmp_path, text, arguments, message):
    path = _table(tmp_path, text)
    with pytest.raises((dc.errors.InputError, dc.errors.FileFormatError), match=message):
        dc.vision.ImageTable(path, **arguments)


def test_missing_table_of_images_is_refused(tmp_path):
    with pytest.raises(
        dc.errors.InputError, match=r"does not exist; give a .csv file with the columns path"
    ):
        dc.vision.ImageTable(tmp_path / "images.csv")
    with pytest.raises(dc.errors.InputError, match=r"with the columns path, domain\."):
        dc.vision.ImageTable(tmp_path / "images.csv", label=None)
    with pytest.raises(dc.errors.InputError, match="is a folder"):
        dc.vision.ImageTable(tmp_path)


WALKS = "person,activity,x,y\n007,walk,0.5,2\nNA,jog,0.25,3\n007,jog,1,True\n"


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet"])
def test_a_domain_table_has_features_labels_and_domains(tmp_path, suffix):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=6), "k": [1, 2, 3, 4, 5, 6],
                          "who": list("abcabc"), "what": [3, 1, 3, 10, 1, 1]})  # fmt: skip
    path = tmp_path / f"walks{suffix}"
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False)
    table = dc.datasets.read_domain_table(path, label="what", domain="who")
    np.testing.assert_array_equal(table.features, frame[["x", "k"]])
    assert table.feature_names == ("x", "k")
    assert table.class_names == ("1", "10", "3")
    assert table.labels.tolist() == [2, 0, 2, 1, 0, 0]
    assert table.domains.tolist() == list("abcabc")
    assert len(table) == 6
    one = dc.datasets.read_domain_table(path, label="what", domain="who", features=["k"])
    other = dc.datasets.read_domain_table(path, label="what", domain="who", exclude=["x"])
    np.testing.assert_array_equal(one.features, other.features)


def test_labels_and_domains_are_read_as_text(tmp_path):
    path = tmp_path / "walks.csv"
    path.write_text(WALKS.replace("True", "4"))
    table = dc.datasets.read_domain_table(path, label="activity", domain="person")
    assert table.domains.tolist() == ["007", "NA", "007"]
    path.write_text(WALKS.replace("True", "4").replace("NA", "010").replace("jog", "01"))
    table = dc.datasets.read_domain_table(path, label="activity", domain="person")
    assert table.domains.tolist() == ["007", "010", "007"]
    assert table.class_names == ("01", "walk")


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        (
            WALKS,
            {},
            r"column 'y' contains 'True' in row 2; it must hold numbers: name it in exclude",
        ),
        (WALKS.replace("True", ""), {}, "'y' of .* has no finite number in row 2"),
        (WALKS.replace("True", "inf"), {}, "'y' of .* has no finite number in row 2"),
        (WALKS, {"label": "what"}, "has no column 'what'; it has person, activity, x, y"),
        (WALKS, {"features": ["z"]}, "has no column 'z'"),
        (WALKS.replace("x,y", "x,x"), {}, "has the column 'x' twice; rename one of them"),
        (WALKS, {"exclude": ["z"]}, "has no column 'z'"),
        (WALKS, {"exclude": ["x", "y"]}, "has no columns besides 'activity' and 'person'"),
        (WALKS, {"features": ["person"]}, "features contains 'person', which is the label or"),
        (WALKS.replace("NA,", ","), {"exclude": ["y"]}, "'person' of .* is empty in row 1"),
        ("", {}, "is empty; the first line must be a header"),
        (WALKS.replace(",2", ",2,9"), {"exclude": ["y"]}, "more cells than its header, which has"),
        (WALKS.replace(",2", ",2,"), {"exclude": ["y"]}, "more cells than its header"),
        (WALKS.replace(",3", ",3,9"), {"exclude": ["y"]}, "Expected 4 fields in line 3, saw 5"),
        (WALKS.replace("jog", "j" * 1001), {"exclude": ["y"]}, "'activity' of .* 1001 characters"),
        (WALKS.replace("NA", "N\0"), {"exclude": ["y"]}, "has zero characters; save it as text"),
        (WALKS.replace("x", "x" * 1001), {"exclude": ["y"]}, "header of .* 1001 characters"),
        (WALKS.replace("True", "x" * 10**6), {}, f"'y' contains '{'x' * 40}' in row 2; it must"),
    ],
)  # fmt: skip
def test_errors_of_a_domain_table_name_the_column_and_row(tmp_path, text, arguments, message):
    path = tmp_path / "walks.csv"
    path.write_text(text)
    with pytest.raises((dc.errors.InputError, dc.errors.FileFormatError), match=message) as caught:
        dc.datasets.read_domain_table(
            path, **{"label": "activity", "domain": "person", **arguments}
        )
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 1000


def _parquet(folder, **columns):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.table(columns), folder / "walks.parquet")
    return folder / "walks.parquet"


def test_a_domain_table_of_parquet_has_any_labels_and_no_index(tmp_path):
    import datetime

    days = [datetime.date(2020, 1, 2), datetime.date(2020, 1, 1)] * 2
    frame = {"x": [1, 2, 3, 4], "flag": [True, False] * 2, "what": [1.5, 2.0] * 2, "day": days}
    path = _parquet(tmp_path, **frame)
    table = dc.datasets.read_domain_table(path, label="what", domain="day")
    assert table.class_names == ("1.5", "2.0")
    assert table.domains.tolist() == ["2020-01-02", "2020-01-01"] * 2
    assert table.features.tolist() == [[1, 1], [2, 0], [3, 1], [4, 0]]
    index = pd.Index([5, 6, 7, 8], name="row")
    pd.DataFrame({**frame, "day": list("abab")}, index=index).to_parquet(path)
    table = dc.datasets.read_domain_table(path, label="what", domain="day")
    assert table.feature_names == ("x", "flag")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"x": ["a", "b"]}, "'x' must hold numbers, not text: name it in exclude"),
        ({"x": [1.0, None]}, "'x' has no value in row 1"),
        ({"x": [1.0, np.inf]}, "'x' of .* has no finite number in row 1"),
        ({"x": [1, 2], "who": ["a", None]}, "'who' has no value in row 1"),
        ({"x": [1, 2], "who": [None, None]}, "'who' of .* is empty in row 0"),
        ({"x": [1, 2], "who": ["a", ""]}, "'who' of .* is empty in row 1"),
        ({"x": [1, 2], "who": ["a", "b" * 1001]}, "'who' of .* 1001 characters"),
        ({"x": [1, 2], "who": [[1], [2]]}, "'who' must hold numbers or texts"),
        ({"x": [[1], [2]]}, "'x' must hold numbers, not list<"),
        ({"x.y": [1, 2], "x": [{"y": 1}, {"y": 2}]}, "'x' must hold numbers, not struct"),
    ],
)
def test_bad_domain_tables_of_parquet_are_refused(tmp_path, columns, message):
    path = _parquet(tmp_path, **{"what": [0, 1], "who": ["a", "b"], **columns})
    with pytest.raises(dc.DomaincalError, match=message) as caught:
        dc.datasets.read_domain_table(path, label="what", domain="who")
    assert str(path) in str(caught.value)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(dc.errors.FileFormatError, match="cannot be read"):
        dc.datasets.read_domain_table(path, label="what", domain="who")


def test_a_column_that_pyarrow_takes_for_part_of_another_is_refused(tmp_path):
    columns = {"what": [0, 1], "who": ["a", "b"], "x.y": [1, 2], "x": [{"y": [1]}, {"y": [2]}]}
    path = _parquet(tmp_path, **columns)
    with pytest.raises(dc.errors.InputError, match=r"'x\.y' is named like a nested one; rename"):
        dc.datasets.read_domain_table(path, label="what", domain="who", features=["x.y"])


def test_a_domain_table_must_exist(tmp_path):
    with pytest.raises(dc.errors.InputError, match=r"is not a file; pass a .csv or .parquet file"):
        dc.datasets.read_domain_table(tmp_path, label="a", domain="b")


def test_the_wisdm_table_has_50_domains(shared_data):
    path = shared_data / "wisdm/wisdm_watch_accel.csv.gz"
    table = dc.datasets.read_domain_table(path, label="ACTIVITY", domain="subject")
    assert repr(table) == "DomainTable(18211 rows, 91 features, 18 classes, 50 domains)"
