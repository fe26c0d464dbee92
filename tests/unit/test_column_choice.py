"""Columns with names of the user's own: frames, tables and array files are read alike."""

import decimal
import gzip
import importlib.util
import io
import sys

import numpy as np
import pandas as pd
import pytest

import domaincal as dc
from domaincal.data.column_choice import ColumnChoice
from domaincal.data.column_layout import layout_of

HAS_PYARROW = importlib.util.find_spec("pyarrow") is not None
needs_pyarrow = pytest.mark.skipif(not HAS_PYARROW, reason="pyarrow is not installed")

FRAME = pd.DataFrame({
    "case": ["007", "008", "009", "010"],
    "site": ["a", "a", "b", "NA"],
    "p_dog": [0.25, 0.5, 0.125, 0.0],
    "p_cat": [0.5, 0.25, 0.125, 1.0],
    "p_emu": [0.25, 0.25, 0.75, 0.0],
    "x_10": [1.5, 2.5, -3.0, 0.0],
    "x_9": [1.0, 2.0, 3.0, 4.0],
    "y": ["cat", "dog", "emu", "cat"],
    "image": [3, 3, 5, 5],
})  # fmt: skip
CHOICE = {
    "probabilities": "p_*", "features": "x_*", "label": "y", "domain": "site", "group": "image",
}  # fmt: skip


def assert_same(a, b):
    for name in ("logits", "labels", "features", "domains", "groups"):
        x, y = getattr(a, name), getattr(b, name)
        assert (x is None) == (y is None), name
        if x is not None:
            np.testing.assert_array_equal(x, y, err_msg=name)
    assert (a.class_names, a.feature_names) == (b.class_names, b.feature_names)


def _files(frame, folder):
    """Paths of the frame in every form of a table."""
    frame.to_csv(folder / "comma.csv", index=False)
    frame.to_csv(folder / "semicolon.csv", index=False, sep=";")
    frame.to_csv(folder / "tab.csv", index=False, sep="\t")
    frame.to_csv(folder / "packed.csv.gz", index=False)
    if HAS_PYARROW:
        frame.to_parquet(folder / "scores.parquet", index=False)
    return sorted(folder.glob("*.*"))


def test_a_frame_is_its_arrays():
    data = dc.CalibrationData.from_frame(FRAME, **CHOICE)
    p = FRAME[["p_dog", "p_cat", "p_emu"]].to_numpy()
    np.testing.assert_array_equal(data.logits, dc.logits_from_probabilities(p))
    assert data.class_names == ("dog", "cat", "emu")
    assert data.labels.tolist() == [1, 0, 2, 1]
    # Features that are not numbered from 0 keep their names, in the order of the numbers.
    assert data.feature_names == ("x_9", "x_10")
    np.testing.assert_array_equal(data.features, FRAME[["x_9", "x_10"]])
    assert data.domains.tolist() == ["a", "a", "b", "NA"]
    assert data.groups.tolist() == [3, 3, 5, 5]


@pytest.mark.parametrize(
    "options",
    [
        CHOICE,
        {**CHOICE, "probabilities": ["p_emu", "p_cat", "p_dog"], "class_names": ["emu", *"cd"],
         "label": None},
        {**CHOICE, "class_names": ["cat", "dog", "emu"]},
        {"logits": ["x_9", "x_10"], "domain": "image"},
        {"logits": "x_9", "features": ["p_cat", "x_10"]},
        {"probabilities": "p_cat", "features": "x_*"},
    ],
)  # fmt: skip
def test_a_frame_and_its_files_are_the_same_rows(tmp_path, options):
    expected = dc.CalibrationData.from_frame(FRAME, **options)
    for path in _files(FRAME, tmp_path):
        assert_same(dc.read(path, **options, id="case"), expected)
        found = dc.inspect(path, **options)
        assert found.fingerprint == expected.fingerprint()
    with pytest.warns(dc.errors.DomaincalWarning, match="also holds 'case', .* will not have"):
        assert_same(dc.convert(path, tmp_path / "scores.npz", **options), expected)
    assert_same(dc.read(tmp_path / "scores.npz"), expected)


def test_class_names_give_the_order_of_named_columns():
    data = dc.CalibrationData.from_frame(FRAME, **CHOICE, class_names=["cat", "dog", "emu"])
    np.testing.assert_array_equal(
        data.logits, dc.logits_from_probabilities(FRAME[["p_cat", "p_dog", "p_emu"]])
    )
    assert data.labels.tolist() == [0, 1, 2, 0]


