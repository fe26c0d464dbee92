"""CalibrationData and data frames as arguments of fit and predict; names of their columns."""

import importlib
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator

import domaincal as dc
from domaincal.statistics import LinearMap
from support import CALIBRATORS, fit, given, small_domains

pytestmark = pytest.mark.filterwarnings("ignore::domaincal.errors.PoorHeadWarning")

DATA = small_domains()
CLASSES = ("ant", "bee", "cat", "dog", "elk")
FEATURES = ("width", "height", "depth", "weight")


def _data_with_names():
    return dc.CalibrationData(
        DATA.logits, labels=DATA.labels, features=DATA.features, domains=DATA.domains,
        class_names=CLASSES, feature_names=FEATURES,
    )  # fmt: skip


def _frame(order=FEATURES):
    return pd.DataFrame(DATA.features, columns=list(FEATURES))[list(order)]


@pytest.mark.parametrize("make", CALIBRATORS.values(), ids=CALIBRATORS)
def test_calibration_data_replace_their_arrays(make):
    arrays, data = fit(make(), DATA), make().fit(DATA)
    np.testing.assert_array_equal(
        arrays.predict_proba(DATA.logits, **given(DATA)), data.predict_proba(DATA)
    )
    np.testing.assert_array_equal(
        arrays.predict_confidence(DATA.logits, **given(DATA)), data.predict_confidence(DATA)
    )


@pytest.mark.parametrize("make", CALIBRATORS.values(), ids=CALIBRATORS)
def test_predict_all_equals_the_single_predictions(make):
    calibrator = make().fit(DATA)
    found = calibrator.predict_all(DATA)
    np.testing.assert_array_equal(found.confidence, calibrator.predict_confidence(DATA))
    np.testing.assert_array_equal(found.probabilities, calibrator.predict_proba(DATA))
    if hasattr(calibrator, "predict_temperature"):
        np.testing.assert_array_equal(found.temperature, calibrator.predict_temperature(DATA))
    else:
        assert found.temperature is None


@pytest.mark.parametrize("make", CALIBRATORS.values(), ids=CALIBRATORS)
def test_score_rows_equals_the_metrics_of_the_probabilities(make):
    calibrator = make().fit(DATA)
    scores = calibrator.score_rows(DATA)
    p = calibrator.predict_proba(DATA)
    assert scores.nll.mean() == pytest.approx(dc.negative_log_likelihood(p, DATA.labels))
    assert scores.brier.mean() == pytest.approx(dc.brier_score(p, DATA.labels))
    np.testing.assert_array_equal(scores.confidence, calibrator.predict_confidence(DATA))


@pytest.mark.parametrize(
    "call",
    [
        lambda c: c.fit(DATA, DATA.labels),
        lambda c: c.fit(DATA, features=DATA.features),
        lambda c: c.fit(DATA, domains=DATA.domains),
        lambda c: c.fit(DATA).predict_proba(DATA, features=DATA.features),
        lambda c: c.fit(DATA).predict_all(DATA, domains=DATA.domains),
    ],
)
def test_calibration_data_and_arrays_together_are_refused(call):
    message = (
        r"got a CalibrationData.* and (y|features|domains) as well; pass either the data or arrays"
    )
    with pytest.raises(dc.errors.InputError, match=message):
        call(dc.MultiDomainTemperatureScaling())


def test_data_without_labels_are_refused_by_fit():
    bare = dc.CalibrationData(DATA.logits)
    with pytest.raises(dc.errors.InputError, match="the data have no labels, which fit needs"):
        dc.TemperatureScaling().fit(bare)


@pytest.mark.parametrize(
    "fitted",
    [
        lambda: dc.TemperatureScaling().fit(_data_with_names()),
        lambda: dc.TemperatureScaling().fit(
            pd.DataFrame(DATA.logits, columns=list(CLASSES)), DATA.labels
        ),
        lambda: dc.TemperatureScaling().fit(
            pd.DataFrame(DATA.logits, columns=list(CLASSES)), np.array(CLASSES)[DATA.labels]
        ),
    ],
    ids=["data", "frame", "labels by name"],
)
def test_class_names_are_stored_and_checked(fitted, tmp_path):
    calibrator = fitted()
    assert calibrator.class_names_ == CLASSES
    assert calibrator.temperature_ == fit(dc.TemperatureScaling(), DATA).temperature_
    calibrator.save(tmp_path / "model.safetensors")
    again = dc.load(tmp_path / "model.safetensors")
    reversed_columns = pd.DataFrame(DATA.logits, columns=list(CLASSES[::-1]))
    for one in (calibrator, again):
        one.predict_proba(_data_with_names())
        one.predict_proba(DATA.logits)  # without names there is no check
        with pytest.raises(dc.errors.InputError, match="'elk' in place of 'ant'"):
            one.predict_proba(reversed_columns)


