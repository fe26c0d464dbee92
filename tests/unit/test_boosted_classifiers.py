"""CalibratedDomainClassifier with LightGBM and XGBoost."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline

import domaincal as dc
from domaincal.deploy.model_scores import model_scores
from patients import patients


def _lightgbm():
    package = pytest.importorskip("lightgbm")
    return package.LGBMClassifier(
        n_estimators=5, learning_rate=0.5, num_leaves=4, n_jobs=1, verbose=-1
    )


def _xgboost():
    package = pytest.importorskip("xgboost")
    return package.XGBClassifier(n_estimators=5, max_depth=2, n_jobs=1)


MODELS = {"lightgbm": _lightgbm, "xgboost": _xgboost}


def _frame(n_classes):
    """Data frame with missing values, integer labels and sites."""
    X, y, site = patients(n_classes=n_classes)
    frame = pd.DataFrame(X, columns=["age", "dose", "weight"])
    frame.loc[::5, "dose"] = np.nan
    return frame, np.unique(y, return_inverse=True)[1], site


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_the_scores_are_margins(make, n_classes):
    X, y, _ = _frame(n_classes)
    model = make().fit(X, y)
    scores = model_scores(model, X)
    assert not scores.are_probabilities
    np.testing.assert_allclose(
        softmax(scores.values, axis=1), model.predict_proba(X), rtol=1e-4, atol=1e-6
    )
    # Margins in a pipeline, too: log-probabilities would be equal up to a constant only.
    pipeline = make_pipeline(SimpleImputer(), make()).fit(X, y)
    margins = model_scores(pipeline, X).values
    expected = model_scores(pipeline[-1], pipeline[0].transform(X)).values
    np.testing.assert_array_equal(margins, expected)
    alone = make_pipeline(make()).fit(X, y)
    np.testing.assert_array_equal(model_scores(alone, X).values, scores.values)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_models_with_missing_values_are_calibrated(make, n_classes):
    X, y, site = _frame(n_classes)
    model = dc.CalibratedDomainClassifier(make(), cv=3).fit(X, y, domains=site)
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-6)
    np.testing.assert_array_equal(model.predict(X), model.estimator_.predict(X))
    assert np.isfinite(model.predict_temperature(X)).all()


def test_lightgbm_takes_string_labels_and_categories():
    X, y, site = _frame(3)
    X["ward"] = pd.Categorical(np.where(X["age"] > 0, "a", "b"))
    labels = np.array(["c0", "c1", "c2"])[y]
    model = dc.CalibratedDomainClassifier(_lightgbm(), "ts", cv=3).fit(X, labels, domains=site)
    assert set(model.predict(X)) <= set(labels)
    assert model.calibration_data(X).feature_names == ("age", "dose", "weight")


def test_a_lightgbm_booster_is_an_estimator():
    X, y, site = _frame(3)
    booster = _lightgbm().fit(X, y).booster_
    model = dc.CalibratedDomainClassifier(booster, "ts").fit(X, y, domains=site)
    assert model.classes_.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(model.predict(X), booster.predict(X).argmax(axis=1))


def test_spaces_in_the_names_of_columns_do_not_hinder_loading(tmp_path):
    X, y, site = _frame(3)
    X = X.rename(columns={"age": "age at visit"})
    estimator = _lightgbm().fit(X, y)
    assert "age_at_visit" in estimator.feature_names_in_
    path = tmp_path / "m.safetensors"
    model = dc.CalibratedDomainClassifier(estimator, "ts").fit(X, y, domains=site)
    model.save(path)
    loaded = dc.CalibratedDomainClassifier.load(path, estimator)
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_a_booster_of_xgboost_is_refused():
    X, y, site = _frame(3)
    booster = _xgboost().fit(X, y).get_booster()
    with pytest.raises(dc.errors.InputError, match=r"read its file with XGBClassifier\(\)"):
        dc.CalibratedDomainClassifier(booster, "ts").fit(X, y, domains=site)


def test_a_regressor_is_refused():
    package = pytest.importorskip("lightgbm")
    X, y, site = _frame(2)
    estimator = package.LGBMRegressor(n_estimators=2, verbose=-1).fit(X, y)
    with pytest.raises(dc.errors.InputError, match="LGBMRegressor is not a classifier"):
        dc.CalibratedDomainClassifier(estimator, "ts").fit(X, y, domains=site)