def test_classes_named_by_numbers_are_found_in_labels_of_any_type(tmp_path):
    """With columns p_1, p_2, the label 1 would otherwise be the second class."""
    frame = pd.DataFrame({"p_1": [0.9, 0.2], "p_2": [0.1, 0.8], "y": [1, 2]})
    options = {"probabilities": ["p_1", "p_2"], "label": "y", "class_names": ["1", "2"]}
    assert dc.CalibrationData.from_frame(frame, **options).labels.tolist() == [0, 1]
    for path in _files(frame, tmp_path):
        assert dc.read(path, **options).labels.tolist() == [0, 1]


@pytest.mark.parametrize("column", ["prob", "PROB", "score"])
def test_one_column_is_the_score_of_the_second_class(tmp_path, column):
    scores = np.array([0.25, 0.5, 0.875])
    frame = pd.DataFrame({column: scores, "Label": ["no", "yes", "yes"], "DOMAIN": [1, 1, 2]})
    expected = dc.logits_from_probabilities(np.column_stack([1 - scores, scores]))
    if column == "score":
        expected = dc.logits_from_scores(scores)
    names = ["no", "yes"]
    for found in (
        dc.CalibrationData.from_frame(frame, class_names=names),
        *(dc.read(path, class_names=names) for path in _files(frame, tmp_path)),
    ):
        np.testing.assert_array_equal(found.logits, expected)
        assert found.labels.tolist() == [0, 1, 1]
        assert found.domains.tolist() == [1, 1, 2]
        assert found.class_names == ("no", "yes")
    assert dc.CalibrationData.from_frame(frame[[column]]).class_names is None


@pytest.mark.parametrize("suffix", ["npz", "pt", "safetensors", "folder"])
def test_options_name_the_arrays_of_array_files(tmp_path, suffix):
    arrays = {
        "p": FRAME[["p_dog", "p_cat", "p_emu"]].to_numpy().copy("C"), "y": np.array([1, 0, 2, 1]),
        "logits": np.eye(4), "where": np.array([5, 5, 6, 7]), "row": np.array([4, 3, 2, 1]),
    }  # fmt: skip
    path = tmp_path / f"scores.{suffix}"
    if suffix == "npz":
        np.savez(path, **arrays)
    elif suffix == "folder":
        path.mkdir()
        for name, values in arrays.items():
            np.save(path / f"{name}.npy", values)
    else:
        torch = pytest.importorskip("torch")
        tensors = {name: torch.tensor(values) for name, values in arrays.items()}
        if suffix == "pt":
            torch.save(tensors, path)
        else:
            from safetensors.torch import save_file

            save_file(tensors, path)
    data = dc.read(
        path, probabilities="p", label="y", domain="where", id="row", class_names=list("dce")
    )
    expected = dc.CalibrationData(
        dc.logits_from_probabilities(arrays["p"]), labels=arrays["y"], domains=arrays["where"],
        class_names=list("dce"),
    )  # fmt: skip
    assert_same(data, expected)
    assert dc.inspect(path, probabilities="p").ignored[0].startswith("logits")
    with pytest.raises(dc.errors.FileFormatError, match="'q', but there is no such array; the ar"):
        dc.read(path, label="q")
    with pytest.raises(dc.errors.FileFormatError, match="holds arrays, not columns; give the name"):
        dc.read(path, probabilities="p_*")
    with pytest.raises(dc.errors.FileFormatError, match="'p' is read as probabilities and as feat"):
        dc.read(path, probabilities="p", features="p")


def test_a_store_is_read_as_probabilities(tmp_path):
    p = FRAME[["p_dog", "p_cat", "p_emu"]].to_numpy()
    dc.write(dc.CalibrationData(p, domains=list("abca")), tmp_path / "store")
    found = dc.read(tmp_path / "store", probabilities="logits")
    np.testing.assert_array_equal(found.logits, dc.logits_from_probabilities(p))
    assert found.domains.tolist() == list("abca")


