"""Files of CalibratedDomainClassifier, and models that they do not belong to."""

import hashlib

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

import domaincal as dc
from crafted_models import read_model, write_model
from domaincal.calibrators.files.model_file import load_with_sections
from domaincal.errors import FileFormatError, InputError
from patients import patients

Model = dc.CalibratedDomainClassifier
CURE = "fit and save the calibrator again for this model"


@pytest.fixture(scope="module")
def trained():
    """Rows, an estimator and a model that was fitted to other rows."""
    X, y, site = patients(n_rows=120)
    frame = pd.DataFrame(X, columns=["age", "dose", "weight"])
    frame.loc[::6, "dose"] = np.nan
    half = np.arange(len(y)) % 2 == 0
    estimator = RandomForestClassifier(5, random_state=0).fit(frame[half], y[half])
    rows = frame[~half].reset_index(drop=True)
    return rows, estimator, Model(estimator).fit(rows, y[~half], domains=site[~half])


@pytest.fixture
def saved(trained, tmp_path):
    """Rows, an estimator, its file, a fitted model and the file of the model."""
    frame, estimator, model = trained
    estimator_file = tmp_path / "forest.bin"
    estimator_file.write_bytes(b"whatever the user wrote")
    path = tmp_path / "calibrator.safetensors"
    model.save(path, estimator_file=estimator_file)
    return frame, estimator, estimator_file, model, path


def test_a_loaded_model_gives_the_same_predictions(saved):
    frame, estimator, estimator_file, model, path = saved
    loaded = Model.load(path, estimator, estimator_file=estimator_file)
    np.testing.assert_array_equal(loaded.predict_proba(frame), model.predict_proba(frame))
    np.testing.assert_array_equal(loaded.predict(frame), model.predict(frame))
    assert loaded.classes_.dtype == model.classes_.dtype
    assert loaded.feature_names_in_.tolist() == ["age", "dose", "weight"]
    assert loaded.probability_floor_ == model.probability_floor_
    with pytest.raises(InputError, match="Pass X with the columns of the fit"):
        loaded.predict_proba(frame[["age", "weight", "dose"]])


def test_a_loaded_model_can_be_saved_cloned_and_fitted_again(saved, tmp_path):
    frame, estimator, estimator_file, model, path = saved
    loaded = Model.load(path, estimator, estimator_file=estimator_file)
    again = tmp_path / "again.safetensors"
    loaded.save(again, estimator_file=estimator_file)
    assert again.read_bytes() == path.read_bytes()
    y = model.predict(frame)
    y[::4] = "c0"
    refitted = loaded.fit(frame, y, domains=["a", "b", "c"] * 120)
    assert type(refitted.calibrator_) is type(model.calibrator_)


def test_the_file_names_the_model_and_is_a_calibrator(saved):
    frame, _, estimator_file, model, path = saved
    calibrator, sections = load_with_sections(path)
    digest = hashlib.sha256(estimator_file.read_bytes()).hexdigest()
    assert sections["classifier"]["estimator"] == "RandomForestClassifier"
    assert sections["classifier"]["estimator_sha256"] == digest
    rows = model.calibration_data(frame)
    np.testing.assert_array_equal(calibrator.predict_proba(rows), model.predict_proba(frame))
    assert dc.load(path).class_names_ == ("c0", "c1", "c2")


def test_another_model_is_refused(saved, tmp_path):
    frame, estimator, estimator_file, model, path = saved
    y = model.predict(frame)
    other_file = tmp_path / "other.bin"
    other_file.write_bytes(b"another model")
    with pytest.raises(FileFormatError, match=rf"another model than .*other\.bin.*{CURE}"):
        Model.load(path, estimator, estimator_file=other_file)
    with pytest.raises(InputError, match=r"pass estimator_file=\.\.\., the file that you read"):
        Model.load(path, estimator)
    for change, message in [
        ((frame, np.char.upper(y.astype(str))), r"the classes 'c0', 'c1', 'c2', but .* 'C0'"),
        ((frame.rename(columns={"age": "years"}), y), r"other columns .*: 'age', 'years'"),
        ((frame[["dose", "age", "weight"]], y), "other columns than the estimator has in their"),
        ((frame.to_numpy()[:, :2], y), "for 3 columns, but the estimator has 2"),
    ]:
        other = RandomForestClassifier(2, random_state=0).fit(*change)
        with pytest.raises(FileFormatError, match=rf"{message}.*{CURE}"):
            Model.load(path, other, estimator_file=estimator_file)