def test_numbers_of_columns_are_not_names():
    calibrator = dc.MultiDomainTemperatureScaling().fit(
        pd.DataFrame(DATA.logits), DATA.labels, features=pd.DataFrame(DATA.features),
        domains=DATA.domains,
    )  # fmt: skip
    assert calibrator.class_names_ is None
    assert calibrator.feature_columns_ is None


@pytest.mark.parametrize("head", ["ols", "ridge", "knn"])
def test_features_in_another_order_are_reordered(head, tmp_path):
    calibrator = dc.MultiDomainTemperatureScaling(head).fit(
        DATA.logits, DATA.labels, features=_frame(), domains=DATA.domains
    )
    assert calibrator.feature_columns_ == FEATURES
    expected = calibrator.predict_temperature(DATA.logits, features=DATA.features)
    calibrator.save(tmp_path / "model.safetensors")
    shuffled = dc.CalibrationData(DATA.logits, features=_frame(FEATURES[::-1]))
    assert shuffled.feature_names == FEATURES[::-1]
    for one in (calibrator, dc.load(tmp_path / "model.safetensors")):
        for order in (FEATURES, FEATURES[::-1], ("weight", "width", "height", "depth")):
            t = one.predict_temperature(DATA.logits, features=_frame(order))
            np.testing.assert_allclose(t, expected, rtol=1e-12)
        np.testing.assert_allclose(one.predict_temperature(shuffled), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (("width", "height", "depth", "colour"), "lack 'weight' and have 'colour', which the fit"),
        (("width", "height", "depth"), "features lack 'weight'; pass the 4 columns of the fit"),
        ((*FEATURES, "colour"), "features have 'colour', which the fit did not have"),
    ],
)
def test_features_with_other_names_are_refused(columns, message):
    calibrator = dc.MultiDomainTemperatureScaling().fit(_data_with_names())
    frame = pd.DataFrame(np.zeros((len(DATA), len(columns))), columns=list(columns))
    with pytest.raises(dc.errors.InputError, match=message):
        calibrator.predict_proba(DATA.logits, features=frame)


@pytest.mark.parametrize("name", ["scores.csv", "scores.npz", "scores"])
def test_files_keep_feature_names(name, tmp_path):
    dc.write(_data_with_names(), tmp_path / name)
    assert dc.read(tmp_path / name).feature_names == FEATURES
    dc.write(DATA, tmp_path / f"plain-{name}")
    assert dc.read(tmp_path / f"plain-{name}").feature_names is None


def test_feature_names_are_kept_by_selection_and_concatenation():
    data = _data_with_names()
    assert data[:5].feature_names == FEATURES
    assert dc.concatenate([data, data]).feature_names == FEATURES
    with pytest.raises(dc.errors.InputError, match="disagree in their feature names"):
        dc.concatenate([data, replace(data, feature_names=FEATURES[::-1])])


def test_invalid_feature_names_are_refused():
    with pytest.raises(dc.errors.InputError, match="feature_names has 2 names, but the features"):
        dc.CalibrationData(DATA.logits, features=DATA.features, feature_names=["a", "b"])
    with pytest.raises(dc.errors.InputError, match="feature_names are given, but no features"):
        dc.CalibrationData(DATA.logits, feature_names=["a", "b"])


def test_tables_evaluate_the_head_once(monkeypatch):
    fitted = dc.MultiDomainTemperatureScaling().fit(DATA)
    calls = []
    original = LinearMap.__call__
    monkeypatch.setattr(
        LinearMap, "__call__", lambda self, x: calls.append(len(x)) or original(self, x)
    )
    dc.prediction_table(fitted, DATA)
    assert calls == [len(DATA)]
    calls.clear()
    dc.score_table(fitted, DATA)
    assert calls == [len(DATA)]


def test_numbered_features_in_another_order_are_put_right():
    calibrator = dc.MultiDomainTemperatureScaling().fit(
        DATA.logits, DATA.labels, features=pd.DataFrame(DATA.features), domains=DATA.domains
    )
    expected = calibrator.predict_temperature(DATA.logits, features=DATA.features)
    reversed_columns = pd.DataFrame(DATA.features).iloc[:, ::-1]
    t = calibrator.predict_temperature(DATA.logits, features=reversed_columns)
    np.testing.assert_allclose(t, expected, rtol=1e-12)


@pytest.mark.parametrize("columns", [[2, 0, 1, 4, 3], [1, 2, 3, 4, 5]])
def test_integer_class_columns_that_labels_could_not_count_are_refused(columns):
    logits = pd.DataFrame(DATA.logits, columns=columns)
    for use in (
        lambda: dc.CalibrationData(logits, labels=DATA.labels),
        lambda: dc.TemperatureScaling().fit(logits, DATA.labels),
    ):
        with pytest.raises(dc.errors.InputError, match="labels count the columns from 0; sort"):
            use()