def test_columns_of_any_pandas_type_are_read():
    plain = dc.CalibrationData.from_frame(FRAME, **CHOICE)
    numbers = [name for name in FRAME if name[0] in "px"]
    forms = [
        FRAME.astype({"y": "category", "site": "category", "image": "Int64"}),
        FRAME.astype(dict.fromkeys(numbers, "Float64") | {"y": "string", "site": "string"}),
        FRAME.astype(object),
        FRAME.astype(dict.fromkeys(numbers, str)),
        FRAME.assign(**{name: FRAME[name].map(decimal.Decimal) for name in numbers}),
        FRAME.set_index("case"),
        FRAME.sample(frac=1.0, random_state=0).sort_index(),
        FRAME.convert_dtypes(),
        FRAME.assign(image=FRAME["image"].astype(float)),
    ]
    for frame in forms:
        assert_same(dc.CalibrationData.from_frame(frame, **CHOICE), plain)
    single = FRAME.astype(dict.fromkeys(numbers, np.float32))
    assert dc.CalibrationData.from_frame(single, logits="p_*").logits.dtype == np.float32


def test_columns_with_numbers_for_names_are_chosen_by_them():
    frame = pd.DataFrame([[0.5, 0.5, 1], [0.25, 0.75, 0]])
    data = dc.CalibrationData.from_frame(frame, probabilities=[0, 1], label=2)
    assert data.labels.tolist() == [1, 0]
    assert data.class_names is None


def test_rows_without_labels_need_none():
    frame = FRAME.assign(y=None)
    assert dc.CalibrationData.from_frame(frame, **CHOICE).labels is None


BAD = {
    "nothing matches": ({"probabilities": "q_*"}, "'q_*', which matches no column; the columns"),
    "no such column": ({"domain": "place"}, "'place', but there is no such column; the colu"),
    "the label too": (
        {"probabilities": "p_*", "features": "*e", "label": "case"},
        "'.e' of the features also matches 'case', the column of the labels",
    ),
    "the domain too": (
        {"probabilities": "p_*", "features": "si*", "domain": "site"},
        "also matches 'site', the column of the domains",
    ),
    "used twice": (
        {"probabilities": "p_*", "features": ["x_9"], "group": "x_9"},
        "'x_9' is read as groups and as features",
    ),
    "selected twice": (
        {"probabilities": "p_*", "features": ["x_*", "x_9"]}, "selects the column 'x_9' twice",
    ),
    "named twice": ({"probabilities": ["p_cat", "p_cat"]}, "contains 'p_cat' twice"),
    "both": ({"probabilities": "p_*", "logits": "x_*"}, "are both given; give one of them"),
    "two stars": ({"probabilities": "p*_*"}, "more than one '.'"),
    "one class": ({"probabilities": "p_c*"}, "matches 'p_cat' only"),
    "texts": ({"probabilities": "p_*", "features": "y"}, "'y' contains 'cat' in row 0"),
    "no probability": ({"probabilities": "x_9"}, "contains 2 in row 1, which is not a probability"),
    "other classes": (
        {"probabilities": "p_*", "class_names": list("abc")}, "after the classes dog, cat, emu",
    ),
    "two names": ({"probabilities": "p_*", "class_names": list("ab")}, "has 2 names, but the"),
    "one-based": ({"logits": "x_*"}, "the column 'x_0' is missing or occurs twice"),
    "no scores": ({"label": "y"}, "with logits=... .--logits. or probabilities=..."),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_bad_choice_is_one_error_with_the_cure(tmp_path, case):
    options, message = BAD[case]
    message = message.replace("_*", "_.").replace("(", ".")
    with pytest.raises(dc.errors.InputError, match=message):
        dc.CalibrationData.from_frame(FRAME, **options)
    for path in _files(FRAME, tmp_path):
        with pytest.raises(dc.errors.DomaincalError, match=message if case != "texts" else "'y'"):
            dc.read(path, **options)


MISSING = {
    "a domain": ("site", ["a", None, "b", "b"], "'site' (has no value|is empty) in row 1"),
    "a label": ("y", ["cat", "dog", None, "cat"], "'y' (has no value|is empty) in row 2"),
    "an unknown label": (
        "y", ["cat", "dog", "yak", "cat"],
        "'y' contains 'yak' in row 2, which is not a class: labels are 0 to 2 or dog, cat, emu",
    ),
    "a number that is no class": ("y", [0, 1, 2, 3], "'y' contains '3' in row 3, which is not"),
    "a feature": ("x_9", [1.0, 2.0, np.nan, 3.0], "row 2"),
}  # fmt: skip


@pytest.mark.parametrize("case", MISSING)
def test_bad_values_are_named_with_their_column(tmp_path, case):
    column, values, message = MISSING[case]
    frame = FRAME.assign(**{column: values})
    with pytest.raises(dc.errors.InputError, match=message):
        dc.CalibrationData.from_frame(frame, **CHOICE)
    for path in _files(frame, tmp_path):
        with pytest.raises(dc.errors.FileFormatError, match=message):
            dc.read(path, **CHOICE)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (["1", "2", "1", "3"], "'case' contains '1' in the rows 0 and 2; ids must be different"),
        (["1", "2", None, "3"], "'case' has no value in row 2"),
    ],
)
def test_ids_that_repeat_or_are_missing_are_refused(tmp_path, ids, message):
    for path in _files(FRAME.assign(case=ids), tmp_path):
        with pytest.raises(dc.errors.FileFormatError, match=message):
            dc.read(path, **CHOICE, id="case")
        assert len(dc.read(path, **CHOICE)) == 4


