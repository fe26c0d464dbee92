"""CalibratedDomainClassifier: scores, features, folds and bad input."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax
from sklearn.base import clone, is_classifier
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

import domaincal as dc
from domaincal.deploy.classifier_features import NumericColumns
from domaincal.deploy.model_scores import model_scores
from domaincal.errors import InputError, SmallDomainWarning
from patients import patients

TS = "ts"


@pytest.fixture(scope="module")
def three_classes():
    return patients(n_classes=3)


@pytest.fixture(scope="module")
def fitted(three_classes):
    X, y, _ = three_classes
    return LogisticRegression().fit(X, y)


def test_probabilities_are_the_softmax_of_the_scores_at_the_temperature(three_classes, fitted):
    X, y, site = three_classes
    model = dc.CalibratedDomainClassifier(fitted, TS).fit(X, y, domains=site)
    scores = fitted.decision_function(X)
    expected = dc.TemperatureScaling().fit(scores, np.searchsorted(fitted.classes_, y)).temperature_
    np.testing.assert_allclose(model.predict_temperature(X), expected)
    np.testing.assert_allclose(model.predict_proba(X), softmax(scores / expected, axis=1))


def test_it_is_a_classifier_with_the_classes_of_the_estimator(three_classes, fitted):
    X, y, site = three_classes
    model = dc.CalibratedDomainClassifier(fitted).fit(X, y, domains=site)
    assert is_classifier(model)
    assert model.classes_.tolist() == ["c0", "c1", "c2"]
    assert model.score(X, y) == fitted.score(X, y)
    assert model.calibrator_.provenance_.table["n_domains"].iloc[0] == len(set(site))


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(), LinearSVC(), GaussianNB(),
        RandomForestClassifier(5, random_state=0),
        make_pipeline(StandardScaler(), HistGradientBoostingClassifier(max_iter=3)),
    ],
    ids=["logistic", "svm", "bayes", "forest", "boosting"],
)  # fmt: skip
def test_the_predicted_classes_are_those_of_the_estimator(estimator, n_classes):
    X, y, site = patients(n_classes=n_classes)
    model = dc.CalibratedDomainClassifier(clone(estimator).fit(X, y), TS).fit(X, y, domains=site)
    predicted = model.predict(X)
    if not isinstance(estimator, RandomForestClassifier):  # equal votes: either class is right
        np.testing.assert_array_equal(predicted, model.estimator_.predict(X))
    p = model.predict_proba(X)
    assert p.shape == (len(X), n_classes)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.classes_[p.argmax(axis=1)], predicted)


def test_log_probabilities_stand_in_for_a_decision_function(three_classes):
    X, y, _ = three_classes
    bayes = GaussianNB().fit(X, y)
    model = dc.CalibratedDomainClassifier(bayes, TS).fit(X, y)
    p = bayes.predict_proba(X)
    assert (p > 0).all()
    assert model.probability_floor_ == 1e-12
    np.testing.assert_array_equal(model.calibration_data(X).logits, np.log(np.maximum(p, 1e-12)))


def test_zeros_of_a_forest_count_as_half_of_its_smallest_probability():
    X, y, site = patients(n_classes=3)
    half = np.arange(len(y)) % 2 == 0
    forest = RandomForestClassifier(10, random_state=0).fit(X[half], y[half])
    model = dc.CalibratedDomainClassifier(forest, TS).fit(X[~half], y[~half], domains=site[~half])
    p = forest.predict_proba(X[~half])
    assert (p == 0).any()
    assert model.probability_floor_ == p[p > 0].min() / 2
    one_row = model.calibration_data(X[~half][:1]).logits  # the floor is that of the fit
    assert one_row.min() >= np.log(model.probability_floor_)


def test_a_class_that_a_fold_lacks_has_probability_zero():
    X, y, site = patients(n_classes=3)
    y = np.where((y == "c2") & ((site != "ulm") | (X[:, 0] > 0)), "c0", y)
    forest = RandomForestClassifier(5, random_state=0)
    with pytest.warns(dc.DomaincalWarning, match="which occur in one fold only, and do not"):
        model = dc.CalibratedDomainClassifier(forest, TS, cv=6).fit(X, y, domains=site)
    assert 0.0 < model.calibrator_.temperature_ < 10.0


def test_a_decision_function_of_pairs_is_not_used(three_classes):
    X, y, _ = three_classes  # three classes have three pairs: the shape tells nothing
    machine = SVC(decision_function_shape="ovo").fit(X, y)
    with pytest.raises(InputError, match="decision_function_shape='ovr'"):
        model_scores(machine, X)
    by_class = SVC(decision_function_shape="ovr").fit(X, y)
    np.testing.assert_array_equal(model_scores(by_class, X).values, by_class.decision_function(X))


class ScoresOfPairs(GaussianNB):
    def decision_function(self, X):
        return np.zeros((len(X), 6))


def test_a_decision_function_with_other_columns_than_classes_is_not_used(three_classes):
    X, y, _ = three_classes
    estimator = ScoresOfPairs().fit(X, y)
    assert model_scores(estimator, X).are_probabilities


def test_folds_hold_whole_domains_and_the_estimator_is_fitted_to_all(three_classes):
    X, y, site = three_classes
    model = dc.CalibratedDomainClassifier(LogisticRegression(), TS, cv=3)
    model.fit(X, y, domains=site)
    scores = np.zeros((len(X), 3))
    for train, test in GroupKFold(3).split(X, y, groups=site):
        scores[test] = LogisticRegression().fit(X[train], y[train]).decision_function(X[test])
    expected = dc.TemperatureScaling().fit(scores, np.searchsorted(model.classes_, y))
    assert model.calibrator_.temperature_ == pytest.approx(expected.temperature_, rel=1e-12)
    np.testing.assert_array_equal(model.estimator_.coef_, LogisticRegression().fit(X, y).coef_)
    given = dc.CalibratedDomainClassifier(LogisticRegression(), TS, cv=GroupKFold(3))
    given.fit(X, y, domains=site)
    assert given.calibrator_.temperature_ == model.calibrator_.temperature_


def test_rows_of_a_class_that_one_fold_alone_has_do_not_take_part(three_classes):
    X, y, site = three_classes
    y = np.where((y == "c2") & (site != "ulm"), "c0", y)  # c2 occurs in one domain only
    model = dc.CalibratedDomainClassifier(LogisticRegression(), TS, cv=3)
    found = rf"{(y == 'c2').sum()} of 360 rows are of the classes 'c2', .* do not take part"
    with pytest.warns(dc.DomaincalWarning, match=found):
        model.fit(X, y, domains=site)
    assert model.classes_.tolist() == ["c0", "c1", "c2"]
    scores = np.zeros((len(X), 3))
    for train, test in GroupKFold(3).split(X, y, groups=site):
        fold = LogisticRegression().fit(X[train], y[train])
        found = fold.decision_function(X[test])
        if len(fold.classes_) == 2:  # log-odds of c1; c2 gets the lower of the two scores
            found = np.column_stack([np.zeros(len(test)), found, np.minimum(found, 0.0)])
        scores[test] = found
    kept = y != "c2"
    expected = dc.TemperatureScaling().fit(scores[kept], np.searchsorted(["c0", "c1"], y[kept]))
    assert model.calibrator_.temperature_ == pytest.approx(expected.temperature_, rel=1e-9)


def test_sample_weights_are_repetitions(three_classes, fitted):
    X, y, site = three_classes
    weight = np.arange(len(y)) % 3
    weighted = dc.CalibratedDomainClassifier(fitted, TS)
    weighted.fit(X, y, domains=site, sample_weight=weight)
    rows = np.repeat(np.arange(len(y)), weight)
    repeated = dc.CalibratedDomainClassifier(fitted, TS).fit(X[rows], y[rows])
    assert weighted.calibrator_.temperature_ == pytest.approx(repeated.calibrator_.temperature_)


def test_the_numeric_columns_of_a_frame_are_the_features():
    X, y, site = patients(n_classes=2)
    frame = pd.DataFrame(X, columns=["age", "dose", "weight"])
    frame["dose"] = frame["dose"].where(frame.index % 7 > 0)  # missing values
    frame["ward"] = pd.Categorical(["a", "b"] * (len(X) // 2))
    frame["visits"] = pd.array([1, None] * (len(X) // 2), dtype="Int64")
    frame["smokes"] = X[:, 0] > 0
    trees = HistGradientBoostingClassifier(max_iter=3, categorical_features="from_dtype")
    model = dc.CalibratedDomainClassifier(trees, "md-ts:head=ridge:target=log", cv=3)
    model.fit(frame, y, domains=site)
    names = ["age", "dose", "weight", "visits", "smokes"]
    assert list(model.calibrator_.feature_columns_) == names
    rows = model.calibration_data(frame, y, domains=site)
    expected = frame[names].astype({"visits": float, "smokes": float})
    expected = expected.fillna(expected.median())
    np.testing.assert_array_equal(rows.features, expected)
    # A function that does the same gives the same model.
    by_hand = dc.CalibratedDomainClassifier(
        trees, "md-ts:head=ridge:target=log", cv=3, features=lambda X: expected.loc[X.index]
    ).fit(frame, y, domains=site)
    np.testing.assert_array_equal(by_hand.predict_proba(frame), model.predict_proba(frame))


def test_the_medians_are_those_of_the_fit():
    found = NumericColumns.learn(np.array([[1.0, np.nan], [3.0, np.inf], [8.0, np.nan]]))
    np.testing.assert_array_equal(found.transform([[np.nan, np.nan]]), [[3.0, 0.0]])


def test_a_fitted_transformer_gives_the_features(three_classes, fitted):
    X, y, site = three_classes
    scaler = StandardScaler().fit(X)
    model = dc.CalibratedDomainClassifier(fitted, features=scaler).fit(X, y, domains=site)
    np.testing.assert_array_equal(model.calibration_data(X).features, scaler.transform(X))
    copy = clone(model).fit(X, y, domains=site)
    assert copy.features is scaler


def test_texts_and_sparse_matrices_have_no_features():
    rng = np.random.default_rng(0)
    words = np.array(["good", "bad", "film", "plot"])
    texts = [" ".join(rng.choice(words, 5)) for _ in range(240)]
    y = np.array(["good" in text for text in texts]) ^ (rng.random(240) < 0.2)
    site = np.repeat(["a", "b", "c", "d"], 60)
    pipeline = make_pipeline(TfidfVectorizer(), LogisticRegression())
    model = dc.CalibratedDomainClassifier(pipeline, cv=4).fit(texts, y, domains=site)
    assert model.calibration_data(texts).features is None
    assert model.predict(texts[:3]).dtype == bool
    sparse = TfidfVectorizer().fit_transform(texts)
    model = dc.CalibratedDomainClassifier(LogisticRegression(), TS, cv=4)
    model.fit(sparse, y, domains=site)
    assert model.calibration_data(sparse).features is None


def test_without_domains_there_is_one_temperature_and_a_warning(three_classes, fitted):
    X, y, _ = three_classes
    with pytest.warns(SmallDomainWarning, match="the rows have no domains"):
        model = dc.CalibratedDomainClassifier(fitted).fit(X, y)
    assert isinstance(model.calibrator_, dc.TemperatureScaling)


def test_rows_influence_each_other_only_in_batches(three_classes, fitted):
    X, y, site = three_classes
    alone = dc.CalibratedDomainClassifier(fitted).fit(X, y, domains=site)
    together = alone.predict_proba(X, domains=site)
    np.testing.assert_allclose(alone.predict_proba(X[7:8]), together[7:8], rtol=1e-9)
    batches = dc.CalibratedDomainClassifier(fitted, batch_size=50).fit(X, y, domains=site)
    with pytest.warns(dc.DomaincalWarning, match="360 rows without domains are taken as one batch"):
        batches.predict_proba(X)
    batches.predict_proba(X[:1])  # one row is one batch: no warning
    assert isinstance(batches.calibrator_, dc.BatchTemperatureScaling)
    temperatures = pd.Series(batches.predict_temperature(X, domains=site))
    assert (temperatures.groupby(site).nunique() == 1).all()
    assert temperatures.nunique() == len(set(site))


def test_a_clone_keeps_the_fitted_estimator_and_protects_its_parameters(three_classes, fitted):
    X, y, site = three_classes
    copy = clone(dc.CalibratedDomainClassifier(fitted, TS))
    assert isinstance(copy.estimator, FrozenEstimator)
    assert clone(copy).estimator is copy.estimator
    copy.fit(X, y, domains=site)
    np.testing.assert_array_equal(copy.predict(X), fitted.predict(X))
    with pytest.raises(ValueError, match="cannot set parameters of the inner estimator"):
        copy.set_params(estimator__C=2.0)
    folds = dc.CalibratedDomainClassifier(LogisticRegression(C=3.0), TS, cv=3)
    assert clone(folds).estimator is not folds.estimator
    assert clone(folds).estimator.C == 3.0


def test_scores_without_temperature_have_no_predict_temperature(three_classes, fitted):
    X, y, _ = three_classes
    model = dc.CalibratedDomainClassifier(fitted, dc.IsotonicCalibration()).fit(X, y)
    assert not hasattr(model, "predict_temperature")
    assert model.predict_proba(X).shape == (len(X), 3)


class OnlyPredicts(LogisticRegression):
    @property
    def decision_function(self):
        raise AttributeError

    predict_proba = decision_function


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"estimator": LogisticRegression()}, "is not fitted; fit it to other rows first, or"),
        ({"estimator": LinearRegression()}, "LinearRegression is not a classifier"),
        ({"method": "nonsense"}, "there is no method 'nonsense'"),
        ({"method": 3}, "method must be a calibrator of domaincal or the name of one"),
        ({"method": "ts", "batch_size": 20}, "batch_size=20 is for method='auto'"),
        ({"features": "age"}, "features must be 'numeric', a function of X"),
        ({"features": 3}, "features must be 'numeric', a function of X"),
        ({"cv": 1}, "cv must be at least 2 folds, got 1"),
        ({"cv": 9}, r"cv=9 folds need at least 9 domains, .* there are 6; use cv=6"),
        ({"cv": ShuffleSplit(2, random_state=0)}, "must test every row once, but tests row"),
        ({"estimator": OnlyPredicts(), "cv": 3}, "OnlyPredicts gives no score for each class"),
        ({"method": "md-ts", "features": None}, "needs features"),
    ],
)
def test_wrong_parameters_are_errors(three_classes, fitted, change, message):
    X, y, site = three_classes
    model = dc.CalibratedDomainClassifier(**{"estimator": fitted, **change})
    with pytest.raises((InputError, NotFittedError), match=message):
        model.fit(X, y, domains=site)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": None}, "the target y is None"),
        ({"y": [None, "c0"] * 180}, "y has no label in row 0"),
        ({"y": ["c0", "c9"] * 180}, r"y contains 'c9' \(row 1\), which the model has never seen"),
        ({"y": ["c0"]}, "inconsistent numbers of samples"),
        ({"domains": ["a"]}, "domains"),
        ({"domains": "site"}, r"'site' is a text; pass the domain .* such as frame\['site'\]"),
        ({"domains": [None, "a"] * 180}, "domains has no value in row 0"),
        ({"domains": [np.nan, 1.0] * 180}, "got nan in row 0; give every row a domain"),
        ({"sample_weight": [-1.0] * 360}, "sample_weight"),
    ],
)
def test_wrong_rows_of_a_fit_are_errors(three_classes, fitted, change, message):
    X, y, site = three_classes
    given = {"y": y, "domains": site, **change}
    with pytest.raises(ValueError, match=message):
        dc.CalibratedDomainClassifier(fitted, TS).fit(X, **given)


def test_x_with_other_columns_is_an_error(three_classes):
    X, y, site = three_classes
    frame = pd.DataFrame(X, columns=["age", "dose", "weight"])
    model = dc.CalibratedDomainClassifier(LogisticRegression().fit(frame, y), TS)
    with pytest.raises(NotFittedError):
        model.predict_proba(frame)
    model.fit(frame, y, domains=site)
    cure = "Pass X with the columns of the fit, in the same order"
    for wrong in (frame.drop(columns="age"), frame[["dose", "age", "weight"]]):
        with pytest.raises(InputError, match=rf"^[^\n]*names.*{cure}"):
            model.predict_proba(wrong)
    arrays = dc.CalibratedDomainClassifier(LogisticRegression().fit(X, y), TS).fit(X, y)
    with pytest.raises(InputError, match=rf"X has 2 features, but.*{cure}"):
        arrays.predict_proba(X[:, :2])
    with pytest.raises(InputError, match=r"Reshape your data"):
        arrays.predict_proba(X[0])
    texts = dc.CalibratedDomainClassifier(GaussianNB().fit(frame, y), "md-ts:target=log")
    texts.fit(frame, y, domains=site)
    with pytest.raises(InputError, match="'age' of X were numbers in the fit"):
        texts._feature_map.transform(frame.astype({"age": str}))


def test_labels_of_an_evaluation_must_be_known(three_classes, fitted):
    X, y, site = three_classes
    model = dc.CalibratedDomainClassifier(fitted, TS).fit(X, y, domains=site)
    with pytest.raises(InputError, match="which the model has never seen"):
        model.calibration_data(X, np.where(y == "c0", "zebra", y))
    with pytest.raises(InputError, match="pass its calibrator_, and as data"):
        dc.score_table(model, model.calibration_data(X, y, domains=site))
    table = dc.score_table(model.calibrator_, model.calibration_data(X, y, domains=site))
    assert len(table) == len(set(site))


def test_a_splitter_that_ignores_domains_is_used_as_it_is(three_classes):
    X, y, site = three_classes
    splitter = KFold(3, shuffle=True, random_state=0)
    model = dc.CalibratedDomainClassifier(LogisticRegression(), TS, cv=splitter)
    model.fit(X, y, domains=site)
    scores = np.zeros((len(X), 3))
    for train, test in splitter.split(X):
        scores[test] = LogisticRegression().fit(X[train], y[train]).decision_function(X[test])
    expected = dc.TemperatureScaling().fit(scores, np.searchsorted(model.classes_, y))
    assert model.calibrator_.temperature_ == pytest.approx(expected.temperature_, rel=1e-12)


def test_too_many_rows_of_classes_of_one_fold_are_an_error():
    """Without them the temperature would be fitted as if their classes were never the true ones."""
    X, y, site = patients(n_classes=3)
    y = np.where((y == "c2") & (site != "lyon"), "c0", y)
    assert (y == "c2").mean() > 0.05
    model = dc.CalibratedDomainClassifier(LogisticRegression(), TS, cv=6)
    with pytest.raises(InputError, match="too many to calibrate without them; use fewer folds"):
        model.fit(X, y, domains=site)


class NeedsAllClasses(LogisticRegression):
    def fit(self, X, y):
        if len(np.unique(y)) < 3:
            raise TypeError("labels must be 0, 1, 2")
        return super().fit(X, y)


def test_an_estimator_that_a_fold_cannot_fit_is_named_with_the_classes():
    X, y, site = patients(n_classes=3)
    y = np.where((y == "c2") & (site != "ulm"), "c0", y)
    model = dc.CalibratedDomainClassifier(NeedsAllClasses(), TS, cv=6)
    with pytest.raises(InputError, match=r"without the classes 'c2', .* \(labels must be 0, 1"):
        model.fit(X, y, domains=site)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cv": "prefit"}, "got 'prefit'; use None for an estimator that is fitted already"),
        ({"cv": GroupKFold(3)}, "splits by group; pass domains=..., the groups here"),
    ],
)
def test_wrong_folds_name_the_cure(three_classes, change, message):
    X, y, _ = three_classes
    with pytest.raises(InputError, match=message):
        dc.CalibratedDomainClassifier(LogisticRegression(), TS, **change).fit(X, y)


def test_series_in_another_order_than_x_are_refused(three_classes, fitted):
    X, y, site = three_classes
    frame = pd.DataFrame(X)
    labels, domains = pd.Series(y), pd.Series(site)
    model = dc.CalibratedDomainClassifier(fitted, TS)
    with pytest.raises(InputError, match=r"pass domains\.loc\[X\.index\], or arrays"):
        model.fit(frame, labels, domains=domains.sample(frac=1.0, random_state=0))
    with pytest.raises(InputError, match=r"pass y\.loc\[X\.index\]"):
        model.fit(frame, labels[::-1], domains=domains)
    model.fit(frame, labels, domains=domains)
    again = clone(model).fit(frame[::-1], labels[::-1], domains=domains[::-1])
    assert again.calibrator_.temperature_ == pytest.approx(model.calibrator_.temperature_)
    # Other labels in the index, as after a selection: by position, as in scikit-learn.
    model.fit(frame, labels.set_axis(range(5, 365)), domains=site)


def test_labels_can_be_booleans_or_zero_and_one(three_classes):
    X, y, site = three_classes
    y = y == "c0"
    models = [LogisticRegression().fit(X, kind) for kind in (y, y.astype(int), y.astype(float))]
    found = [
        dc.CalibratedDomainClassifier(model, TS).fit(X, labels, domains=site)
        for model in models
        for labels in (y, y.astype(int))
    ]
    assert len({one.calibrator_.temperature_ for one in found}) == 1


def test_fractional_weights_choose_a_method(three_classes, fitted):
    X, y, site = three_classes
    weight = np.linspace(0.5, 2.0, len(y))
    model = dc.CalibratedDomainClassifier(fitted)
    model.fit(X, y, domains=site, sample_weight=weight)
    assert len(model.calibrator_.provenance_.table) > 1


def test_a_model_that_returns_another_number_of_rows_is_an_error():
    frame = pd.DataFrame({"text": ["good film", "bad film", "good plot", "bad plot"] * 30})
    y, site = np.array([1, 0, 1, 1, 0, 0] * 20), np.repeat(["a", "b", "c", "d"], 30)
    pipeline = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(frame["text"], y)
    model = dc.CalibratedDomainClassifier(pipeline, TS)
    with pytest.raises(InputError, match="returned 1 rows of scores for 120 rows of X"):
        model.fit(frame, y, domains=site)
    model.fit(frame["text"], y, domains=site)


def test_one_class_is_an_error():
    X, y, site = patients()
    model = dc.CalibratedDomainClassifier(GaussianNB(), TS, cv=3)
    with pytest.raises(InputError, match="y has one class only, 'c0'"):
        model.fit(X, np.full(len(y), "c0"), domains=site)
