"""Estimators of the accuracy in model files: kept exactly, and forged files are refused."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import domaincal as dc
from crafted_models import altered_models, read_model, write_model
from domaincal._warnings import handle_warnings

DATA, _ = dc.make_multi_domain(n_domains=10, n_rows=40, n_classes=3, n_features=2, random_state=0)
ARCHIVES = Path(__file__).parents[1] / "archives"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.safetensors"
    estimator = dc.shift.ConfidenceEstimator().fit(DATA)
    dc.shift.save_estimator(estimator, path, calibrator=dc.TemperatureScaling().fit(DATA))
    return path


def test_a_loaded_estimator_gives_the_same_table(model):
    expected = dc.shift.ConfidenceEstimator().fit(DATA).predict(DATA)
    pd.testing.assert_frame_equal(dc.shift.load_estimator(model).predict(DATA), expected)
    assert isinstance(dc.load(model), dc.TemperatureScaling)


def test_names_of_classes_and_features_are_kept(tmp_path):
    named = replace(DATA, class_names=("a", "b", "c"), feature_names=("x", "y"))
    path = tmp_path / "model.safetensors"
    estimator = dc.shift.ConfidenceEstimator(coverage=0.8).fit(named)
    dc.shift.save_estimator(estimator, path, calibrator=dc.TemperatureScaling().fit(named))
    loaded = dc.shift.load_estimator(path)
    assert loaded.coverage == 0.8
    assert loaded.class_names_ == ("a", "b", "c")
    assert loaded.feature_columns_ == ("x", "y")
    with pytest.raises(dc.DomaincalError, match="classes of the data differ"):
        loaded.predict(replace(named, class_names=("b", "a", "c")))


def test_the_file_holds_no_rows(model):
    _, tensors = read_model(model)
    assert not any(len(DATA) in values.shape for values in tensors.values())


def test_files_without_the_section_say_what_is_missing(tmp_path):
    for path in (ARCHIVES / "v5" / "ts.safetensors", ARCHIVES / "v1" / "ts.safetensors"):
        with pytest.raises(dc.DomaincalError, match=r"tells nothing about.*domaincal fit"):
            dc.shift.load_estimator(path)


def test_only_the_default_calibrator_can_be_saved(tmp_path):
    estimator = dc.shift.ConfidenceEstimator(dc.TemperatureScaling()).fit(DATA)
    with pytest.raises(dc.DomaincalError, match="with TemperatureScaling cannot be saved"):
        dc.shift.save_estimator(
            estimator, tmp_path / "m.safetensors", calibrator=dc.TemperatureScaling().fit(DATA)
        )


def test_a_calibrator_of_other_classes_is_refused(model, tmp_path):
    other, _ = dc.make_multi_domain(n_domains=3, n_rows=20, n_classes=4, random_state=0)
    path = tmp_path / "model.safetensors"
    dc.shift.save_estimator(
        dc.shift.load_estimator(model), path, calibrator=dc.TemperatureScaling().fit(other)
    )
    with pytest.raises(dc.DomaincalError, match="numbers of classes"):
        dc.shift.load_estimator(path)


def test_an_altered_section_is_refused_or_its_table_is_valid(model, tmp_path):
    header, tensors = read_model(model)
    section = header["sections"]["accuracy"]
    # The values of calibrators are altered in test_crafted_models.py: here one is enough.
    theirs = {key for key in section if key.startswith("calibrator.")} - {"calibrator.batch_map_"}
    content = {key: value for key, value in section.items() if key not in theirs}
    names = ("accuracy.covered", "accuracy.sizes", "accuracy.residuals")
    own = {name: values for name, values in tensors.items() if name.startswith(names)}
    path, n_refused = tmp_path / "altered.safetensors", 0
    for what, changed, arrays in altered_models(content, own):
        kept = {key: section[key] for key in theirs}
        sections = {"sections": {"accuracy": {**kept, **changed}}}
        write_model(path, {**header, **sections}, {**tensors, **arrays})
        try:
            with handle_warnings(lambda message, category: None):
                table = dc.shift.load_estimator(path).predict(DATA)
        except dc.DomaincalError:
            n_refused += 1
            continue
        values = table[["predicted_accuracy", "low", "high"]].to_numpy()
        assert ((values >= 0.0) & (values <= 1.0)).all(), what
    assert n_refused > 500