def test_frames_that_cannot_be_read_are_refused():
    read = dc.CalibrationData.from_frame
    with pytest.raises(dc.errors.InputError, match="must be a pandas DataFrame, got dict"):
        read({"prob": [0.5]})
    with pytest.raises(dc.errors.InputError, match="has no rows"):
        read(FRAME[:0], **CHOICE)
    with pytest.raises(dc.errors.InputError, match="has the column 'y' twice"):
        read(pd.concat([FRAME, FRAME[["y"]]], axis=1), **CHOICE)
    with pytest.raises(dc.errors.InputError, match="'site' must hold whole numbers or texts, not"):
        read(FRAME.assign(site=[1, "a", 2, "b"]), **CHOICE)
    with pytest.raises(dc.errors.InputError, match="'site' must hold whole numbers or texts, not"):
        read(FRAME.assign(site=pd.Timestamp("2020-01-01")), **CHOICE)


def test_default_names_in_two_cases_are_ambiguous():
    for columns in (
        ["prob", "Prob"], ["logit_a", "Logit_b", "logit_c"], ["prob_a", "prob_b", "label", "LABEL"],
    ):  # fmt: skip
        with pytest.raises(dc.errors.InputError, match=r"case; .* \(--"):
            layout_of(columns)
    named = layout_of(["prob_a", "prob_b", "label", "LABEL"], ColumnChoice(label="LABEL"))
    assert named.single == {"labels": "LABEL"}
    assert layout_of(["Prob_b", "Prob_a", "GROUP"]).taken == {
        "probabilities": ("Prob_b", "Prob_a"), "groups": ("GROUP",),
    }  # fmt: skip


def test_standard_input_is_read_within_its_limit(monkeypatch, tmp_path):
    content = FRAME.to_csv(index=False).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert_same(dc.read("-", **CHOICE), dc.CalibrationData.from_frame(FRAME, **CHOICE))

    class Endless(io.RawIOBase):
        taken = 0

        def readable(self):
            return True

        def readinto(self, buffer):
            buffer[:] = b"1" * len(buffer)
            Endless.taken += len(buffer)
            return len(buffer)

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(Endless())))
    with pytest.raises(dc.errors.FileFormatError, match=r"standard input has more than 5.0 MB"):
        dc.read("-", max_memory="5 MB")
    assert Endless.taken < 8e6


def test_packed_rows_are_limited_as_others_are(tmp_path):
    """A gzip bomb: 1 kB for each MB."""
    line = b"0.5,0.5\n" * 1000
    with gzip.open(tmp_path / "bomb.csv.gz", "wb") as file:
        file.write(b"prob_a,prob_b\n")
        for _ in range(10_000):
            file.write(line)
    with pytest.raises(dc.errors.FileFormatError, match="if you trust the file, allow more"):
        dc.read(tmp_path / "bomb.csv.gz")


@needs_pyarrow
def test_names_that_a_parquet_file_stores_do_not_rename_chosen_columns(tmp_path):
    data = dc.CalibrationData(np.eye(2), class_names=["a", "b"])
    dc.write(data, tmp_path / "s.parquet")
    frame = pd.read_parquet(tmp_path / "s.parquet")
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    stored = parquet.read_table(tmp_path / "s.parquet").schema.metadata
    table = pa.Table.from_pandas(frame.assign(u=1.0, v=2.0)).replace_schema_metadata(stored)
    parquet.write_table(table, tmp_path / "t.parquet")
    assert dc.read(tmp_path / "t.parquet").class_names == ("a", "b")
    assert dc.read(tmp_path / "t.parquet", logits=["u", "v"]).class_names == ("u", "v")