def test_features_of_the_same_name_are_refused():
    twice = pd.DataFrame(DATA.features, columns=["a", "b", "b", "c"])
    calibrator = dc.MultiDomainTemperatureScaling()
    with pytest.raises(dc.errors.InputError, match="features have the column 'b' twice"):
        calibrator.fit(DATA.logits, DATA.labels, features=twice, domains=DATA.domains)
    calibrator.fit(_data_with_names())
    with pytest.raises(dc.errors.InputError, match="features have the column 'b' twice"):
        calibrator.predict_proba(DATA.logits, features=twice)


class _Own(BaseEstimator):
    """A calibrator of a user, which knows arrays only."""

    def fit(self, logits, y, *, features=None, domains=None):
        return self

    def predict_proba(self, logits, *, features=None, domains=None):
        return np.full(logits.shape, 1.0 / logits.shape[1])

    def predict_confidence(self, logits, *, features=None, domains=None):
        return np.full(len(logits), 1.0 / logits.shape[1])

    def predict_temperature(self, logits, *, features=None, domains=None):
        return np.ones(len(logits))


@pytest.mark.parametrize("make", [_Own, dc.TemperatureScaling])
def test_tables_refuse_classes_in_another_order(make):
    data, other = _data_with_names(), replace(_data_with_names(), class_names=CLASSES[::-1])
    fitted = make().fit(data.logits, data.labels)
    fitted.class_names_ = CLASSES
    for table in (dc.score_table, dc.prediction_table, dc.temperature_table):
        table(fitted, data)
        with pytest.raises(dc.errors.InputError, match="'elk' in place of 'ant'"):
            table(fitted, other)
    with pytest.raises(dc.errors.InputError, match="'elk' in place of 'ant'"):
        dc.evaluate(make(), train=data, test=other)


def test_tables_put_features_in_another_order_right():
    data = _data_with_names()
    fitted = dc.MultiDomainTemperatureScaling().fit(data)
    shuffled = replace(data, features=data.features[:, ::-1], feature_names=FEATURES[::-1])
    pd.testing.assert_frame_equal(
        dc.temperature_table(fitted, shuffled), dc.temperature_table(fitted, data)
    )


def test_a_method_that_ignores_features_does_not_compare_their_names():
    data = _data_with_names()
    other = replace(data, feature_names=("p", "q", "r", "s"))
    calibrator = dc.MultiDomainTemperatureScaling(features="logits")
    assert len(dc.evaluate(calibrator, train=data, test=other)) == 6


def test_scores_of_a_users_calibrator_do_not_depend_on_the_blocks(monkeypatch):
    module = importlib.import_module("domaincal.evaluation.score_table")
    whole = dc.score_table(_Own(), DATA)
    monkeypatch.setattr(module, "BLOCK_ELEMENTS", 1)
    pd.testing.assert_frame_equal(dc.score_table(_Own(), DATA), whole)


def test_scores_name_the_row_of_a_logit_that_is_not_finite():
    data, _ = dc.make_multi_domain(4, 20_000, 50, random_state=0)
    fitted = dc.TemperatureScaling().fit(data)
    logits = data.logits.copy()
    logits[70_000, 3] = np.nan
    with pytest.raises(dc.errors.InputError, match="row 70000, column 3"):
        fitted.score_rows(dc.CalibrationData(logits, labels=data.labels))
    with pytest.raises(dc.errors.InputError, match="data must be CalibrationData, got ndarray"):
        fitted.score_rows(logits)


def test_rows_with_named_features_are_appended_to_a_store_without_names(tmp_path):
    store = dc.Store(tmp_path / "rows")
    store.append(replace(_data_with_names(), feature_names=None))
    store.append(_data_with_names())
    assert len(store) == 2 * len(DATA)
    assert store.read().feature_names is None


def test_a_missing_label_is_named_by_its_row():
    labels = np.array(CLASSES, object)[DATA.labels]
    labels[5] = np.nan
    frame = pd.DataFrame(DATA.logits, columns=list(CLASSES))
    with pytest.raises(dc.errors.InputError, match="y has no value in row 5; drop the row"):
        dc.TemperatureScaling().fit(frame, labels)
    with pytest.raises(dc.errors.InputError, match=r"class_names=\.\.\. to CalibrationData"):
        dc.TemperatureScaling().fit(DATA.logits, np.array(CLASSES)[DATA.labels])


def test_a_subclass_that_learns_by_itself_predicts():
    class Fixed(dc.TemperatureScaling):
        def fit(self, logits, y):
            self.n_classes_, self.temperature_ = np.shape(logits)[1], 2.0
            return self

    expected = dc.MaxSoftmax().fit(DATA).predict_proba(DATA.logits / 2.0)
    found = Fixed().fit(DATA.logits, DATA.labels).predict_proba(DATA.logits)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