def test_files_that_were_saved_without_a_file_of_the_estimator(saved, tmp_path):
    _, estimator, estimator_file, model, _ = saved
    path = tmp_path / "alone.safetensors"
    model.save(path)
    assert Model.load(path, estimator).classes_.tolist() == ["c0", "c1", "c2"]
    with pytest.raises(InputError, match="saved without estimator_file"):
        Model.load(path, estimator, estimator_file=estimator_file)
    with pytest.raises(InputError, match="is a folder; pass a file"):
        model.save(path, estimator_file=tmp_path)


def test_an_estimator_that_is_not_fitted_is_refused(saved):
    _, _, estimator_file, _, path = saved
    with pytest.raises(NotFittedError, match="is not fitted"):
        Model.load(path, RandomForestClassifier(), estimator_file=estimator_file)


def test_files_of_plain_calibrators_are_refused(saved, tmp_path):
    _, estimator, _, model, _ = saved
    path = tmp_path / "plain.safetensors"
    model.calibrator_.save(path)
    with pytest.raises(InputError, match=r"not saved by CalibratedDomainClassifier; use .*load"):
        Model.load(path, estimator)


def test_features_by_code_must_be_given_again(tmp_path):
    X, y, site = patients()
    estimator = LogisticRegression().fit(X, y)
    scaler = StandardScaler().fit(X)
    path = tmp_path / "scaled.safetensors"
    model = Model(estimator, features=scaler).fit(X, y, domains=site)
    model.save(path)
    with pytest.raises(InputError, match="which no file can hold; pass the same one"):
        Model.load(path, estimator)
    loaded = Model.load(path, estimator, features=scaler.transform)
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    Model(estimator, features=None).fit(X, y, domains=site).save(path)
    with pytest.raises(InputError, match=r"needs no features=.* are none; leave it out"):
        Model.load(path, estimator, features=scaler)


@pytest.mark.parametrize(
    "labels", [[3, 7], [-1, 1], [0.5, 2.0], [False, True], ["a", "b"], np.array(["a", "b"], object)]
)
def test_classes_keep_their_type(labels, tmp_path):
    X, y, site = patients(n_classes=2)
    y = np.asarray(labels)[np.unique(y, return_inverse=True)[1]]
    if y.dtype.kind == "f":
        y = y * 2  # scikit-learn refuses fractions as classes
    estimator = LogisticRegression().fit(X, y)
    Model(estimator, "ts").fit(X, y, domains=site).save(tmp_path / "m.safetensors")
    loaded = Model.load(tmp_path / "m.safetensors", estimator)
    assert loaded.classes_.dtype.kind == estimator.classes_.dtype.kind
    np.testing.assert_array_equal(loaded.predict(X), estimator.predict(X))


def test_classes_that_no_file_can_hold(tmp_path):
    X, y, _ = patients(n_classes=2)
    mixed = np.where(y == "c0", 1, 2).astype(object)
    model = Model(LogisticRegression().fit(X, y), "ts").fit(X, y)
    model.classes_ = np.unique(mixed)
    with pytest.raises(InputError, match="classes of dtype object cannot be saved"):
        model.save(tmp_path / "m.safetensors")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("class_kind", "V"), ("class_kind", 3), ("classes", {"texts": ["a"]}), ("classes", 3),
        ("columns", ["age"]), ("columns", [1, 2, 3]), ("columns", "abc"), ("n_columns", -1),
        ("n_columns", True), ("n_columns", None), ("features", "code"), ("probability_floor", 2.0),
        ("probability_floor", "x"), ("estimator", 3), ("estimator_sha256", 3),
        ("positions", {"tensor": "classifier.medians"}), ("medians", 3), ("medians", None),
    ],
)  # fmt: skip
def test_altered_values_are_refused(saved, key, value):
    _, estimator, estimator_file, _, path = saved
    header, tensors = read_model(path)
    header["sections"]["classifier"][key] = value
    write_model(path, header, tensors)
    with pytest.raises(FileFormatError, match=r"calibrator\.safetensors"):
        Model.load(path, estimator, estimator_file=estimator_file)


@pytest.mark.parametrize("key", ["classes", "class_kind", "columns", "features", "positions"])
def test_missing_values_are_refused(saved, key):
    _, estimator, estimator_file, _, path = saved
    header, tensors = read_model(path)
    del header["sections"]["classifier"][key]
    write_model(path, header, tensors)
    with pytest.raises(FileFormatError, match=r"calibrator\.safetensors"):
        Model.load(path, estimator, estimator_file=estimator_file)


@pytest.mark.parametrize("sections", [3, [], {"classifier": 3}, {"classifier": {"x": {"y": 1}}}])
def test_sections_of_a_wrong_form_are_refused(saved, sections):
    path = saved[-1]
    header, tensors = read_model(path)
    header["sections"] = sections
    write_model(path, header, tensors)
    with pytest.raises(FileFormatError):
        dc.load(path)
